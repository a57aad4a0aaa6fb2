"""Families without a file: read by their structure, proved on their weights, refused with what
failed."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.models.load_language_model import inspect_model, load_language_model
from engine.models.load_text_classifier import inspect_text_model, is_text_model
from engine.models.structure import proofs
from engine.models.structure.adapter import FAMILIES, adapter_of
from engine.models.structure.proofs import proved
from engine.surgery.agreement import agree, agree_on_texts
from engine.surgery.heads.mask import cut, gated, masked, zeroed
from engine.surgery.heads.prefix import row_gradients, row_logps
from engine.surgery.heads.replay import load_cut, load_cut_classifier, save_cut, save_cut_classifier
from engine.surgery.record import record_of
from tests.tiny import (
    CLASSIFIERS,
    DECODERS,
    ENCODERS,
    EVERY,
    STRUCTURAL,
    folder_of,
    save_tokenizer,
    text,
    tiny_model,
)

ZEROED = {"bloom", "falcon", "falcon_grouped", "phi3", "olmo2"}
"""Where no head can be cut out: fused by numbers of config.json, a residual inside, norms over all
heads."""
SECOND = {*[name for name in DECODERS if name not in ZEROED][1::2]}
CUT = [pytest.param(name, marks=pytest.mark.slow if name in SECOND else ()) for name in DECODERS]
"""Every second of those that are cut alike waits for `make test-slow`; `python -m
benchmarks.families` has all."""
TEXTS = [text(3, 4, 5), text(7, 8, 9, 11, 2)]


def masks(layers):
    """One head; heads that leave shared keys uneven; a whole layer and more."""
    sets = [{(1, 2)}, {(0, 0), (1, 1), (1, 2), (2, 3)}, {*((1, head) for head in range(4)), (0, 3)}]
    return [
        HeadMask(layers, 4, tuple({(layer % layers, head) for layer, head in one})) for one in sets
    ]


@pytest.mark.parametrize("name", CUT)
def test_masked_is_zeroed_is_cut_is_reloaded(name, tmp_path):
    lm = tiny_model(name)
    assert (lm.n_layers, lm.n_heads, lm.n_positions) == (3, 4, 64)
    assert lm.adapter.cuts == (name not in ZEROED) and lm.adapter.splits
    assert ("zeroed, not cut out" in lm.adapter.how) == (name in ZEROED)
    for mask in masks(3):
        small = cut(lm, mask)
        assert agree(lm, mask, TEXTS, small).holds
        assert agree(lm, mask, TEXTS, zeroed(lm, mask)).holds
        assert (small.n_parameters < lm.n_parameters) == lm.adapter.cuts
    folder = save_cut(small, record_of(lm, mask), tmp_path / "cut")
    again = load_cut(folder)
    assert agree(lm, mask, TEXTS, again).max_logit_difference <= 1e-4


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_are_cut_and_reloaded(name, tmp_path):
    clf = tiny_model(name)
    assert clf.adapter.cuts == (name not in ZEROED)
    for mask in masks(clf.n_layers):
        small = cut(clf, mask)
        assert agree_on_texts(clf, mask, TEXTS, other=small).holds
    folder = save_cut_classifier(small, record_of(clf, mask), tmp_path / "cut")
    assert agree_on_texts(clf, mask, TEXTS, other=load_cut_classifier(folder)).holds
    assert is_text_model(folder_of(name))


@pytest.mark.parametrize("name", DECODERS)
def test_reused_passes_and_gradients_are_those_of_the_plain_forward(name):
    lm, rows, first = tiny_model(name), [[5, 9, 7, 22, 11], [8, 30, 12, 6, 9, 10, 33]], [1, 2]
    dense, off = row_logps(lm, rows, first, range(12))
    lm.adapter.splits = False
    whole, one_by_one = row_logps(lm, rows, first, range(12))
    plain_slopes = row_gradients(lm, rows, first)[1]
    lm.adapter.splits = True
    assert abs(dense - whole).max() < 1e-4 and abs(off - one_by_one).max() < 1e-4
    assert abs(row_gradients(lm, rows, first)[1] - plain_slopes).max() < 1e-4
    with masked(lm, HeadMask(3, 4, ((1, 2),))), torch.no_grad():
        logps = lm.model(torch.tensor([rows[0]]), use_cache=False).logits[0].float().log_softmax(-1)
    assert abs(float(sum(logps[at - 1, rows[0][at]] for at in range(1, 5))) - off[6, 0]) < 1e-4


@pytest.mark.parametrize("name", EVERY | STRUCTURAL)
def test_head_tensors_are_the_heads_own(name):
    """Scaling o of one head by g is gating that head by g; its other tensors are wide enough for q,
    k and v."""
    lm = tiny_model(name)
    layer, head = lm.n_layers - 1, 2
    tensors, tokens = lm.adapter.head_tensors(lm.model, layer, head), torch.tensor([[5, 9, 7, 22]])
    known = sum(one.numel() for one in tensors[:-1])
    assert known >= 3 * 8 * 32 or name == "falcon_grouped"
    gates = torch.ones(lm.n_layers, 4)
    gates[layer, head] = 0.25
    with gated(lm, gates):
        wanted = lm.model(tokens).logits
    tensors[-1].mul_(0.25)  # a view of the model's own memory
    assert torch.allclose(lm.model(tokens).logits, wanted, atol=1e-5)


def test_what_cannot_draw_from_what_it_keeps_is_refused(tmp_path):
    """BERT's generation half sees the whole text unless its config.json says otherwise."""
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    config = AutoConfig.for_model(
        "bert-generation", vocab_size=48, bos_token_id=1, eos_token_id=2, **sizes
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(RequestError, match="no text can be drawn with what is kept of its tokens"):
        load_language_model(tmp_path, device="cpu")


def test_a_model_that_sees_what_comes_is_caught():
    lm = tiny_model("qwen3")
    for block in lm.adapter.blocks(lm.model):
        block.self_attn.is_causal = False
        block.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, "attention_mask": None}),
            with_kwargs=True,
        )
    assert "is not the token of the whole text" in proof_of(lm, nullcontext())


