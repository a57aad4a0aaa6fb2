"""Weight files are checked before anything is loaded: every way a header can lie, and numbers that
are none."""

import json
import shutil
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, GenerationConfig, PretrainedConfig
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from engine.core.errors import RequestError
from engine.models.checkpoint import inspect_folder
from engine.models.file_fields import FIELDS, IRRELEVANT, REFUSED, refusals, unread
from engine.models.load_language_model import inspect_model
from engine.models.weights import INDEX, read_header, tensors_in, weight_files
from tests.tiny import DECODERS, folder_of

GOOD = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "F16", "shape": [], "data_offsets": [24, 26]},
}


def written(path, header, data=b"\0" * 26):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def changed(name, **entry):
    return {**GOOD, name: {**GOOD[name], **entry}}


def test_what_safetensors_writes_is_sound(tmp_path):
    tensors = {"w": torch.randn(3, 4), "h": torch.randn(5).half(), "b": torch.randn(2).bfloat16()}
    tensors |= {
        "e": torch.zeros(0, 2),
        "i": torch.arange(3),
        "mask": torch.full((1, 1, 2, 2), -torch.inf),
    }
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt"})
    shapes, faults = tensors_in(tmp_path / "m.safetensors")
    assert faults == [] and shapes == {name: list(tensor.shape) for name, tensor in tensors.items()}
    assert tensors_in(written(tmp_path / "n", GOOD)) == ({"a": [2, 3], "b": []}, [])


LIES = [
    changed("b", data_offsets=[-2, 0]),
    changed("b", data_offsets=[26, 24]),
    changed("b", data_offsets=[22, 24]),
    changed("a", shape=[1, 3], data_offsets=[0, 12]),
    changed("b", data_offsets=[24.0, 26.0]),
    changed("b", data_offsets=[24]),
    changed("b", dtype="F33"),
    changed("b", shape=[2]),
    changed("b", shape=[-1]),
    {**GOOD, "__metadata__": {"format": {"pt": 1}}},
    {**GOOD, "b": 3},
    {"a": GOOD["a"]},
    {},
    b"[]",
    b"[" * 60_000,
    b'{"a": {"dtype": "F32", "dtype": "F16"}}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("header", LIES)
def test_a_header_that_lies_is_one_fault(tmp_path, header):
    entries, faults = read_header(written(tmp_path / "m.safetensors", header))
    assert entries == {} and len(faults) == 1
    assert "is truncated or no safetensors file" in faults[0].what


@pytest.mark.parametrize("shape", [[1] * 65, [2**61, 0]])
def test_a_shape_that_no_tensor_can_have_is_refused(tmp_path, shape):
    lie = {**GOOD, "c": {"dtype": "F16", "shape": shape, "data_offsets": [26, 26 + 2 * min(shape)]}}
    path = written(tmp_path / "m", lie, b"\0" * (26 + 2 * min(shape)))
    assert "'c' of a shape that no machine multiplies" in tensors_in(path)[1][0].what


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\xff" * 8, struct.pack("<Q", 100) + b"{}"])
def test_a_file_without_a_header_is_no_safetensors_file(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    assert "truncated or no safetensors file" in tensors_in(tmp_path / "m")[1][0].what


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_named(tmp_path, dtype, bad):
    tensor = torch.linspace(-9, 9, 50, dtype=getattr(torch, dtype))
    tensor[0], tensor[1] = torch.finfo(tensor.dtype).max, torch.finfo(tensor.dtype).tiny
    save_file({"sound": tensor.clone()}, tmp_path / "sound")
    assert tensors_in(tmp_path / "sound")[1] == []
    tensor[17] = bad
    save_file({"ok": torch.ones(2), "bad": tensor}, tmp_path / "m")
    (fault,) = tensors_in(tmp_path / "m")[1]
    assert "in 1 of 2 tensors (first: 'bad')" in fault.what


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "float8_e4m3fn"])
def test_weights_in_packed_numbers_are_refused_where_nothing_says_what_they_stand_for(
    tmp_path, kind
):
    """They loaded as the bare numbers, 40 for .8, and no word was said."""
    buffers = {
        "places": torch.arange(4)[None],
        "batches": torch.tensor(3),
        "seen": torch.ones(1, 2, dtype=torch.bool),
    }
    packed = torch.ones(3, 4).to(getattr(torch, kind))
    save_file({"up.weight": packed, "w": torch.ones(2), **buffers}, tmp_path / "m")
    (fault,) = tensors_in(tmp_path / "m")[1]
    assert (
        "'up.weight'" in fault.what
        and "(1 such tensors)" in fault.what
        and "quantization_config" in fault.fix
    )
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')
    assert tensors_in(tmp_path / "m")[1] == []


