"""What a model is, before an audit: said by every kind of audit that can take it, and why by those
that cannot."""

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from engine.audit.tracks import tracks
from engine.core.errors import RequestError
from engine.models.catalog import ASSETS
from engine.models.load_image_classifier import fresh_classifier
from engine.resident.asks import answer_here
from tests.builders import call
from tests.tiny_images import saved_by_transformers

CNN = "is a CNN, and no filter of its"
TRANSFORMER = "is a transformer whose attention"
HEADS = "is a transformer with heads that cannot be cut one by one"
FAMILIES = {
    "resnet": "",
    "pp_lcnet": "",
    "dinov2": "",
    "bit": f"{CNN} 9 convolutions",
    "convnextv2": CNN,
    "siglip": f"{TRANSFORMER} (SiglipAttention)",
    "hiera": f"{TRANSFORMER} (HieraMaskUnitAttention)",
    "swin": HEADS,
    "focalnet": "split and joined in a way that is not understood",
}
"""What an audit of each says against it, "" for nothing."""
QUICK = "resnet", "dinov2", "bit", "swin"
HEADS_ONLY = ("dinov2", "fair_training")


def said_of(capsys, *words):
    return call(capsys, "inspect", *words, "--json")


@pytest.mark.parametrize(
    "track", [pytest.param(name, marks=pytest.mark.contract) for name in tracks()]
)
def test_every_kind_of_audit_says_what_the_model_of_its_own_embedded_audit_is(track, store):
    request = tracks()[track].part("embedded")[0].to_dict()
    said = answer_here("inspect", {**request, "track": track}, store)["said"]
    assert len(said) >= 2 and all(one.endswith(".") for one in said)
    with pytest.raises(RequestError):
        answer_here("inspect", {**request, "model": "is/nowhere", "track": track}, store)
    with pytest.raises(RequestError, match="model: is missing"):
        answer_here("inspect", {"track": track, "model": " "}, store)


def test_a_model_read_by_its_structure_is_loaded_and_proved_or_refused(tmp_path, capsys):
    sizes = {
        "vocab_size": 2000,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    more = {
        "num_key_value_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 32,
        "head_dim": 4,
    }
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **sizes, **more))
    model.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((ASSETS / "demo-gpt2" / name).read_bytes())
    code, found = said_of(capsys, str(tmp_path))
    [(track, lines)] = found["said"].items()
    assert (
        code == 0
        and "2 layers with 4 heads each" in lines[0]
        and "4 heads on 2 key/value heads" in lines[1]
    )
    assert lines[2].startswith("Checked on the loaded model") and set(found["refused"]) == set(
        tracks()
    ) - {track}
    torch.nn.init.zeros_(
        model.model.layers[1].self_attn.o_proj.weight
    )  # a head whose silence changes nothing
    model.save_pretrained(tmp_path)
    code, found = said_of(capsys, str(tmp_path))
    assert code == 2 and found["faults"]


def test_a_new_architecture_and_none(capsys, monkeypatch):
    asked = []

    def snapshot(name, revision, offline):
        asked.extend([] if offline else [name])
        raise OSError

    monkeypatch.setattr("engine.models.load_language_model._snapshot", snapshot)
    code, found = said_of(capsys, "resnet18")
    assert not asked, "a name that is known here is nobody else's business"
    monkeypatch.undo()
    assert code == 0 and all("a new resnet18" in lines[0] for lines in found["said"].values())
    code, found = said_of(capsys, "is/nowhere")
    assert code == 2 and len(found["faults"]) >= 2


@pytest.mark.parametrize(
    "family",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in FAMILIES],
)
def test_inspect_promises_nothing_that_an_audit_refuses(tmp_path, capsys, family):
    """The same check, so the same answer, for each kind of audit; and what the model is, where it
    cannot be taken."""
    folder = str(saved_by_transformers(family, tmp_path / family, ("not blond", "blond")))
    for track in [
        name
        for name, entry in tracks().items()
        if entry.cuts in ("image classifiers", "fair training")
    ]:
        code, found = said_of(capsys, folder, "--track", track)
        why = FAMILIES[family] or (
            "whose units are attention heads" if (family, track) == HEADS_ONLY else ""
        )
        values = {"model": folder, "data": "avatars", "axes": ["male"], "max_images": 60}
        more = {"speedups": [1.01]} if track == "image_classifiers" else {"sparsities": [0.1]}
        try:
            tracks()[track].part("validate")(
                tracks()[track].part("request").from_dict({**values, **more})
            )
            assert (
                code == 0 and not why and found["said"][track][-1].startswith("What can be cut: ")
            )
        except RequestError as error:
            assert code == 2 and why and [why in str(one) for one in error.faults] == [True]
            assert [one["what"] for one in found["faults"]] == [one.what for one in error.faults]


def test_inspect_proves_the_weights_as_an_audit_does(tmp_path, capsys):
    """A network whose last layer is zero: nothing that is cut can show, and not because masks do
    not reach it."""
    model = fresh_classifier("resnet10-w16", ("cat", "dog"), device="cpu").model
    state = {name: one.contiguous() for name, one in model.state_dict().items()}
    save_file(
        {**state, "fc.weight": torch.zeros_like(state["fc.weight"])}, tmp_path / "w.safetensors"
    )
    code, found = said_of(capsys, "resnet10-w16", "--weights", str(tmp_path / "w.safetensors"))
    assert code == 2 and "answers the same to every picture" in found["faults"][0]["what"]
