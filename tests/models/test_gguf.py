"""Models from GGUF files: what they compute, what is kept of them, and files that are refused."""

import os
import shutil
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import tokenization_utils_base

from engine.models import gguf_cache
from engine.models.gguf_cache import CHECKED, folder_of
from engine.models.load_language_model import inspect_model, load_language_model
from tests.builders import refused
from tests.gguf_files import WORDS, base, write
from tests.tiny import save_tokenizer

FAMILIES = ("llama_grouped", "qwen2", "qwen3", "gemma2", "phi3", "gpt2", "starcoder2")
WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
IDS = torch.arange(3, 35)[None]


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def llama(tmp_path):
    return base("llama_grouped", tmp_path / "base", intermediate_size=64)


@pytest.fixture
def file(llama, tmp_path):
    write(tmp_path / "tiny.gguf", llama, "Q8_0")
    return tmp_path / "tiny.gguf"


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS, use_cache=False).logits


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_is_the_model_it_was_made_of_to_the_bit(name, tmp_path):
    folder = base(name, tmp_path / "base")
    meant = write(tmp_path / "tiny.gguf", folder)
    read, own = (load_language_model(one, device="cpu") for one in (tmp_path / "tiny.gguf", folder))
    own.model.load_state_dict(meant, strict=False)  # Gemma's norms are kept with one added
    for (name, mine), (other, its) in zip(
        read.model.named_parameters(), own.model.named_parameters(), strict=True
    ):
        assert name == other and torch.equal(mine, its), name
    assert torch.equal(logits(read.model), logits(own.model))


def test_what_is_kept_does_not_depend_on_the_network(file, monkeypatch, tmp_path):
    """Its files count for a run's id: an embedded audit is the same one on every machine."""
    kept = []
    for offline in (True, False):
        monkeypatch.setattr(tokenization_utils_base, "is_offline_mode", lambda: offline)  # noqa: B023
        monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / str(offline)))
        kept.append({one.name: one.read_bytes() for one in folder_of(file).iterdir()})
    assert kept[0].keys() == kept[1].keys() >= {"tokenizer_config.json", "gguf.json"}
    assert kept[0] == kept[1]


def test_every_family_that_is_called_checked_is():
    assert {name.removesuffix("_grouped") for name in FAMILIES} == CHECKED


@pytest.mark.parametrize(
    "kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL"]
)
def test_numbers_are_those_that_the_format_stands_for(kind, tmp_path):
    folder = base("llama_grouped", tmp_path / "base", **WIDE)
    meant = write(tmp_path / "tiny.gguf", folder, kind)
    info = inspect_model(tmp_path / "tiny.gguf")
    kept = load_file(info.folder / "model.safetensors")
    assert kept.keys() == meant.keys()
    for name, numbers in kept.items():
        assert torch.equal(numbers.float(), meant[name]), name
    assert info.notes[0].startswith(f"It was dequantised from {kind} (")
    if kind in ("F16", "BF16"):
        assert kept["lm_head.weight"].element_size() == 2


def test_it_is_dequantised_once_and_again_where_the_folder_is_damaged(file, store, monkeypatch):
    first = inspect_model(file)
    with monkeypatch.context() as patch:
        patch.setattr(gguf_cache, "_make", None)
        copy = Path(shutil.copyfile(file, file.with_name("other name.gguf")))
        assert inspect_model(copy).folder == first.folder
    os.truncate(first.folder / "model.safetensors", 500)
    assert inspect_model(file).weight_hash == first.weight_hash
    assert [one.parent.name for one in store.rglob("model.safetensors")] == [first.folder.name]


def test_a_writer_that_was_killed_leaves_nothing(file, store, monkeypatch):
    left = store / "gguf" / f".{'0' * 64}.abc.unfinished"
    left.mkdir(parents=True)
    long_ago = time.time() - 3600
    os.utime(left, (long_ago, long_ago))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gguf_cache, "_with_tokenizer", killed)
        with pytest.raises(KeyboardInterrupt):
            inspect_model(file)
    assert not list((store / "gguf").iterdir())
    assert load_language_model(file, device="cpu").n_heads == 4


def test_a_folder_with_one_file_is_that_file_and_several_are_asked_about(file, tmp_path):
    place = tmp_path / "folder"
    place.mkdir()
    shutil.copyfile(file, place / "a.gguf")
    assert inspect_model(place).folder == inspect_model(file).folder
    shutil.copyfile(file, place / "b.gguf")
    (fault,) = refused(inspect_model, place)
    assert "holds 2 GGUF files: a.gguf, b.gguf" in fault and str(place / "a.gguf") in fault


@pytest.mark.parametrize("name", ["gone.gguf", f"{'x' * 5000}.gguf", "\0.gguf", "x" * 5000])
def test_a_name_that_leads_nowhere_is_no_file(name, tmp_path):
    (fault,) = refused(inspect_model, tmp_path / name)
    assert "is not there." in fault or "is not a folder." in fault


def test_texts_begin_as_the_file_says(llama, tmp_path):
    begun = {}
    for says in (True, False):
        file = tmp_path / f"{says}.gguf"
        write(file, llama, fields={"tokenizer.ggml.add_bos_token": says})
        begun[says] = load_language_model(file, device="cpu").tokenizer("the")["input_ids"]
    assert begun == {True: [1, *begun[False]], False: [WORDS.index("the")]}


