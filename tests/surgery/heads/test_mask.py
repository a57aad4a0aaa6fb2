"""Masks leave no trace, refuse to nest, and prove themselves."""

import threading

import pytest
import torch

from engine.core.errors import MaskError
from engine.core.types import HeadMask
from engine.surgery.heads.mask import cut, gated, masked, prove_mask_works, zeroed
from tests.tiny import EVERY, tiny_model

MASK = HeadMask(3, 4, ((0, 1), (2, 3)))
TOKENS = torch.tensor([[5, 9, 7, 22, 40]])


def hooks(lm):
    return sum(
        len(module._forward_pre_hooks) + len(module._forward_hooks) for module in lm.model.modules()
    )


@pytest.mark.parametrize("name", EVERY)
def test_no_hook_stays_after_success(name):
    lm = tiny_model(name)
    before = lm.model(TOKENS).logits
    with masked(lm, MASK):
        assert hooks(lm) == 2  # only on layers that need one
        assert not torch.equal(lm.model(TOKENS).logits, before)
    with gated(lm, torch.ones(3, 4)):
        assert hooks(lm) == 3
        assert torch.equal(lm.model(TOKENS).logits, before)
    assert hooks(lm) == 0
    assert torch.equal(lm.model(TOKENS).logits, before)


@pytest.mark.parametrize("name", EVERY)
def test_every_row_of_a_batch_can_have_gates_of_its_own(name):
    lm = tiny_model(name)
    tokens = TOKENS.repeat(2, 1)
    gates = torch.ones(2, 3, 4)
    gates[1] = torch.from_numpy(MASK.keep())
    with gated(lm, gates):
        both = lm.model(tokens).logits
    with masked(lm, MASK):
        silent = lm.model(TOKENS).logits[0]
    assert torch.allclose(both[0], lm.model(TOKENS).logits[0], atol=1e-5)
    assert torch.allclose(both[1], silent, atol=1e-5)


def test_no_hook_stays_after_a_wrong_argument(lm):
    for wrong in (HeadMask(3, 5), HeadMask(2, 4, ((0, 0),))):
        with pytest.raises(MaskError, match="3 layers x 4 heads"), masked(lm, wrong):
            pass
    for gates in (torch.ones(4, 3), torch.ones(3, 4, 1)):
        with pytest.raises(MaskError, match="does not fit"), gated(lm, gates):
            pass
    assert hooks(lm) == 0
    with masked(lm, MASK):
        pass


def test_no_hook_stays_when_hooking_fails_half_way(lm, monkeypatch):
    find = type(lm.adapter).output_projection
    monkeypatch.setattr(
        type(lm.adapter),
        "output_projection",
        lambda self, model, layer: find(self, model, layer) if layer < 2 else 1,
    )
    with pytest.raises(AttributeError), masked(lm, MASK):
        pass
    assert hooks(lm) == 0
    monkeypatch.undo()
    with masked(lm, MASK):
        pass


def test_no_hook_stays_when_the_model_raises():
    lm = tiny_model("llama")
    with pytest.raises(IndexError), masked(lm, MASK):
        lm.model(torch.tensor([[4800]]))
    assert hooks(lm) == 0
    with masked(lm, MASK):
        lm.model(TOKENS)


def test_nested_masks_are_refused_and_the_outer_one_stays(lm):
    with masked(lm, MASK):
        outer = lm.model(TOKENS).logits
        with pytest.raises(MaskError, match="masked already"), masked(lm, MASK):
            pass
        with pytest.raises(MaskError, match="masked already"), gated(lm, torch.ones(3, 4)):
            pass
        assert torch.equal(lm.model(TOKENS).logits, outer)
    assert hooks(lm) == 0


def test_another_thread_cannot_mask_the_same_model(lm):
    seen = []

    def other():
        try:
            with masked(lm, MASK):
                seen.append("masked")
        except MaskError:
            seen.append("refused")

    with masked(lm, MASK):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == ["refused"]


