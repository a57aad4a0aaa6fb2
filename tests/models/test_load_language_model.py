"""What loads, and every way in which a checkpoint can be wrong."""

import hashlib
import json
import shutil

import pytest
import torch

from engine.models.load_language_model import inspect_model, load_language_model
from tests.builders import refused
from tests.models.folders import copied, edit
from tests.tiny import TINY, folder_of, save_tokenizer, tiny_model


@pytest.fixture
def folder(tmp_path):
    return copied("gpt2", tmp_path)


def refusal(path, **more):
    found = refused(inspect_model, path, **more)
    assert refused(load_language_model, path, device="cpu", **more) == found
    return found


@pytest.mark.parametrize("name", TINY)
def test_inspection_says_what_loading_finds(name):
    info, lm = inspect_model(folder_of(name)), tiny_model(name)
    assert (info.n_layers, info.n_heads, info.n_positions) == (
        lm.n_layers,
        lm.n_heads,
        lm.n_positions,
    )
    assert info.n_parameters == lm.n_parameters
    assert info.weight_hash == lm.weight_hash
    assert (
        info.weight_hash
        == hashlib.sha256((folder_of(name) / "model.safetensors").read_bytes()).hexdigest()
    )
    assert info.files == ("model.safetensors",) and info.revision is None


def test_a_loaded_model_is_ready():
    lm = tiny_model("llama")
    assert not lm.model.training and not any(
        parameter.requires_grad for parameter in lm.model.parameters()
    )
    assert lm.tokenizer.padding_side == "left" and lm.tokenizer.pad_token == "</s>"
    assert (lm.device.type, lm.dtype, lm.cut) == ("cpu", torch.float32, None)
    assert lm.model.config._attn_implementation == "sdpa", "fast attention, where no maps are read"


def test_a_window_that_begins_with_the_padding_token_is_no_cause_for_a_warning(monkeypatch, folder):
    edit(folder, pad_token_id=3)
    warned = []
    monkeypatch.setattr("transformers.modeling_utils.logger.warning_once", warned.append)
    lm, window = load_language_model(folder, device="cpu"), torch.tensor([[3, 5, 7]])
    lm.model(input_ids=window)
    assert not warned
    del (
        lm.model.transformer.warn_if_padding_and_no_attention_mask
    )  # that there is something to be silent about
    lm.model(input_ids=window)
    assert warned


def test_the_checkpoints_own_dtype_is_not_followed(tmp_path):
    lm = tiny_model("gpt2", dtype="bfloat16")
    lm.model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    assert load_language_model(tmp_path, device="cpu").dtype == torch.float32


def test_shards_load_and_hash_in_name_order(tmp_path):
    lm = tiny_model("gpt2")
    lm.model.save_pretrained(tmp_path, max_shard_size="40KB")
    save_tokenizer(tmp_path)
    info = inspect_model(tmp_path)
    assert len(info.files) > 1
    joined = b"".join((tmp_path / name).read_bytes() for name in sorted(info.files))
    assert info.weight_hash == hashlib.sha256(joined).hexdigest()
    tokens = torch.tensor([[5, 9, 7]])
    again = load_language_model(tmp_path, device="cpu")
    assert torch.equal(again.model(tokens).logits, lm.model(tokens).logits)
    (tmp_path / info.files[0]).unlink()
    assert refusal(tmp_path) == [f"{info.files[0]}: is missing. Download or copy it again."]


def test_an_index_that_points_outside_is_refused(folder):
    index = {"weight_map": {"a": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "names a file outside the folder" in refusal(folder)[0]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_a_pickle_is_never_opened(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    (fault,) = refusal(folder)
    assert name in fault and "can run code when opened. Convert" in fault


def test_remote_code_is_never_run(folder):
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    auto = {
        "AutoConfig": "evil.Config",
        "AutoModelForCausalLM": "evil.Model",
        "AutoTokenizer": ["evil.T", None],
    }
    edit(folder, auto_map=auto)
    assert load_language_model(folder, device="cpu").n_layers == 3
    edit(folder, model_type="evil")
    assert "'evil' is not known" in refusal(folder)[0]


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("gpt2", {"model_type": "t55"}, "'t55' is not known to this version of transformers."),
        ("gpt2", {"n_head": 5}, "config.json: hidden size 32 does not divide into 5 heads"),
        ("gptj", {"n_head": 0}, "config.json: hidden size 32 does not divide into 0 heads"),
        ("gpt2", {"n_embd": 0}, "config.json: names a width of 0. Fix config.json."),
        ("gpt2", {"n_layer": "many"}, "config.json: cannot be used"),
        ("gpt2", {"n_layer": 4}, "lacks 12 tensors that its config.json asks for, the first is"),
        ("gpt2", {"vocab_size": 10**13}, "of another shape"),
        ("gpt2", {"n_positions": 32}, "has 1 tensor of another shape than its config.json asks"),
    ],
)
def test_a_config_of_which_no_model_can_be_made(tmp_path, name, fields, said):
    folder = copied(name, tmp_path)
    edit(folder, **fields)
    assert said in refusal(folder)[0]


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", '"gpt2"'])
def test_a_config_that_is_none(folder, content):
    (folder / "config.json").write_text(content)
    assert refusal(folder)[0].startswith("config.json: is no JSON object with a model_type.")


def test_a_tokenizer_with_too_many_tokens(folder):
    save_tokenizer(folder, size=50)
    assert refusal(folder) == [
        "tokenizer: does not fit: it makes token 49, the model knows 0 to 47. "
        "Use the tokenizer that the model was trained with."
    ]


def test_a_tokenizer_that_is_missing_or_broken(folder):
    (folder / "tokenizer.json").write_text("{")
    assert refusal(folder)[0].startswith("tokenizer: cannot be loaded")
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer" in refusal(folder)[0]


@pytest.mark.parametrize(
    "name",
    ["", " ", "/nowhere/at/all", "../../x", "a/b/c", "x\0y", "~nobody-here/x", "/" + "x" * 5000],
)
def test_a_folder_that_is_not_there(name):
    assert len(refusal(name)) == 1


def test_a_folder_has_no_revision(folder):
    assert "is a folder" in refusal(folder, revision="main")[0]


def test_a_hub_name_without_network_fails_clearly_and_soon(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    (fault,) = refusal("somebody/some-model")
    assert "the hub gave no answer" in fault and "Check the spelling or the network" in fault
    assert sum(slept) < 10, "seconds it would have waited between tries"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "was not downloaded before" in refusal("somebody/some-model")[0]


def test_a_downloaded_model_is_found_without_network(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
    repo = tmp_path / "models--somebody--some-model"
    shutil.copytree(folder_of("gpt2"), repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    info = inspect_model("somebody/some-model")
    assert info.revision == commit and info.n_layers == 3