def test_every_token_that_ends_a_turn_ends_a_text(llama, tmp_path):
    write(tmp_path / "tiny.gguf", llama, fields={"tokenizer.ggml.eot_token_id": 7})
    assert load_language_model(tmp_path / "tiny.gguf", device="cpu").ends == {2, 7}


def test_a_tokenizer_beside_the_file_is_taken_where_it_is_the_files(file, tmp_path):
    own = inspect_model(file)
    place = tmp_path / "beside"
    place.mkdir()
    shutil.copyfile(file, place / "tiny.gguf")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(own.folder / name, place / name)
    assert inspect_model(place).folder != own.folder
    save_tokenizer(place)
    (fault,) = refused(inspect_model, place / "tiny.gguf")
    assert f"another vocabulary than the tokenizer in {place}" in fault


def test_positions_are_those_of_the_file(tmp_path):
    """transformers leaves some families' fields unread."""
    folder = base("starcoder2", tmp_path / "base")
    write(tmp_path / "tiny.gguf", folder, fields={"starcoder2.rope.freq_base": 500.0})
    read = load_language_model(tmp_path / "tiny.gguf", device="cpu").model
    assert read.config.rope_parameters["rope_theta"] == 500.0
    assert not torch.equal(logits(read), logits(load_language_model(folder, device="cpu").model))


REFUSED = {
    "is one of 3 files": {"split.count": 3},
    "holds an embedding model (bert)": {"general.architecture": "bert"},
    "holds an embedding model (llama)": {"llama.pooling_type": 1},
    "holds no model but 'adapter'": {"general.type": "adapter"},
    "of architecture 'strange', which": {
        "general.architecture": "strange",
        "strange.block_count": 3,
    },
    "names no architecture": {"general.architecture": None},
    "has no vocabulary": {"tokenizer.ggml.tokens": None},
    "names 1000000000 layers": {"llama.block_count": 1_000_000_000},
    "names no layers": {"llama.block_count": None},
    "by 'yarn' scaling": {"llama.rope.scaling.type": "yarn"},
}


@pytest.mark.parametrize("said", REFUSED)
def test_files_of_other_models_are_refused(said, llama, tmp_path, store):
    write(tmp_path / "tiny.gguf", llama, fields=REFUSED[said])
    (fault,) = refused(inspect_model, tmp_path / "tiny.gguf")
    assert said in fault and "tiny.gguf" in fault
    assert not list(store.rglob("model.safetensors"))


def test_a_folder_of_the_pieces_of_one_model_says_that_they_must_be_joined(llama, tmp_path):
    for piece in (1, 2):
        name = f"tiny-0000{piece}-of-00002.gguf"
        write(tmp_path / name, llama, fields={"split.count": 2})
    (fault,) = refused(inspect_model, tmp_path)
    assert "is one of 2 files" in fault and "Join them first" in fault


def test_tensors_that_are_missing_or_nobody_reads_are_refused(llama, tmp_path):
    write(tmp_path / "less.gguf", llama, leave_out=("blk.1.attn_q.weight",))
    assert "lacks 1 tensor" in refused(inspect_model, tmp_path / "less.gguf")[0]
    write(tmp_path / "more.gguf", llama, more={"rope_freqs.weight": np.ones(4, np.float32)})
    assert "holds 'rope_freqs.weight'" in refused(inspect_model, tmp_path / "more.gguf")[0]


def test_fields_that_nobody_reads_are_told(llama, tmp_path):
    write(tmp_path / "tiny.gguf", llama, fields={"llama.attention.scale": 0.5})
    assert any(
        "llama.attention.scale" in note for note in inspect_model(tmp_path / "tiny.gguf").notes
    )


def test_a_type_that_nobody_knows_is_named(file):
    whole = file.read_bytes()
    at = whole.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 16
    file.write_bytes(whole[:at] + struct.pack("<I", 99) + whole[at + 4 :])
    assert "in numbers of type 99" in refused(inspect_model, file)[0]


@pytest.mark.parametrize("share", [0.9, 0.3, 0.01, 0.0001])
def test_a_truncated_file_is_refused(file, share):
    os.truncate(file, int(file.stat().st_size * share))
    (fault,) = refused(inspect_model, file)
    assert "truncated" in fault or "is no GGUF file" in fault


HOSTILE = {
    "many tensors": struct.pack("<IQQ", 3, 2**62, 0),
    "many fields": struct.pack("<IQQ", 3, 1, 2**62),
    "a long name": struct.pack("<IQQQ", 3, 1, 1, 2**62),
    "a long list": struct.pack("<IQQQ4sIIQ", 3, 1, 1, 4, b"abcd", 9, 8, 2**62),
    "a list of lists": struct.pack("<IQQQ4sIIQ", 3, 1, 1, 4, b"abcd", 9, 9, 2**62),
    "many sides": struct.pack("<IQQQ4sI", 3, 1, 0, 4, b"abcd", 2**31) + b"\xff" * 4096,
    "version 1": struct.pack("<IQQ", 1, 1, 1),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_header_that_asks_for_much_gets_nothing(what, tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + HOSTILE[what])
    tracemalloc.start()
    try:
        (fault,) = refused(inspect_model, path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ("damaged or truncated" in fault or "version 1" in fault) and most < 2**20
