"""A model is what its folder says, whole: files, tensors and fields are used, refused, or named
with a question."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.core.errors import RequestError
from engine.core.types import Decoding, HeadMask
from engine.models import load_language_model as loading
from engine.models.checkpoint import inspect_folder
from engine.models.completeness import unlike_files
from engine.models.decode import sample
from engine.models.load_language_model import inspect_model, load_language_model
from engine.surgery.heads.mask import cut
from engine.surgery.heads.replay import load_cut, save_cut
from engine.surgery.record import record_of
from tests.builders import refused
from tests.models.folders import WEIGHTS, copied, edit, edit_weights
from tests.tiny import folder_of, text

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    return copied("gpt2", tmp_path)


def with_tensors(folder, **more):
    edit_weights(folder, lambda tensors: tensors | more)


def refusal(folder):
    return "\n".join(refused(inspect_model, folder))


def test_a_whole_folder_has_no_notes_and_only_other_weights_beside_are_named(folder):
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        (folder / name).write_bytes(b"x")
    assert inspect_model(folder).notes == (), "what training left behind is no weight"
    others = "consolidated.safetensors", "model.Q4_K.gguf", "tf_model.h5", "model.onnx"
    for name in (*others, "pytorch_model.bin"):
        (folder / name).write_bytes(b"x")
        (note,) = inspect_model(folder).notes
        assert note.startswith(f"{name} is not read; model.safetensors is.")
        (folder / name).unlink()


def test_a_single_file_beside_shards_is_refused_since_transformers_reads_it_and_not_them(tmp_path):
    loading.load_language_model(folder_of("gpt2"), device="cpu").model.save_pretrained(
        tmp_path, max_shard_size="40KB"
    )
    for path in folder_of("gpt2").glob("tokenizer*"):
        shutil.copy(path, tmp_path)
    assert inspect_model(tmp_path).notes == ()
    shutil.copy(
        tmp_path / inspect_model(tmp_path).files[0], tmp_path / "model-00008-of-00009.safetensors"
    )
    assert inspect_model(tmp_path).notes == (
        f"model-00008-of-00009.safetensors is not read: {INDEX} does not name it. Is it whole?",
    )
    shutil.copy(folder_of("gpt2") / WEIGHTS, tmp_path / WEIGHTS)
    assert f"holds {WEIGHTS} and also the files" in refusal(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path, folder):
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    tensors = load_file(folder / WEIGHTS)
    name = next(iter(tensors))
    save_file(tensors, folder / first, metadata={"format": "pt"})
    save_file({name: tensors[name] + 1}, folder / second, metadata={"format": "pt"})
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(
        json.dumps({"weight_map": {**dict.fromkeys(tensors, first), name: second}})
    )
    assert f"{second}: holds {name}, which another file of the model holds too" in refusal(folder)


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        ("score.bias score.more score.weight", "and 2 more tensors are not used: was this a"),
        ("vision_tower.patch.weight", "is not used: is it meant without its pictures or"),
        ("v_head.summary.weight", "is not used: was this a model of rewards?"),
    ],
)
def test_tensors_that_nobody_uses_are_named_with_the_question(folder, names, asked):
    with_tensors(folder, **{name: torch.ones(2, 3) for name in names.split()})
    (note,) = inspect_model(folder).notes
    assert f"{names.split()[0]} {asked}" in note


@pytest.mark.parametrize("how", ["adapter_config.json", "adapter_model.safetensors", "tensor"])
def test_adapters_are_refused_whatever_is_installed(folder, how):
    if how == "tensor":
        with_tensors(
            folder, **{"transformer.h.0.attn.c_attn.lora_A.default.weight": torch.ones(2, 3)}
        )
    else:
        (folder / how).write_text(json.dumps({"peft_type": "LORA"}))
    assert "holds an adapter" in refusal(folder) and "merge_and_unload" in refusal(folder)


def test_what_stands_behind_an_encoder_is_named(tmp_path):
    folder = copied("bert", tmp_path)
    kinds = [
        {"type": f"sentence_transformers.models.{kind}"}
        for kind in ("Transformer", "Pooling", "Dense", "Normalize")
    ]
    (folder / "modules.json").write_text(json.dumps(kinds))
    (note,) = inspect_folder(folder, "it", causal=False).notes
    assert (
        note
        == "modules.json puts Pooling, Dense and Normalize behind the encoder, which are not read."
    )


def test_fields_that_nobody_reads_are_named(folder):
    edit(folder, "config.json", use_magic=True, n_inner=None)
    edit(folder, "generation_config.json", spell="no")
    edit(folder, "tokenizer_config.json", wand=1)
    edit(folder, "config.json", auto_map={"AutoModel": "modeling_mine.Mine"})
    found = inspect_model(folder).notes
    assert found == (
        "config.json has use_magic, which GPT2Config does not know: is it of another model?",
        "generation_config.json has spell, which nothing here reads: does the model need it?",
        "tokenizer_config.json has wand, which nothing here reads: does the model need it?",
        (
            "config.json names code of its own, which is never run: does transformers' own do the"
            " same?"
        ),
    )


# Tokens that end a text.


def test_each_end_token_that_the_files_name_ends_a_text(folder):
    lm, free = load_language_model(folder, device="cpu"), Decoding(max_new_tokens=12)
    plain = sample(lm, [text(3, 4)], ["a"], [0], free)[0]
    third = plain[2]
    assert lm.ends == {2} and third not in (2, *plain[:2])
    edit(folder, "generation_config.json", eos_token_id=[2, third])
    info, again = inspect_model(folder), load_language_model(folder, device="cpu")
    assert info.more_ends == again.more_ends == (third,)
    assert sample(again, [text(3, 4)], ["a"], [0], free)[0] == plain[:3]
    assert again.ends == lm.ends | {third}
    assert f"token {third} ends a text too" in info.notes[0]
    assert again.reading_digest != lm.reading_digest


def test_a_token_that_the_model_does_not_have_ends_no_text(folder):
    edit(folder, "generation_config.json", eos_token_id=[2, 5, 50256])
    info = inspect_model(folder)
    assert info.more_ends == (5,)
    assert any("token 50256 ends a text too, but the model has none" in note for note in info.notes)
    edit(folder, "generation_config.json", eos_token_id="5")
    assert "names '5' as a token that ends a text" in refusal(folder)


def test_tensors_that_should_be_one_and_are_two_are_named(folder):
    other = load_file(folder / WEIGHTS)["transformer.wte.weight"].clone()
    with_tensors(folder, **{"lm_head.weight": other})
    assert inspect_model(folder).notes == ()
    other[-1] += 1
    with_tensors(folder, **{"lm_head.weight": other})
    (note,) = inspect_model(folder).notes
    assert (
        "makes lm_head.weight and transformer.wte.weight one" in note
        and "the files hold two" in note
    )


def test_a_config_that_makes_no_model_says_so_before_the_weights(tmp_path):
    folder = copied("llama", tmp_path)
    edit(folder, "config.json", rope_scaling={"type": "odd", "factor": 4.0})
    assert "config.json: describes a model that cannot be made: KeyError, 'odd'" in refusal(folder)


def test_a_cut_model_ends_texts_as_its_base_does(folder, tmp_path):
    edit(folder, "config.json", eos_token_id=[2, 9])
    lm, mask = load_language_model(folder, device="cpu"), HeadMask(3, 4, ((0, 1),))
    assert lm.ends == {2, 9}
    again = load_cut(save_cut(cut(lm, mask), record_of(lm, mask), tmp_path / "cut"))
    assert again.ends == {2, 9}


# Every loaded number comes from a file.


def test_a_parameter_that_nothing_went_into_is_a_fault(folder):
    lm = load_language_model(folder, device="cpu")
    assert not unlike_files("it", lm.model, [folder / WEIGHTS])
    old = lm.model.transformer.h[1].mlp.c_fc
    old.weight = torch.nn.Parameter(torch.randn_like(old.weight))
    told = [str(one) for one in unlike_files("it", lm.model, [folder / WEIGHTS])]
    assert (
        "loaded with 1 tensor that nothing in its files went into, the first is"
        " transformer.h.1.mlp.c_fc.w" in told[0]
    )
    assert "loaded with 1 tensor whose numbers are not those of its files" in told[1]


def test_numbers_in_another_order_are_the_files_all_the_same(folder):
    model = load_language_model(folder, device="cpu").model
    weight = model.transformer.h[0].mlp.c_fc.weight
    weight.data = weight.data.flip(0).contiguous()
    assert not unlike_files("it", model, [folder / WEIGHTS])
    weight.data[0, 0] += 1
    assert unlike_files("it", model, [folder / WEIGHTS])


def test_what_a_family_changes_as_it_loads_is_refused(folder, monkeypatch):
    """Youtu's class sets the padding's row to zero after it has read the file; so may another."""
    from transformers import GPT2LMHeadModel

    def init(model, quantised):
        model.transformer.wte.weight.data[0].zero_()

    monkeypatch.setattr(GPT2LMHeadModel, "_initialize_missing_keys", init)
    with pytest.raises(RequestError, match="whose numbers are not those of its files"):
        load_language_model(folder, device="cpu")


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "gpt_oss", "llama4"])
@pytest.mark.parametrize("how", ["renamed", "stacked", "one missing", "transposed"])
@pytest.mark.parametrize("as_arm", [False, True])
def test_experts_under_other_keys_never_load_as_random(name, how, as_arm, tmp_path):
    folder = copied(name, tmp_path)
    tensors = load_file(folder / WEIGHTS)
    mine = sorted(key for key in tensors if ".experts." in key)
    rest = {key: part for key, part in tensors.items() if key not in mine}
    packed = torch.cat([tensors[key].flatten() for key in mine])
    new = {
        "renamed": {key.replace(".experts.", ".xperts."): tensors[key] for key in mine},
        "stacked": {"model.layers.0.mlp.experts.packed": packed},
        "one missing": {key: tensors[key] for key in mine[:-1]},
        "transposed": {
            key: tensors[key].mT.contiguous() if tensors[key].dim() > 1 else tensors[key]
            for key in mine
        },
    }
    save_file(rest | new[how], folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(RequestError):
        load_language_model(folder, device="cpu", as_arm=as_arm)
