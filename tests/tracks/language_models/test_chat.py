"""Chat models: prompts as a user's turns, or read raw and said so. A GGUF file beside the
safetensors it was made from."""

from dataclasses import replace

import pytest
import torch

from engine.cli import audit, parser
from engine.core.errors import RequestError
from engine.models.decode import prompt_tokens
from engine.models.load_language_model import inspect_model, load_language_model
from engine.report.bundle import export_run
from engine.report.contents import default_choice
from engine.report.measured import notes_in_words
from engine.report.verdict import verdict
from engine.store.runs import Store
from engine.tracks.language_models.likelihoods import prompt_nll
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from tests.gguf_files import base, write
from tests.models.folders import copied, edit
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")
TEMPLATE = (
    "<s>{% for turn in messages %} w40 {{ turn['content'] }} w41{% endfor %}"
    "{% if add_generation_prompt %} w42{% endif %}"
)
SAID = "chat template was not used"


@pytest.fixture
def talker(tmp_path):
    folder = copied("llama_grouped", tmp_path)
    edit(folder, "tokenizer_config.json", chat_template=TEMPLATE)
    return folder


def asked(folder, model, **more):
    few = {"axes": ("nationality",), "seeds": 1, "methods": ("int8",), "controls": None}
    return world_request(folder, model=str(model), **few, **more)


def test_a_prompt_stands_in_the_template_and_only_its_own_tokens_are_cut(talker):
    lm = load_language_model(talker, device="cpu", chat=True)
    rows = prompt_tokens(lm, ["w2 w3", "w2 w3 w4 w5"], 3)
    assert rows == [[1, 43, 5, 6, 44, 45], [1, 43, 5, 6, 7, 44, 45]]
    turn = [{"role": "user", "content": "w2 w3"}]
    assert rows[0] == lm.tokenizer.apply_chat_template(
        turn, add_generation_prompt=True, return_dict=False
    )


def test_of_a_turn_the_prompt_alone_is_scored(talker):
    lm, texts = load_language_model(talker, device="cpu", chat=True), ["w2 w3", "w4 w5 w6"]
    found = prompt_nll(lm, texts, 9)
    for at, row in enumerate(prompt_tokens(lm, texts, 9)):
        with torch.no_grad():
            said = lm.model(input_ids=torch.tensor([row])).logits[0].log_softmax(-1)
        own = range(2, len(row) - 2)
        assert found["tokens"][at] == len(own) == at + 2
        expected = -sum(float(said[one - 1, row[one]]) for one in own)
        assert found["nll"][at] == pytest.approx(expected, rel=1e-5)


def test_audits_in_and_out_of_a_chat_are_two_and_each_says_which_it_is(talker, tmp_path, no_charts):
    raw, chat = (asked(tmp_path, talker, chat=chat) for chat in (False, True))
    runs = [run_audit(request, Store(tmp_path / "store")) for request in (raw, chat)]
    assert runs[0].id != runs[1].id
    drawn = [set(run.table("texts")["text"]) for run in runs]
    assert drawn[0] != drawn[1]
    for run, says in zip(runs, (SAID, "Every prompt stood in the chat template"), strict=True):
        assert any(says in note for note in notes_in_words(run))
        variant = next(one for one in run.table("variants")["variant"] if one != "dense")
        choice = default_choice(run)
        assert (SAID in verdict(run, choice).more) == (says == SAID)
        export_run(run, tmp_path / run.id, ["model_card", "report"], variant=variant)
        for name in ("model_card.md", "report.html"):
            assert says in (tmp_path / run.id / name).read_text(encoding="utf-8")
    assert "chat" not in validate(raw).request.identity


FAULTS = {
    None: "has no chat template",
    "{{ messages[0]['content'] | upper }}": "changes or drops what the user says",
    "{{ raise_exception('no') }}": "cannot be used: no",
}


@pytest.mark.parametrize("template", FAULTS)
def test_a_chat_without_a_template_that_works_is_refused(template, talker, tmp_path):
    edit(talker, "tokenizer_config.json", chat_template=template)
    request = asked(tmp_path, talker, chat=True)
    with pytest.raises(RequestError, match=FAULTS[template]):
        validate(request)
    assert any(SAID in one for one in validate(replace(request, chat=False)).warnings) == bool(
        template
    )


def test_the_template_needs_room(talker, tmp_path):
    full = {"max_prompt_tokens": 58, "max_new_tokens": 6}
    validate(asked(tmp_path, talker, **full))
    with pytest.raises(RequestError, match="62 prompt [+] 6 new tokens exceed the 64 positions"):
        validate(asked(tmp_path, talker, chat=True, **full))


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A folder with safetensors, and the file of 8 bits that was made of it."""
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "cache"))
    folder = base("llama_grouped", tmp_path / "dense", intermediate_size=64)
    write(tmp_path / "small.gguf", folder, "Q8_0")
    inspect_model(tmp_path / "small.gguf")
    kept = inspect_model(tmp_path / "small.gguf").folder
    for one in kept.glob("tokenizer*"):  # the folder's own words are no bytes
        (folder / one.name).write_bytes(one.read_bytes())
    return folder, tmp_path / "small.gguf"


def test_a_file_is_audited_beside_the_safetensors_it_was_made_from(pair, tmp_path):
    dense, file = pair
    request = asked(tmp_path, dense, against=(str(file),), sparsities=(0.0, 0.3))
    run = run_audit(request, Store(tmp_path / "store"))
    variants = run.table("variants").set_index("method")
    (name,) = [one for one in variants.index if one.startswith("against-")]
    costs = run.table("costs").set_index("variant")["bytes"]
    assert name == "against-small.gguf" and costs["dense"] == inspect_model(dense).n_bytes
    assert costs[variants.loc[name, "variant"]] == inspect_model(file).n_bytes
    share = 1 - inspect_model(file).n_bytes / costs["dense"]
    assert variants.loc[name, "sparsity"] == pytest.approx(share, abs=1e-3) and share > 0.6
    moved = run.table("results").query("metric == 'divergence'").set_index("variant")["value"]
    assert 0 < moved[variants.loc[name, "variant"]] < 0.1
    assert any("small.gguf: It was dequantised from Q8_0" in one for one in notes_in_words(run))


def test_a_command_that_names_a_file_asks_for_this_track(pair):
    args = parser().parse_args(["audit", "--model", str(pair[1])])
    assert audit.track_of_words(args).name == "language_models"
