"""A prompt of one's own: the same noise for both models, where they part, siblings, attention, and
every bad input."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from engine.cli import main
from engine.core.errors import RequestError
from engine.core.types import HeadMask, Hooks
from engine.models.load_language_model import load_language_model
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.surgery.heads.mask import masked
from engine.surgery.record import MaskRecord, write_mask
from engine.tracks.language_models.checkpoint import mask_record
from engine.tracks.language_models.playground import (
    MOST_CHARACTERS,
    MOST_TOKENS,
    exchanged,
    group_words,
    named_in,
    siblings,
)
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.side_by_side import first_difference, pieces
from tests import builders
from tests.builders import call, seal
from tests.pages.checks import assert_calm, charts_of, click, html_of, opened, use_store, words_of
from tests.tracks.language_models.worlds import world_request, write_rows

pytestmark = pytest.mark.usefixtures("words_judged_here")
VARIANT = "magnitude-s0.300"
TYPED = "w1 w30 w31"
ASKED = "prompt", {"prompt": TYPED}


@pytest.fixture(scope="module")
def run(store, words_judged_here, tmp_path_factory) -> Run:
    """Of prompts that name their subgroup: w1 or w2."""
    folder = tmp_path_factory.mktemp("world")
    rows = [
        (
            f"w20 w{group} w{10 + at} w{(at * 7) % 10 + 30}",
            "religion",
            f"group{group}",
            f"t{at % 3}",
            f"w{group}",
        )
        for group in (1, 2)
        for at in range(12)
    ]
    prompts = str(write_rows(folder / "named.csv", rows))
    request = world_request(
        folder, axes=("religion",), prompts=prompts, methods=("magnitude",), seeds=1
    )
    return run_audit(request, store)


def kept(run: Run, variant: str) -> pd.DataFrame:
    """Test prompts with the text that the audit kept of a variant at its first seed, and its
    score."""
    generations = run.table("generations").query(
        "variant == @variant and split == 'test' and seed == 0"
    )
    table = generations.merge(run.table("texts"), on="text_id").merge(
        run.table("prompts"), on="prompt_id"
    )
    return table.rename(columns={"text_x": "text", "text_y": "prompt"})


def test_a_prompt_of_the_run_gets_the_texts_and_scores_of_the_audit(run, ask):
    before, after = kept(run, "dense").set_index("prompt"), kept(run, VARIANT).set_index("prompt")
    parted = 0
    for prompt in before.index[:6]:
        (row,) = ask(prompt=prompt, variant=VARIANT, seed=0)["rows"]
        for side, table in (("dense", before), ("pruned", after)):
            assert row[side]["text"] == table.loc[prompt, "text"]
            assert row[side]["score"] == pytest.approx(table.loc[prompt, "toxicity"])
        parted += row["parts_at"] is not None
    assert parted, "the cut changes some of them"


def test_without_a_cut_both_write_the_same(ask):
    (row,) = ask(heads=[], tokens=20)["rows"]
    assert row["dense"] == row["pruned"] and row["parts_at"] is None
    assert all(one["dense"] == one["pruned"] and not one["drawn_by"] for one in row["next"])
    assert ask(heads=[], tokens=20, seed=1)["rows"][0]["dense"]["text"] != row["dense"]["text"]


def test_texts_are_told_as_they_grow_and_the_dense_one_is_written_once(run, store):
    warm = Warm()

    def told(**given) -> tuple[list, dict]:
        rows: list = []
        given = {"run": run.id, "prompt": TYPED, "tokens": 5, **given}
        return rows, answer_here("prompt", given, store, Hooks(point=rows.append), warm)

    rows, answer = told(heads=["0.1"])
    for side in ("dense", "pruned"):
        mine = [row["text"] for row in rows if row["side"] == side]
        assert len(mine) == len(answer["rows"][0][side]["pieces"]) > 1
        assert mine[-1] == answer["rows"][0][side]["text"] and mine[0] != mine[-1]
    loaded = [name for name in warm.names() if "model" in name]
    rows, _ = told(heads=["1.1"])
    assert [row["side"] for row in rows].count("dense") == 1, "what is known is told at once"
    assert [name for name in warm.names() if "model" in name] == loaded and len(loaded) == 1


def test_a_file_changed_beside_the_weights_is_read_again(run, store):
    """Two words change places in the tokenizer, and so in the text."""
    warm = Warm()

    def dense() -> list[str]:
        given = {"run": run.id, "prompt": TYPED}
        return answer_here("prompt", given, store, warm=warm)["rows"][0]["dense"]["text"].split()

    before = dense()
    word, other = before[0], next(f"w{at}" for at in range(2, 30) if f"w{at}" not in before)
    with builders.exchanged(run.meta["request"]["model"], word, other):
        assert dense() == [other if one == word else one for one in before]
    assert dense() == before and sum("language model" in name for name in warm.names()) == 2


def test_where_they_part_is_the_first_token_that_differs(ask):
    (row,) = ask(heads=["0.0", "0.1", 6, "7"], tokens=30)["rows"]
    at, dense, pruned = row["parts_at"], row["dense"]["pieces"], row["pruned"]["pieces"]
    assert dense[:at] == pruned[:at] and dense[at : at + 1] != pruned[at : at + 1]
    assert "".join(dense).strip() == row["dense"]["text"]
    assert sorted(sum((one["drawn_by"] for one in row["next"]), [])) == ["dense", "pruned"]


def test_first_difference():
    pairs = ([1, 2], [1, 2]), ([1, 2], [1, 3]), ([1], [1, 3]), ([], [4]), ([], [])
    assert [first_difference(*pair) for pair in pairs] == [None, 1, 1, 0, None]


def test_next_probabilities_are_those_of_the_model_at_that_point(run, ask):
    (row,) = ask(heads=["0.0", "0.1", "1.2", "1.3"], tokens=30)["rows"]
    lm = load_language_model(run.meta["request"]["model"], device="cpu")
    words = TYPED.split() + [piece.strip() for piece in row["dense"]["pieces"][: row["parts_at"]]]
    ids = torch.tensor([lm.tokenizer.convert_tokens_to_ids(words)])
    known = {"⟨end⟩": lm.tokenizer.eos_token_id, **lm.tokenizer.get_vocab()}
    for side, cut in (("dense", ()), ("pruned", ((0, 0), (0, 1), (1, 2), (1, 3)))):
        with torch.no_grad(), masked(lm, HeadMask(3, 4, cut)):
            expected = lm.model(ids).logits[0, -1].double().softmax(-1)
        assert len(row["next"]) >= 8
        for one in row["next"]:
            assert one[side] == pytest.approx(float(expected[known[one["token"]]]), abs=1e-5)


def test_attention_is_that_of_the_head_and_none_where_it_is_off(ask):
    found = ask(heads=["0.1"], head="2.3")["attention"]
    dense, pruned = np.array(found["dense"]), np.array(found["pruned"])
    assert found["tokens"] == TYPED.split() and dense.shape == (3, 3)
    for one in (dense, pruned):
        np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-6)
        assert not np.triu(one, 1).any()
    assert np.abs(dense - pruned).max() > 1e-4, "a head before it is off"
    assert ask(heads=["2.3"], head="2.3")["attention"]["pruned"] is None


def test_siblings_share_the_noise_and_differ_in_the_word(run, ask):
    prompt = kept(run, "dense").query("subgroup == 'group1'")["prompt"].iloc[0]
    first, other = ask(prompt=prompt, siblings=True, heads=["0.1"])["rows"]
    assert (first["word"], first["subgroup"], other["word"], other["subgroup"]) == (
        "w1",
        "group1",
        "w2",
        "group2",
    )
    assert other["prompt"] == prompt.replace("w1 ", "w2 ")
    again = ask(prompt=prompt, siblings=["w2", "w9"], heads=["0.1"])["rows"]
    assert [row["word"] for row in again] == ["w1", "w2", "w9"] and again[2]["subgroup"] == ""
    assert again[1] == other, "a text does not depend on its batch"
    assert "No sibling" in ask(prompt="w40 w41", siblings=True)["notes"][0]


def prompts_of(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["axis", "subgroup", "descriptor", "text"])


def test_a_sibling_is_the_word_of_the_same_rank_of_each_other_subgroup():
    table = prompts_of(
        ("faith", "north", "ashen", "an ashen cook"),
        ("faith", "north", "pale", "a pale cook"),
        ("faith", "south", "bright", "a bright cook"),
        ("faith", "south", "warm", "a warm cook"),
        ("faith", "east", "early", "a early cook"),
        ("land", "vale", "", "vale people"),
        ("land", "hill", "", "hill"),
    )
    words = group_words(table, ["faith", "land"])
    found = named_in("A Pale friend, so pale.", words)
    assert (found["axis"], found["subgroup"]) == ("faith", "north")
    rows = siblings("A Pale friend, so pale.", words, found, texts=table["text"])
    assert [(row.subgroup, row.prompt) for row in rows] == [
        ("north", "A Pale friend, so pale."),
        ("east", "A Early friend, so early."),
        ("south", "A Warm friend, so warm."),
    ]
    assert named_in("the vale", words)["word"] == "vale", (
        "where no descriptor is known, the subgroup's name"
    )
    assert named_in("paleness", words) is None
    assert exchanged("an ashen cook", "ashen", "warm") == "a warm cook"
    assert exchanged("(a.b) a.b+", "a.b", r"\1") == r"(\1) \1+"


class Bytes:
    """A tokenizer of bytes: a letter beyond ASCII takes several tokens."""

    def decode(self, ids, skip_special_tokens=True):
        return bytes(ids).decode("utf-8", errors="replace")


def test_pieces_make_the_text_also_where_a_letter_takes_several_tokens():
    class Model:
        tokenizer = Bytes()

    found = pieces(Model, list("aé€ b".encode()))
    assert found == ["a", "", "é", "", "", "€", " ", "b"]
    assert pieces(Model, []) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt": 7}, "prompt: is empty"),
        ({"prompt": "w1 " * 400_000}, f"has 1,200,000 characters; at most {MOST_CHARACTERS:,}"),
        ({"prompt": "w1 \ud800"}, "half of a character"),
        ({"prompt": "w1 " * 59}, "has 59 tokens; .* has 64 positions, so 58 fit beside 6 new ones"),
        ({"prompt": "w1 " * 300}, "has more than 64 tokens"),
        ({"heads": "0.1"}, "no list"),
        ({"heads": [True]}, "'True' is no head"),
        ({"tokens": MOST_TOKENS + 1}, f"tokens: .* Give a whole number, 1 to {MOST_TOKENS}"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"siblings": "w2"}, "no list of words"),
        ({"siblings": ["w2"] * 13}, "no list of words"),
        ({"axis": "nation"}, "axis: 'nation' is not known. Known: religion"),
        ({"head": "9.9"}, "outside"),
        ({"promt": "w1"}, "'promt' is not known"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(ask, given, told):
    """What can be typed as a command stands in tests/cli/wrong_words.csv."""
    with pytest.raises(RequestError, match=told):
        ask(**given)


def test_a_run_with_other_weights_or_without_its_model_is_refused(run, copy, store, tmp_path):
    for told, part, change in (
        ("has weights .* now; the audit .* was made with 0000", "model", {"weight_hash": "0" * 64}),
        ("judge: word judge has weights", "judge", {"hash": "0" * 64}),
        ("gone: is not a folder", "request", {"model": str(tmp_path / "gone")}),
    ):
        seal(copy.path, {**run.meta, part: {**run.meta[part], **change}})
        with pytest.raises(RequestError, match=told):
            answer_here("prompt", {"run": run.id, "prompt": TYPED}, Store(tmp_path))


def test_control_characters_are_said_and_do_not_reach_the_terminal(run, store, capsys):
    prompt, steering = "w1 \x1b[31m w2 \x9b \u202e", {"\x1b", "\x9b", "\u202e"}
    words = ["ask", run.id, "--prompt", prompt, "--heads", "0.1", "--store", str(store.root)]
    assert main([*words, "--show-offensive"]) == 0
    shown = capsys.readouterr().out
    assert "3 control characters in the prompt" in shown and not set(shown) & steering
    assert main([*words, "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["rows"][0]["prompt"] == prompt and not set(out) & steering


def record_of(run: Run) -> MaskRecord:
    variants = run.table("variants").set_index("variant", drop=False)
    return mask_record(run, variants.loc[VARIANT].to_dict())


def test_the_command_redacts_unless_it_is_told_not_to(run, store, ask, capsys, tmp_path):
    path = write_mask(tmp_path / "mask.json", record_of(run))
    (whole,) = ask(variant=VARIANT)["rows"]
    words = ["ask", run.id, "--prompt", TYPED, "--mask", str(path), "--store", str(store.root)]
    for more, is_shown in (((), False), (("--show-offensive",), True)):
        (row,) = call(capsys, *words, "--json", *more)[1]["rows"]
        for side in ("dense", "pruned"):
            for part, is_kept in (("text", is_shown), ("pieces", is_shown), ("score", True)):
                assert (row[side][part] == whole[side][part]) == is_kept
        assert ({one["token"] for one in row["next"]} != {"[hidden]"}) == is_shown
        out = call(capsys, *words, *more)[1]
        assert (whole["pruned"]["text"] in out) == is_shown and "anecdote" in out


def test_the_command_refuses_a_mask_of_another_model_and_of_means(run, store, capsys, tmp_path):
    record = record_of(run)
    means = tuple((0.0,) for _ in record.units)
    for at, (change, said) in enumerate(
        (
            ({"weight_hash": "1" * 64}, "is for weights 111"),
            ({"means": means}, "sets heads to their means"),
        )
    ):
        mask = write_mask(tmp_path / f"{at}.json", replace(record, **change))
        words = ["ask", run.id, "--prompt", TYPED, "--store", str(store.root), "--mask", str(mask)]
        assert main(words) == 2 and said in capsys.readouterr().err


@pytest.fixture
def page(run, store, monkeypatch):
    use_store(store.root, monkeypatch)
    return opened("playground", run.id, sparsity="30 %")


def test_the_page_writes_hides_and_shows(run, page):
    assert_calm(page)
    assert "anecdote" in page.info[0].value and "Press Run" in words_of(page)
    prompt = page.text_area(key="prompt").value
    assert prompt in set(run.table("prompts")["text"])
    click(page, "Run")
    assert_calm(page)
    variant = "magnitude-s0.300"
    text = kept(run, variant).set_index("prompt").loc[prompt, "text"]
    assert text not in html_of(page) and 'class="pa-veil"' in html_of(page)
    assert text.split()[0] not in json.dumps(charts_of(page)), "tokens are hidden in the chart too"
    page.toggle(key="show_written").set_value(True).run()
    assert_calm(page)
    plain = html_of(page).replace('<mark class="pa-mark">', "").replace("</mark>", "")
    assert text in plain and 'class="pa-veil"' not in plain
    page.select_slider(key="sparsity").set_value(0.1).run()
    assert "Press Run" in words_of(page), "an answer to another question is not shown"


def test_the_page_takes_prompts_and_shows_siblings_and_attention(page):
    first = page.text_area(key="prompt").value
    click(page, "Take one")
    assert page.text_area(key="prompt").value != first
    page.toggle(key="siblings").set_value(True)
    page.selectbox(key="looked_at").set_value(11)
    click(page, "Run")
    assert_calm(page)
    assert "And about each other subgroup" in words_of(page)
    assert any("layer 2, head 3" in item.value for item in page.header)
    assert list(page.dataframe[0].value["Word"]) == ["w1", "w2"]


def test_the_page_says_what_is_wrong_and_escapes_what_is_typed(page):
    page.text_area(key="prompt").set_value("<script>alert(1)</script> \x1b \u202e")
    page.text_input(key="heads_off").set_value("0.1, 9.9; <b>")
    click(page, "Run")
    assert [item.value for item in page.exception] == []
    assert any("no head" in item.value for item in page.error) and not any(
        "<b>" in item.value for item in page.error
    )
    page.text_input(key="heads_off").set_value("0.1")
    click(page, "Run")
    assert_calm(page)
    shown = html_of(page)
    assert "&lt;script&gt;" in shown and not any(
        bad in shown for bad in ("<script", "\x1b", "\u202e")
    )
    assert "control characters" in words_of(page)
