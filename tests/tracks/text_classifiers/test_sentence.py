"""A sentence of one's own: the answers are the audit's, the words' weights Captum's, and bad input
is refused."""

import numpy as np
import pytest
from captum.attr import LayerIntegratedGradients

from engine.cli import main
from engine.core.errors import RequestError
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import Store
from engine.tracks.text_classifiers.captum_layers import STEPS_OF_WORDS, word_attributions
from engine.tracks.text_classifiers.run import run_text_audit
from engine.tracks.text_classifiers.sentence import MOST_CHARACTERS, ON_DENSE, words_of
from engine.training.losses import log_odds
from tests.builders import call, changed, exchanged
from tests.pages.checks import assert_calm, click, html_of
from tests.pages.checks import words_of as read
from tests.tiny import tiny_text_classifier
from tests.tracks.text_classifiers.worlds import text_request, text_world

METHODS = ("isp:magnitude", "once:random")
TEXT = "w1 w10 w13 w15"
ASKED = "sentence", {"text": TEXT}


@pytest.fixture(scope="module")
def run(store, tmp_path_factory):
    world = text_world(tmp_path_factory.mktemp("world"))
    asked = text_request(
        world,
        methods=METHODS,
        axes=("side",),
        trials=1,
        sparsities=(0.5,),
        leave_one_out=False,
        random_masks=0,
    )
    return run_text_audit(asked, store)


@pytest.mark.parametrize("variant", ["isp:magnitude-50%", "once:random-50%"])
def test_both_answer_as_the_audit_says(run, ask, variant):
    texts = run.table("texts").query("split == 'test'").sort_values("text_id").head(3)
    stored = run.table("predictions").set_index(["variant", "text_id"]).filter(regex="^p_")
    for row in texts.itertuples():
        answer = ask(text=row.text, variant=variant)
        for side, name in (("dense", "dense#0"), ("pruned", f"{variant}#0")):
            np.testing.assert_allclose(
                answer[side]["probabilities"], stored.loc[(name, row.text_id)], atol=1e-4
            )


def test_words_add_up_to_the_change_of_the_log_odds(ask):
    answer = ask(variant="isp:magnitude-50%")
    assert answer["words"] == TEXT.split() and len(answer["heads"]) == 6
    for side in ("dense", "pruned"):
        assert answer[side]["missed"] < 0.02 * max(1.0, abs(answer[side]["log_odds"]))
        chance = answer[side]["probabilities"][answer["classes"].index(answer["target"])]
        assert answer[side]["log_odds"] == pytest.approx(np.log(chance / (1 - chance)), abs=1e-4)
    assert answer["target"] == answer["dense"]["answer"]
    assert not np.allclose(answer["dense"]["words"], answer["pruned"]["words"])


def test_a_file_changed_beside_the_weights_is_read_again(run, store):
    """Two words change places in the tokenizer, and the answer to one becomes that to the other."""
    warm = Warm()

    def asked(text):
        given = {"run": run.id, "text": text, "variant": "isp:magnitude-50%"}
        return answer_here("sentence", given, store, warm=warm)["pruned"]["probabilities"]

    one, two = asked("w1"), asked("w2")
    assert one != two and len(warm.names()) == 2
    with exchanged(run.meta["request"]["model"], "w1", "w2"):
        assert asked("w1") == pytest.approx(two) and len(warm.names()) == 4
    assert asked("w1") == one and len(warm.names()) == 4, (
        "what was loaded before is as good as ever"
    )


def test_without_a_cut_both_are_the_same_and_that_is_said(ask):
    answer = ask(variant="dense")
    assert answer["dense"] == answer["pruned"] and any(
        "Nothing is cut" in note for note in answer["notes"]
    )


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta"])
def test_weights_of_words_are_those_of_captums_layer(family):
    """On the embedding layer itself, from ids, with padding in place of the words."""
    clf = tiny_text_classifier(family, dtype="float32")
    batch = clf.encode([TEXT])
    ids, mask = batch["input_ids"], batch["attention_mask"]
    base = ids.clone()
    base[:, 1:-1] = clf.tokenizer.pad_token_id
    rest = {name: values for name, values in batch.items() if name != "input_ids"}
    if family == "roberta":  # positions are counted off the ids, which the baseline must not change
        rest["position_ids"] = clf.model.roberta.embeddings.create_position_ids_from_input_ids(
            ids, 1
        )

    def forward(given):
        return log_odds(
            clf.model(
                input_ids=given, **{k: v.expand(len(given), -1) for k, v in rest.items()}
            ).logits
        )

    layer = LayerIntegratedGradients(forward, clf.adapter.embeddings(clf.model))
    expected = layer.attribute(ids, baselines=base, target=1, n_steps=STEPS_OF_WORDS)[0].sum(-1)
    found, _ = word_attributions(clf, batch, 1)
    assert mask.all()
    np.testing.assert_allclose(found, expected.detach(), atol=2e-4)
    assert found[0] == found[-1] == 0, "special tokens stay as they are"


def test_tokens_are_put_together_to_words():
    clf = tiny_text_classifier("bert")
    assert words_of(clf, "w1 w2", "w3") == (["w1", "w2", "w3"], [-1, 0, 1, -1, 2, -1])


def test_weights_that_were_not_kept_are_said_or_refused(run, tmp_path):
    def without(name):
        return lambda table: table[table["variant"] != name]

    given = {"run": "changed", "text": TEXT, "variant": "isp:magnitude-50%"}
    changed(run, tmp_path / "one", "weights", without("isp:magnitude-50%#0"))
    answer = answer_here("sentence", given, Store(tmp_path / "one"))
    assert ON_DENSE in answer["notes"] and answer["dense"] != answer["pruned"]
    changed(run, tmp_path / "two", "weights", without("dense#0"))
    with pytest.raises(RequestError, match="'dense#0' has no weights in this audit"):
        answer_here("sentence", given, Store(tmp_path / "two"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"text": "\t"}, "text: is empty"),
        ({"text": "w1 " * 400_000}, f"at most {MOST_CHARACTERS:,}"),
        ({"text": "w1 " * 15}, "has 17 tokens; the audit's classifier reads 16"),
        ({"text": "\ud800"}, "half of a character"),
        ({"second": "w1"}, "the task of this audit has one text"),
        ({"variant": "isp"}, "variant: 'isp' is not known"),
        ({"tetx": ""}, "'tetx' is not known"),
    ],
)
def test_bad_input_is_refused(ask, given, told):
    with pytest.raises(RequestError, match=told):
        ask(**given)


def test_the_command(run, store, capsys):
    words = ["ask", run.id, "--store", str(store.root), "--text", "w1 w10 \x1b[2J"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "dense  says" in out and "control character" in out and "\x1b" not in out
    assert call(capsys, *words, "--json")[1]["words"][:2] == ["w1", "w10"]
    assert main([*words, "--prompt", "x"]) == 2
    assert "--prompt: is not for audits of text classifiers" in capsys.readouterr().err


def test_the_page(run, visit):
    at = visit("sentence")
    assert "Press Run" in read(at) and "anecdote" in at.info[0].value
    click(at, "Take one")
    assert at.text_area(key="sentence").value in set(run.table("texts")["text"])
    at.text_area(key="sentence").set_value("w1 <script>alert(1)</script>")
    click(at, "Run")
    assert_calm(at)
    shown = html_of(at)
    assert shown.count('class="pa-words"') == 3 and "<script" not in shown and "&lt;" in shown
    at.text_area(key="sentence").set_value(" ")
    click(at, "Run")
    assert any("is empty" in item.value for item in at.error)
