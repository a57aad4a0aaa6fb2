"""A GPT-2 small enough to solve by hand.

Three tokens a, b, c and three positions, each a row of a Hadamard matrix:
    e_a = p_0 = (1, -1, 1, -1)    e_b = p_1 = (1, 1, -1, -1)    e_c = p_2 = (1, -1, -1, 1)
Token vectors fill dimensions 0-3, position vectors 4-7. Every input x = (e_token, p_i) has mean 0
and variance 1, so the first LayerNorm changes nothing. One layer, two heads of width 4; the MLP
writes zero.

Head 0: its query at position i is 50 * p_(i-1), its key p_j, so it reads the previous token
(position 0 reads itself; score 50 * 4 / sqrt(4) = 100 against 0, and exp(-100) is nothing) and adds
g * e_previous to the token dimensions (g is the head's gate, 1 = on). Head 1 reads something random
and its output weights are zero.

Before the last LayerNorm the state is (e_current + g * e_previous, p_i), mean 0 and
    variance = (4 + 4 g^2 + 4) / 8 = 1 + g^2 / 2      where the two tokens differ,
    variance = (4 (1 + g)^2 + 4) / 8                  where they are the same (and at position 0).
The logit of token t is e_t . state / 4 / sqrt(variance). So for the text "a b b":
    position 0   a: (1 + g) / sqrt(((1 + g)^2 + 1) / 2)            on: 2 / sqrt(2.5)        off: 1
    position 1   b: 1 / sqrt(1 + g^2 / 2),  a: g times that   on: sqrt(2/3) twice      off: b 1, a 0
    position 2   b: as position 0
All other logits are 0. Masking head 1 changes nothing at all.
"""

import math

import pytest
import torch

from engine.core.types import HeadMask
from engine.models import runtime  # noqa: F401
from engine.models.load_language_model import LanguageModel
from engine.models.structure.adapter import adapter_of
from engine.surgery.heads.mask import cut, gated, masked

ROWS = torch.tensor([[1.0, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
TEXT = torch.tensor([[0, 1, 1]])


@pytest.fixture
def lm():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=8,
        n_head=2,
        n_layer=1,
        n_positions=3,
        vocab_size=3,
        layer_norm_epsilon=0.0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config).eval().requires_grad_(False)
    block = model.transformer.h[0]
    for parameter in (
        model.transformer.wte.weight,
        model.transformer.wpe.weight,
        model.lm_head.weight,
    ):
        parameter.zero_()
    model.transformer.wte.weight[:, :4] = ROWS
    model.transformer.wpe.weight[:, 4:] = ROWS
    model.lm_head.weight[:, :4] = ROWS / 4
    block.mlp.c_proj.weight.zero_()
    weights = block.attn.c_attn.weight  # columns: q of head 0, q of head 1, k 0, k 1, v 0, v 1
    for start in (0, 8, 16):
        weights[:, start : start + 4] = 0
    weights[4:, 0:4] = 50 * (torch.outer(ROWS[1], ROWS[0]) + torch.outer(ROWS[2], ROWS[1])) / 4
    weights[4:, 8:12] = torch.eye(4)
    weights[:4, 16:20] = torch.eye(4)
    weights[:, [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]] = torch.randn(8, 12)
    block.attn.c_proj.weight.zero_()
    block.attn.c_proj.weight[:4, :4] = torch.eye(4)
    place = torch.device("cpu")
    return LanguageModel(
        "by hand", None, model, None, adapter_of(config), "0" * 64, place, torch.float32
    )


def worked_out(gate):
    same = (1 + gate) / math.sqrt(((1 + gate) ** 2 + 1) / 2)
    other = 1 / math.sqrt(1 + gate**2 / 2)
    return torch.tensor([[same, 0, 0], [gate * other, other, 0], [0, same, 0]])


def logits(lm):
    return lm.model(TEXT).logits[0]


def close(found, wanted):
    return torch.allclose(found, wanted, atol=1e-6, rtol=0)


def test_head_0_on_off_and_half_way_is_what_was_worked_out_and_head_1_is_nothing(lm):
    plain, zero, one = logits(lm), HeadMask(1, 2, ((0, 0),)), HeadMask(1, 2, ((0, 1),))
    assert close(plain, worked_out(1))
    assert close(plain[1], torch.tensor([math.sqrt(2 / 3), math.sqrt(2 / 3), 0]))
    with masked(lm, one):
        assert torch.equal(logits(lm), plain)
    with masked(lm, zero):
        assert close(logits(lm), worked_out(0))
    with gated(lm, torch.tensor([[0.5, 1.0]])):
        assert close(logits(lm), worked_out(0.5))
    for mask, gate in ((one, 1), (zero, 0), (HeadMask(1, 2, ((0, 0), (0, 1))), 0)):
        assert close(logits(cut(lm, mask)), worked_out(gate))


def test_gradient_of_the_gate(lm):
    """At g = 1 the logit of a at position 1, g / sqrt(1 + g^2 / 2), has the slope (1 + g^2 /
    2)^(-3/2) = 1.5^(-3/2)."""
    gates = torch.ones(1, 2, requires_grad=True)
    with gated(lm, gates):
        logits(lm)[1, 0].backward()
    assert close(gates.grad, torch.tensor([[1.5**-1.5, 0.0]]))
