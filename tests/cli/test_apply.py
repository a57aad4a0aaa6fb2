"""apply: what is not the masked model is never saved."""

import json

import pytest

from engine.core.types import HeadMask
from engine.surgery import apply
from engine.surgery.record import FilterRecord, groups_of, record_of, write_mask
from tests import tiny
from tests.builders import call
from tests.classifiers.worlds import SMALL, one_off, some_cut, spoil_loading

MASK = HeadMask(3, 4, ((0, 1), (2, 3)))


def apply_to(name, tmp_path, capsys):
    mask = write_mask(tmp_path / "mask.json", record_of(tiny.tiny_model(name), MASK))
    places = ("--model", tiny.folder_of(name), "--to", tmp_path / "cut")
    return call(capsys, "apply", mask, *places, "--device", "cpu", "--json")


def assert_nothing_kept(code, said, tmp_path):
    assert (
        code == 1 and "do not agree" in json.dumps(said) and "Nothing was kept" in json.dumps(said)
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "mask.json"] == []


@pytest.mark.parametrize("name", ["gpt2", "llama_grouped", "bert"])
def test_a_right_cut_is_saved(name, tmp_path, capsys):
    code, said = apply_to(name, tmp_path, capsys)
    assert code == 0 and said["ok"] and said["masked_equals_reloaded"]
    assert (tmp_path / "cut" / "mask.json").is_file()


@pytest.mark.parametrize("name", ["gpt2", "llama_grouped", "bert"])
def test_a_cut_with_one_weight_off_is_refused(name, tmp_path, capsys, monkeypatch):
    real = apply.apply_mask

    def spoiled(*words):
        applied = real(*words)
        one_off(applied.cut.adapter.output_projection(applied.cut.model, 1).weight)
        return applied

    monkeypatch.setattr(apply, "apply_mask", spoiled)
    assert_nothing_kept(*apply_to(name, tmp_path, capsys), tmp_path)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_cut_that_loads_otherwise_than_it_was_saved_is_refused(
    name, tmp_path, capsys, monkeypatch
):
    spoil_loading(monkeypatch)
    assert_nothing_kept(*apply_to(name, tmp_path, capsys), tmp_path)


@pytest.mark.parametrize("is_off", [False, True])
def test_filters_that_are_cut_wrongly_are_refused(is_off, tmp_path, capsys, monkeypatch):
    whole, _, mask, small, history = some_cut()
    if is_off:
        layers = [one for one in small.model.parameters() if one.dim() == 4]
        one_off(layers[len(layers) // 2])
    record = FilterRecord(
        whole.name, SMALL, whole.weight_hash, whole.classes, 16, groups_of(mask), history
    )
    monkeypatch.setattr(
        apply, "apply_mask", lambda *words: apply.Applied("filters", record, whole, small)
    )
    places = ("--model", SMALL, "--to", tmp_path / "cut")
    code, said = call(capsys, "apply", "mask.json", *places, "--json")
    if is_off:
        assert_nothing_kept(code, said, tmp_path)
    else:
        assert (
            code == 0
            and said["reloaded_equals_cut"]
            and (tmp_path / "cut" / "cut.safetensors").is_file()
        )
