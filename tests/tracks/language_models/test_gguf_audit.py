"""A GGUF file audited, and beside the safetensors it was made from."""

from __future__ import annotations

import pytest

from engine.cli import audit, parser
from engine.core.errors import RequestError
from engine.models.load_language_model import inspect_model
from engine.report.measured import notes_in_words
from engine.store.runs import Store
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from tests.gguf_files import base, write
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


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


def asked(folder, **more):
    few = {"sparsities": (0.0, 0.3), "axes": ("nationality",), "seeds": 1, "controls": None}
    return world_request(folder, **few, **more)


def test_a_file_is_audited_beside_the_safetensors_it_was_made_from(pair, tmp_path):
    dense, file = pair
    request = asked(tmp_path, model=str(dense), against=(str(file),), methods=("int8",))
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


def test_a_file_is_audited_as_the_model_itself(pair, tmp_path):
    _, file = pair
    run = run_audit(asked(tmp_path, model=str(file), methods=("ppl_only",)), Store(tmp_path / "st"))
    assert any("There is no dense original here" in one for one in notes_in_words(run))
    assert run.meta["model"]["weight_hash"] == inspect_model(file).weight_hash


def test_a_command_that_names_a_file_asks_for_this_track(pair):
    args = parser().parse_args(["audit", "--model", str(pair[1])])
    assert audit.track_of_words(args).name == "language_models"


def test_a_file_of_other_words_is_refused_beside_a_folder(pair, tmp_path):
    dense, _ = pair
    other = tmp_path / "other.gguf"
    words = tuple(f"{word}!" if word == "the" else word for word in write.__kwdefaults__["words"])
    write(other, dense, "Q8_0", words=words, fields={"tokenizer.ggml.merges": ["h e"]})
    request = asked(tmp_path, model=str(dense), against=(str(other),), methods=("int8",))
    with pytest.raises(RequestError, match="entries of the two vocabularies differ"):
        validate(request)