def test_shared_layers_act_at_every_depth_and_say_so():
    clf = tiny_model("albert")
    assert clf.n_layers == 1 and clf.model.config.num_hidden_layers == 3
    assert "gone through 3 times, so that a head acts at every depth" in clf.adapter.how
    assert (
        inspect_text_model(folder_of("albert")).shared
        and not inspect_text_model(folder_of("electra")).shared
    )


# What the proof catches: the model is changed behind its structure's back.


def proof_of(lm, change):
    with change, pytest.raises(RequestError) as caught:
        proved(lm.model, adapter_of(lm.model.config), "it")
    return str(caught.value)


class Hooked:
    """A pre-hook on the output projection of layer 1, as a context."""

    def __init__(self, lm, change):
        self.projection, self.change = lm.adapter.output_projection(lm.model, 1), change

    def __enter__(self):
        self.handle = self.projection.register_forward_pre_hook(
            lambda module, args: (self.change(args[0]),)
        )

    def __exit__(self, *error):
        self.handle.remove()


@pytest.mark.parametrize(
    ("name", "order", "caught"),
    [
        ("qwen3", [1, 0, 2, 3], "the place of head 0 depends on head 1's outputs of q_proj"),
        ("opt", [0, 1, 3, 2], "the place of head 2 depends on head 3's outputs of"),
        ("gpt_neox", [3, 2, 1, 0], "the place of head 0 depends on head 3's outputs of query"),
    ],
)
def test_heads_in_another_order_are_caught(name, order, caught):
    lm = tiny_model(name)
    said = proof_of(
        lm, Hooked(lm, lambda inside: inside.unflatten(-1, (4, 8))[..., order, :].flatten(-2))
    )
    assert "heads do not lie one after the other: in layer 1" in said and caught in said


def test_heads_interleaved_number_by_number_are_caught():
    lm = tiny_model("mistral")
    said = proof_of(
        lm, Hooked(lm, lambda inside: inside.unflatten(-1, (4, 8)).transpose(-1, -2).flatten(-2))
    )
    assert "heads do not lie one after the other" in said


def test_what_else_mixes_tokens_is_caught():
    """A convolution beside attention, as hybrids have it."""
    lm = tiny_model("qwen3")
    block = lm.adapter.blocks(lm.model)[2]

    class Shifted(nn.Module):
        def forward(self, hidden):
            return hidden + torch.cat([hidden[:, :1], hidden[:, :-1]], dim=1)

    block.input_layernorm = nn.Sequential(block.input_layernorm)
    block.mlp = nn.Sequential(Shifted(), block.mlp)
    assert "with all heads silenced a token still sees others" in proof_of(lm, nullcontext())


