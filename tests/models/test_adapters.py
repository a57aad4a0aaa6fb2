"""The same checks for every family whose proof is not repeated when it is loaded; a new one without
a tiny model fails here."""

from __future__ import annotations

import pytest
import torch

from engine.models.structure.adapter import Encoder, known_types
from engine.models.structure.proofs import proved
from engine.surgery.heads.mask import gated
from tests.tiny import ENCODERS, EVERY, TINY, text, tiny_model

# Tensors of one head: q, k, v, o weights and the q, k, v biases where the family has them. Encoders
# have them.
TENSORS = dict.fromkeys(ENCODERS, 7) | {
    "gpt2": 7,
    "gpt_neo": 4,
    "gptj": 4,
    "llama_grouped": 4,
    "llama": 7,
}


def test_every_known_family_has_a_tiny_model():
    assert set(known_types()) == {kind for kind, _ in EVERY.values()}


@pytest.mark.parametrize("name", EVERY)
def test_the_proof_of_a_known_family_holds(name):
    lm = tiny_model(name)
    assert lm.adapter.how == ""
    found = proved(lm.model, lm.adapter, name)
    assert (found.cuts, found.splits, found.how) == (True, True, "")


@pytest.mark.parametrize("name", EVERY)
def test_a_family_is_either_causal_or_an_encoder(name):
    """Whatever a config may call itself: in an encoder, and only there, a token sees those after
    it."""
    lm = tiny_model(name)
    assert lm.adapter.causal == (name in TINY) == (not isinstance(lm.adapter, Encoder))
    seen = {}
    for last in (9, 30):
        found = lm.model(
            torch.tensor([[5, 7, 8, last]]), output_hidden_states=True, output_attentions=True
        )
        seen[last] = found.hidden_states[1][0, 0]
    assert torch.equal(seen[9], seen[30]) == lm.adapter.causal


@pytest.mark.parametrize("name", EVERY)
def test_shape(name):
    lm = tiny_model(name)
    assert (lm.n_layers, lm.n_heads, lm.n_positions, lm.vocab_size) == (3, 4, 64, 48)
    assert lm.adapter.head_dim == 8


@pytest.mark.parametrize("name", EVERY)
def test_heads_lie_side_by_side_in_the_projections_input(name):
    lm, seen = tiny_model(name), []
    projection = lm.adapter.output_projection(lm.model, 1)
    handle = projection.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    lm.model(torch.tensor([[5, 9, 7]]))
    handle.remove()
    assert seen == [(1, 3, 4 * 8)]


@pytest.mark.parametrize("name", EVERY)
def test_head_tensors_are_the_heads_own_weights(name):
    """Scaling o of one head by g is gating that head by g."""
    lm = tiny_model(name)
    tensors = lm.adapter.head_tensors(lm.model, 1, 2)
    assert len(tensors) == TENSORS[name]
    assert sorted(tensor.numel() for tensor in tensors) == sorted(
        [8 * 32] * 4 + [8] * (TENSORS[name] - 4)
    )
    tokens, gates = torch.tensor([[5, 9, 7, 22]]), torch.ones(3, 4)
    gates[1, 2] = 0.25
    with gated(lm, gates):
        wanted = lm.model(tokens).logits
    tensors[-1].mul_(0.25)  # a view of the model's own memory
    assert torch.allclose(lm.model(tokens).logits, wanted, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_v_tensors_belong_to_the_head(name):
    """With v zero (weight and bias) a head outputs nothing, as with its gate at 0. A shared v
    silences all sharers."""
    lm = tiny_model(name)
    tensors = lm.adapter.head_tensors(lm.model, 1, 2)
    gates = torch.ones(3, 4)
    gates[1, [2, 3] if name == "llama_grouped" else 2] = 0
    tokens = torch.tensor([[5, 9, 7, 22]])
    with gated(lm, gates):
        wanted = lm.model(tokens).logits
    apart = (
        name == "llama" or name in ENCODERS
    )  # q, k, v come one after the other, each with its bias
    values = {4: [2], 7: [4, 5] if apart else [2, 5]}[len(tensors)]
    for place in values:
        tensors[place].zero_()
    assert torch.allclose(lm.model(tokens).logits, wanted, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
def test_attention_implementation_equals_eager(name):
    """Left-padded batch; sdpa where the family has it."""
    lm = tiny_model(name)
    wanted_kind = "sdpa" if name in ("gpt2", "llama", "llama_grouped") else "eager"
    assert lm.model.config._attn_implementation == wanted_kind
    ids = torch.tensor([[2, 2, 5, 9, 7], [8, 8, 30, 12, 6]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    batch = {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
    }
    fast = lm.model(**batch).logits
    lm.model.set_attn_implementation("eager")
    slow = lm.model(**batch).logits
    assert torch.isfinite(fast).all()
    assert torch.allclose(fast[mask.bool()], slow[mask.bool()], atol=1e-5)
    alone = lm.model(torch.tensor([[5, 9, 7]])).logits
    assert torch.allclose(fast[0, 2:], alone[0], atol=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_eager_equals_the_fast_attention_and_padding_changes_nothing(name):
    clf = tiny_model(name)
    assert clf.model.config._attn_implementation == "eager"
    texts = [text(5, 9, 7), text(8, 30, 12, 6, 41, 2)]
    batch = clf.encode(texts)
    slow = clf.logits(batch)
    clf.model.set_attn_implementation("sdpa")
    assert torch.allclose(clf.logits(batch), slow, atol=1e-5)
    clf.model.set_attn_implementation("eager")
    alone = torch.cat([clf.logits(clf.encode([one])) for one in texts])
    assert torch.allclose(alone, slow, atol=1e-5)


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
    assert out.attentions[1].shape == (2, 4, 5, 5)
    real = batch["attention_mask"].float()
    assert torch.allclose(out.attentions[1].sum(-1), torch.ones(2, 4, 5), atol=1e-6)
    assert not (out.attentions[1] * (1 - real)[:, None, None, :]).any()  # nobody looks at padding
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
