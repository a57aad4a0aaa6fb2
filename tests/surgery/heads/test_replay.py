"""mask.json and saved cuts: what is written is read back; what is wrong is named, all of it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.core.errors import MaskError, RequestError, StoreError
from engine.core.types import HeadMask
from engine.models.load_language_model import inspect_model, load_language_model
from engine.surgery.heads.mask import cut, masked
from engine.surgery.heads.replay import (
    Shape,
    even_faults,
    is_even,
    load_cut,
    load_cut_classifier,
    save_cut,
    save_cut_classifier,
    save_even,
    save_zeroed,
    shape_of,
)
from engine.surgery.record import MaskRecord, check_mask_fits, read_mask, record_of, write_mask
from tests.builders import refused
from tests.tiny import VOCABULARY, folder_of, tiny_language_model, tiny_model

MASK = HeadMask(3, 4, ((0, 1), (2, 3)))
RECORD = MaskRecord(
    model="gpt2",
    revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
    weight_hash="ab" * 32,
    n_layers=3,
    n_heads=4,
    units=MASK.cut,
    method="fasp",
    settings={"gamma": 0.3, "axis": "religion"},
    asked=0.2,
    realised=MASK.sparsity,
    run="20250101-abc",
    created="2025-01-01T00:00:00Z",
)


@pytest.fixture
def plain(tmp_path):
    return json.loads(write_mask(tmp_path / "mask.json", RECORD).read_text())


def faults_of(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return refused(read_mask, path)


def test_a_mask_comes_back_as_written(tmp_path):
    path = write_mask(tmp_path / "new" / "mask.json", RECORD)
    assert read_mask(path) == RECORD
    assert read_mask(path).mask == MASK
    assert [item.name for item in path.parent.iterdir()] == ["mask.json"]
    assert json.loads(path.read_text())["units"] == [
        {"layer": 0, "head": 1},
        {"layer": 2, "head": 3},
    ]


def test_a_missing_mask_is_refused(tmp_path):
    with pytest.raises(RequestError, match="cannot be read"):
        read_mask(tmp_path / "none.json")


def test_all_fields_that_are_missing_or_of_the_wrong_kind_are_named(tmp_path, plain):
    """What else a document of JSON can be stands in tests/store/test_user_json.py."""
    for name in ("model", "weight_hash", "units"):
        del plain[name]
    wrong = ["method", "settings", "run", "created", "revision", "asked", "realised", "n_heads"]
    found = faults_of(tmp_path, plain | dict.fromkeys(wrong, [1]))
    told = ["model", "weight_hash", "units", *wrong]
    assert {fault.split(":")[0] for fault in found} == {f"mask {name}" for name in told}


def test_all_bad_units_are_named(tmp_path, plain):
    units = [
        {"layer": 0, "head": 1},
        {"layer": 0, "head": 1},
        {"layer": 3, "head": 0},
        {"layer": 0.0, "head": 1},
        7,
    ]
    found = faults_of(tmp_path, plain | {"units": units})
    assert len(found) == 4
    assert found[0].startswith("mask unit 1: (0, 1) is named twice")
    assert found[1].startswith("mask unit 2: (3, 0) is outside 3 layers x 4 heads")
    assert "mask unit 3: has no whole layer and head" in found[2] and "mask unit 4" in found[3]


def test_a_mask_for_another_model_is_refused_with_both_named():
    info = inspect_model(folder_of("gpt2"))
    check_mask_fits(dataclasses.replace(RECORD, weight_hash=info.weight_hash), info)
    told = refused(check_mask_fits, dataclasses.replace(RECORD, n_heads=6), info)
    assert len(told) == 2
    for said in ("3 layers x 6 heads", "3 layers x 4 heads", "ab" * 32, info.weight_hash):
        assert said in " ".join(told)


KINDS = {
    "llama_grouped": (save_cut, load_cut),
    "bert": (save_cut_classifier, load_cut_classifier),
}


class Saved(NamedTuple):
    """A model, cut, written to a folder; how it is written and read."""

    lm: Any
    smaller: Any
    folder: Path
    save: Callable[..., Path]
    load: Callable[[Path], Any]


@pytest.fixture(params=KINDS)
def saved(request, tmp_path):
    lm, (save, load) = tiny_model(request.param), KINDS[request.param]
    smaller = cut(lm, MASK)
    folder = save(smaller, record_of(lm, MASK, method="fasp"), tmp_path / "out")
    return Saved(lm, smaller, folder, save, load)


def test_a_saved_cut_is_complete_and_comes_back_exactly(saved, tmp_path):
    written = {path.name for path in saved.folder.iterdir()}
    assert {"config.json", "model.safetensors", "mask.json", "tokenizer.json"} <= written
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # no draft left
    torch.manual_seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    again = saved.load(saved.folder)
    assert torch.equal(torch.rand(4), drawn), "the random stream is left alone"
    assert (again.cut, again.weight_hash) == (MASK, saved.lm.weight_hash)
    assert again.dtype == torch.float32
    wanted, found = saved.smaller.model.state_dict(), again.model.state_dict()
    assert wanted.keys() == found.keys() and all(
        torch.equal(wanted[name], found[name]) for name in wanted
    )
    assert not any(parameter.requires_grad for parameter in again.model.parameters())


def test_a_16_bit_cut_keeps_its_dtype(tmp_path):
    lm = tiny_model("gpt_neo", dtype="bfloat16")
    folder = save_cut(cut(lm, MASK), record_of(lm, MASK), tmp_path / "out")
    assert load_cut(folder).dtype == torch.bfloat16
    with pytest.raises(RequestError, match="that PruneAudit has cut"):
        load_language_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"units": (*MASK.cut, (1, 0))}, "does not hold the cut"),
        ({"n_layers": 5}, "5 x 4 heads, config.json says 3 x 4"),
    ],
)
def test_another_mask_beside_the_weights_is_noticed(saved, changed, said):
    record = dataclasses.replace(record_of(saved.lm, MASK), **changed)
    write_mask(saved.folder / "mask.json", record)
    with pytest.raises(RequestError, match=said):
        saved.load(saved.folder)


def test_a_truncated_cut_is_refused(saved):
    weights = saved.folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(RequestError, match="truncated"):
        saved.load(saved.folder)


def test_nothing_is_overwritten(saved):
    before = sorted(path.name for path in saved.folder.iterdir())
    with pytest.raises(RequestError, match="not an empty folder"):
        saved.save(saved.smaller, record_of(saved.lm, MASK), saved.folder)
    with pytest.raises(RequestError, match="not an empty folder"):
        save_zeroed(saved.lm, MASK, saved.folder)
    assert sorted(path.name for path in saved.folder.iterdir()) == before


def test_a_record_of_another_mask_is_refused(saved, tmp_path):
    for model, mask in ((saved.smaller, HeadMask(3, 4)), (saved.lm, MASK)):
        with pytest.raises(RequestError, match="is not the one"):
            saved.save(model, record_of(saved.lm, mask), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_nothing_stays_when_writing_fails(saved, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(saved.smaller.tokenizer), "save_pretrained", full)
    with pytest.raises(StoreError, match="the disk is full"):
        saved.save(saved.smaller, record_of(saved.lm, MASK), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Even cuts: whole groups in every layer, and a folder that plain transformers loads as the masked
# model.


EVEN = HeadMask(3, 4, ((0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (2, 1)))
IDS = torch.randint(3, VOCABULARY, (4, 20), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("family", "group"), [("llama_grouped", 2), ("llama", 1)])
def test_the_folder_loads_with_plain_transformers_and_answers_as_the_masked_model(
    family, group, tmp_path
):
    lm = tiny_language_model(family)
    shape = shape_of(lm.model.config)
    assert (
        shape == Shape(3, 4, group, (1,) if group == 2 else (1, 2))
        and is_even(EVEN, shape)
        and not even_faults(lm.model.config)
    )
    folder = save_even(cut(lm, EVEN), shape, tmp_path / "plain")
    said = json.loads((folder / "config.json").read_text())
    assert (
        said["num_attention_heads"] == 2
        and said["num_key_value_heads"] == 2 // group
        and said["head_dim"] == 8
    )
    assert said["hidden_size"] == 32 and lm.model.config.num_attention_heads == 4
    assert AutoConfig.from_pretrained(folder).num_attention_heads % said["num_key_value_heads"] == 0
    plain = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad(), masked(lm, EVEN):
        torch.testing.assert_close(plain(IDS).logits, lm.model(IDS).logits, rtol=1e-4, atol=1e-5)
    assert sum(one.numel() for one in plain.parameters()) < lm.n_parameters


def test_what_config_cannot_say_is_refused(tmp_path):
    lm = tiny_language_model("llama_grouped")
    half = HeadMask(
        3, 4, tuple((layer, head) for layer in range(3) for head in (0, 2))
    )  # half of both groups
    three = HeadMask(
        3, 4, ((0, 0), (1, 1), (2, 2))
    )  # 32 does not divide by 3: Llama's config refuses it
    plain = shape_of(tiny_language_model("llama").model.config)
    assert (
        is_even(three, Shape(3, 4))
        and not is_even(three, plain)
        and plain.may_take(1) == 0
        and plain.may_take(3) == 3
    )
    uneven = HeadMask(3, 4, ((0, 0), (0, 1)))
    all_of_it = HeadMask(3, 4, tuple((layer, head) for layer in range(3) for head in range(4)))
    for mask in (half, uneven, all_of_it, HeadMask(3, 4)):
        assert not is_even(mask, Shape(3, 4, 2))
    with pytest.raises(MaskError, match="as many whole groups"):
        save_even(cut(lm, uneven), Shape(3, 4, 2), tmp_path / "no")
    (fault,) = even_faults(tiny_language_model("gpt2").model.config)
    assert "head_dim" in fault.what