def test_where_a_cut_does_not_hold_heads_are_zeroed(monkeypatch):
    lm = tiny_model("qwen3")
    monkeypatch.setattr(proofs._Proof, "heads_can_leave", lambda self: False)
    found = proved(lm.model, adapter_of(lm.model.config), "it")
    assert not found.cuts and "heads are zeroed, not cut out" in found.how


# Doors that stay shut.


def config_folder(place, **config):
    folder = Path(shutil.copytree(folder_of("qwen3"), place))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("electra", {}, "is an encoder: it reads texts and does not continue them"),
        ("mllama_text_model", {}, "transformers has no language model of it"),
        (
            "own",
            {"auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}},
            "It brings code of its own .auto_map., which is never run",
        ),
        ("gemma3", {}, "describes a model of several parts .text_config."),
        (
            "qwen3",
            {"num_attention_heads": 5, "num_key_value_heads": 2},
            "5 query heads do not divide over 2",
        ),
    ],
)
def test_what_has_no_such_heads_is_refused_with_a_sentence(tmp_path, kind, settings, said):
    """More of them: tests/test_benchmarks.py, as `benchmarks.families` refuses them."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "vocab_size": 48}
    sizes = {} if kind == "gemma3" else sizes
    folder = config_folder(tmp_path / "it", model_type=kind, **sizes, **settings)
    with pytest.raises(RequestError, match=said):
        load_language_model(folder, device="cpu")


def test_shards_without_their_index_are_named(tmp_path):
    folder = Path(shutil.copytree(folder_of("qwen3"), tmp_path / "it"))
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    with pytest.raises(
        RequestError,
        match="holds 1 parts of weights .model-00001-of-00002.safetensors. and no",
    ):
        inspect_model(folder)


# Families whose proof is not repeated when they are loaded; a new one needs a tiny model.


def test_every_known_family_has_a_tiny_model():
    assert {*FAMILIES[True], *FAMILIES[False]} == {kind for kind, _ in EVERY.values()}


@pytest.mark.parametrize("name", EVERY)
def test_the_proof_of_a_known_family_holds(name):
    lm = tiny_model(name)
    assert lm.adapter.how == ""
    found = proved(lm.model, lm.adapter, name)
    assert (found.cuts, found.splits, found.how) == (True, True, "")


@pytest.mark.parametrize("name", ENCODERS)
def test_attention_probabilities_are_what_output_attentions_hands_out(name):
    """And they carry gradients: they are the tensor that is multiplied by the values."""
    clf, seen = tiny_model(name), []
    module = clf.adapter.attention_probabilities(clf.model, 1)
    handle = module.register_forward_hook(lambda module, args, output: seen.append(output[1]))
    batch = clf.encode([text(5, 9, 7), text(8)])
    vectors = clf.adapter.embeddings(clf.model)(batch.pop("input_ids")).requires_grad_()
    out = clf.model(inputs_embeds=vectors, **batch, output_attentions=True)
    handle.remove()
    assert len(out.attentions) == 3 and torch.equal(seen[0], out.attentions[1])
    (slope,) = torch.autograd.grad(out.logits[:, 0].sum(), out.attentions[1])
    assert slope.abs().max() > 1e-4


@pytest.mark.parametrize("name", ENCODERS)
def test_the_longest_text_of_an_encoder_is_as_long_as_it_says(name):
    clf = tiny_model(name)
    clf.model(torch.full((1, clf.n_positions), 7))
    with pytest.raises((IndexError, RuntimeError)):
        clf.model(torch.full((1, clf.n_positions + 1), 7))


@pytest.mark.parametrize("name", ENCODERS)
def test_classifier_names_are_all_that_is_not_the_encoder(name):
    clf = tiny_model(name)
    head = tuple(f"{module}." for module in clf.adapter.head)
    rest = {
        key.split(".")[0] for key, _ in clf.model.named_parameters() if not key.startswith(head)
    }
    assert rest == {clf.model.base_model_prefix}
    assert clf.model.get_submodule(clf.adapter.outputs).out_features == 3
    for pooler in clf.adapter.pooler:
        clf.model.get_submodule(pooler)