def test_two_models_can_be_masked_at_once():
    one, two = tiny_model("gpt2"), tiny_model("gpt2")
    with masked(one, MASK), masked(two, MASK):
        assert torch.equal(one.model(TOKENS).logits, two.model(TOKENS).logits)


def test_a_cut_model_takes_no_mask_and_no_second_cut(lm):
    smaller = cut(lm, MASK)
    with pytest.raises(MaskError, match="cut already"), masked(smaller, MASK):
        pass
    for again in (cut, zeroed):
        with pytest.raises(MaskError, match="cut already"):
            again(smaller, MASK)
        with pytest.raises(MaskError, match="does not fit"):
            again(lm, HeadMask(1, 4))


def test_a_masked_model_is_not_copied(lm):
    for copying in (cut, zeroed):
        with masked(lm, MASK), pytest.raises(MaskError, match="is masked"):
            copying(lm, MASK)
    assert hooks(cut(lm, MASK)) == 0


@pytest.mark.parametrize("name", EVERY)
def test_the_proof_holds_on_every_family(name):
    lm = tiny_model(name)
    prove_mask_works(lm)
    assert hooks(lm) == 0


def test_the_proof_notices_a_mask_on_the_wrong_module(lm, monkeypatch):
    elsewhere = torch.nn.Linear(32, 32)
    monkeypatch.setattr(type(lm.adapter), "output_projection", lambda self, model, layer: elsewhere)
    with pytest.raises(MaskError, match="changes nothing"):
        prove_mask_works(lm)


def test_a_model_that_answers_the_same_to_everything_is_called_that():
    """Its last layer is zero: no mask is to blame."""
    lm = tiny_model("gptj")
    for part in lm.model.lm_head.parameters():
        part.data.zero_()
    with pytest.raises(MaskError, match="answers the same to every text"):
        prove_mask_works(lm)


@pytest.mark.parametrize("layer", [0, 2])
def test_the_proof_notices_a_layer_whose_heads_write_nothing(layer):
    lm = zeroed(tiny_model("gptj"), HeadMask(3, 4, tuple((layer, head) for head in range(4))))
    with pytest.raises(MaskError, match=f"layer {layer}"):
        prove_mask_works(lm)


def test_the_proof_notices_logits_that_are_no_numbers(lm):
    lm.model.transformer.wte.weight[:] = float("nan")
    with pytest.raises(MaskError):
        prove_mask_works(lm)


# GPT-Neo's and GPT-J's attention weights and Llama's norms are float32 whatever the model's dtype:
# a coarser check.
@pytest.mark.parametrize(
    ("name", "step", "tolerance"),
    [
        ("gpt2", 1e-5, 1e-8),
        ("llama_grouped", 1e-3, 1e-3),
        ("gpt_neo", 1e-3, 1e-3),
        ("gptj", 1e-3, 1e-3),
        ("bert", 1e-5, 1e-8),
        ("distilbert", 1e-5, 1e-8),
        ("roberta", 1e-5, 1e-8),
    ],
)
def test_gradient_of_gates_equals_finite_differences(name, step, tolerance):
    lm = tiny_model(name, dtype="float64")
    tokens = torch.tensor([[5, 9, 7, 22, 40, 3, 11], [8, 8, 30, 12, 6, 41, 2]])

    def loss(gates):
        with gated(lm, gates):
            logits, wanted = lm.model(tokens).logits, torch.tensor([2, 0])
        if lm.adapter.causal:
            logits, wanted = logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        return torch.nn.functional.cross_entropy(logits, wanted)

    start = torch.linspace(0.3, 1.2, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    (exact,) = torch.autograd.grad(loss(start), start)
    assert exact.abs().median() > (0.05 if lm.adapter.causal else 1e-3), "far above the tolerance"
    with torch.no_grad():
        for unit in range(12):
            nudge = torch.zeros(12, dtype=torch.float64)
            nudge[unit] = step
            nudge = nudge.reshape(3, 4)
            slope = (loss(start + nudge) - loss(start - nudge)) / (2 * step)
            assert abs(float(slope - exact.flatten()[unit])) < tolerance