def test_an_index_that_names_nothing_is_refused(tmp_path):
    for content, said in (
        ('{"weight_map": {}}', "names no weight file"),
        ("{}", "cannot be read"),
        ("[" * 60_000, "read"),
    ):
        (tmp_path / INDEX).write_text(content)
        files, faults = weight_files(tmp_path)
        assert files == [] and len(faults) == 1 and said in faults[0].what


def test_an_index_that_names_no_possible_file_says_it_is_missing(tmp_path):
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"w": "x" * 300}}))
    assert [fault.what for fault in weight_files(tmp_path)[1]] == ["is missing."]


def test_an_image_checkpoint_is_checked_alike(tmp_path):
    from engine.models.state_dicts import read_state

    save_file({"w": torch.tensor([1.0, np.inf])}, tmp_path / "m.safetensors")
    torch.save({"w": torch.tensor([1.0, np.nan])}, tmp_path / "m.pt")
    written(tmp_path / "n.safetensors", changed("b", data_offsets=[22, 24]))
    found = [read_state(tmp_path / name) for name in ("m.safetensors", "m.pt", "n.safetensors")]
    assert all(len(faults) == 1 for _, faults, _ in found)
    assert ["NaN or infinite" in faults[0].what for _, faults, _ in found] == [True, True, False]


def test_an_activation_that_does_not_exist_is_found_before_the_weights(tmp_path):
    from engine.models.catalog import ASSETS
    from engine.models.checkpoint import read_config

    plain = json.loads((ASSETS / "demo-gpt2" / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**plain, "activation_function": "gelu_never"})
    )
    faults = read_config(tmp_path)[1]
    assert len(faults) == 1 and faults[0].where == "activation"


# Every field of the files beside a language model or text classifier has a fate, and the refused
# ones are refused.


FILES = ("generation_config.json", "tokenizer_config.json", "config.json")


def refused(file):
    return [(file, name) for name, fate in FIELDS[file].items() if fate.kind == REFUSED]


def test_every_field_that_transformers_writes_is_known():
    assert unread("generation_config.json", GenerationConfig().to_dict()) == []
    assert unread("config.json", PretrainedConfig().to_dict()) == []
    assert not refusals("generation_config.json", GenerationConfig().to_dict(), "")
    assert not refusals("config.json", PretrainedConfig().to_dict(), "")
    special = PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES
    assert unread("tokenizer_config.json", dict.fromkeys(special)) == []


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "bloom", "gemma"])
def test_what_a_tokenizer_writes_of_itself_is_known(name, tmp_path):
    AutoTokenizer.from_pretrained(folder_of(name)).save_pretrained(tmp_path)
    assert (
        unread(
            "tokenizer_config.json", json.loads((tmp_path / "tokenizer_config.json").read_text())
        )
        == []
    )


@pytest.mark.parametrize("name", DECODERS)
def test_no_familys_own_config_has_a_note(name):
    assert inspect_model(folder_of(name)).notes == ()


@pytest.mark.parametrize(("file", "field"), [pair for file in FILES for pair in refused(file)])
def test_each_refused_field_is_refused(file, field, tmp_path):
    causal = file != "config.json" or field != "function_to_apply"
    folder = shutil.copytree(folder_of("gpt2" if causal else "bert"), tmp_path / "model")
    path = folder / file
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | {field: "sigmoid"}))
    with pytest.raises(RequestError, match=f"sets {field} to 'sigmoid', which is not obeyed here"):
        inspect_folder(folder, "it", causal=causal)
    path.write_text(json.dumps(old | {field: False if field.startswith("add_") else None}))
    assert inspect_folder(folder, "it", causal=causal).notes == ()


def test_every_fate_says_why_and_an_adapter_is_refused_by_its_kind():
    for file in (*FILES, "adapter_config.json"):
        assert FIELDS[file] and all(fate.why for fate in FIELDS[file].values())
    assert refusals("adapter_config.json", {"peft_type": "LORA", "r": 8}, "adapter_config.json")
    assert FIELDS["generation_config.json"]["temperature"].kind == IRRELEVANT
