"""Compressions do what their papers say: by hand on a small layer, and on tiny models of several
families."""

from types import SimpleNamespace

import pytest
import torch

from engine.models.load_language_model import inspect_model, load_language_model
from engine.tracks.language_models.arms import amount
from engine.tracks.language_models.compressions import compression, compressions
from engine.tracks.language_models.compressions._linear import (
    bytes_by,
    cosines_of,
    drop_layers,
    linear_weights,
    lowest,
    rounded,
    scores,
    sparse,
)
from engine.tracks.language_models.measurements.cost import bytes_of
from tests.tiny import VOCABULARY, folder_of, save_tokenizer, tiny_language_model

from transformers import GPT2Config, GPT2LMHeadModel  # isort: skip

TEXT = torch.randint(3, VOCABULARY, (6, 32), generator=torch.Generator().manual_seed(1)).tolist()
FAMILIES = [
    "gpt2",
    "llama_grouped",
    "opt",
    *(
        pytest.param(one, marks=pytest.mark.slow)
        for one in ("gpt_neo", "gptj", "gpt_neox", "qwen3")
    ),
]


def weights_of(lm) -> list[torch.Tensor]:
    return [one.clone() for one in linear_weights(lm)]


def test_wanda_by_hand():
    weight = torch.tensor([[4.0, -3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    inputs = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 2.0, 4.0]])  # norms 1, 1, sqrt 8, 4
    found = scores(weight, inputs.square().sum(0))
    torch.testing.assert_close(found, torch.tensor([[4, 3, 2 * 8**0.5, 4], [1, 1, 8**0.5, 4]]))
    assert lowest(found, 0.25).tolist() == [
        [False, True, False, False],
        [True, False, False, False],
    ]
    assert lowest(found, 0.5).tolist() == [
        [True, True, False, False],
        [True, True, False, False],
    ]  # 4 < 5.66; a tie


def test_sparsegpt_errs_less_than_the_same_number_of_smallest_weights():
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(600, 150, generator=generator) @ torch.randn(
        150, 150, generator=generator
    )  # correlated
    inputs[:, 7] = 0  # an input that is never seen
    weight = torch.randn(40, 150, generator=generator)
    found = sparse(weight, inputs.T @ inputs, 0.5, 128)
    plain = weight.masked_fill(lowest(weight.abs(), 0.5), 0)
    error, other = ((inputs @ (weight - one).T).square().sum() for one in (found, plain))
    assert error < 0.9 * other
    assert (found != 0).float().mean() == pytest.approx(0.5, abs=0.01)


def test_rounding_is_off_by_half_a_step_at_most():
    weight = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    weight[3] = 0
    for bits, group in ((8, 0), (4, 32), (4, 30)):
        size = group if group and 64 % group == 0 else 64
        parts = weight.reshape(5, -1, size)
        step = parts.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        apart = (rounded(weight, bits, group) - weight).reshape(parts.shape).abs()
        assert (apart <= 0.51 * step).all()  # the scale is kept in half precision
    assert len(rounded(weight, 4, 32)[0, :32].unique()) <= 15


@pytest.mark.parametrize("name", sorted(compressions()))
def test_the_share_is_what_was_asked_and_the_model_stays_as_it_was(name):
    lm, method = tiny_language_model("gpt2"), compression(name)
    before = weights_of(lm)
    for level in method.levels(inspect_model(folder_of("gpt2")), (0.25, 0.5, 0.99)):
        found, reached = method.applied(lm, level, TEXT, 0), method.reached(lm, level)
        assert all(torch.equal(*pair) for pair in zip(before, weights_of(lm), strict=True))
        stored, packed = bytes_by(found, method.bits)
        whole = sum(one.numel() * 4 for one in lm.model.parameters())
        if method.saves == "weights":
            zeros = [(one == 0).flatten() for one in linear_weights(found)]
            assert [float(one.float().mean()) for one in zeros] == pytest.approx(
                [level] * len(zeros), abs=0.1
            )
            assert float(torch.cat(zeros).double().mean()) == pytest.approx(reached, abs=1e-6)
            assert packed < whole and (stored == whole) == (not method.own_levels)
        else:
            assert packed == stored < whole
            assert method.saves == "layers" or reached == pytest.approx(1 - stored / whole)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [one for one in sorted(compressions()) if one != "layer_drop"])
def test_weights_differ_where_it_is_said_and_nowhere_else(family, name):
    """All linear weights of blocks differ; embeddings, norms, biases and the output layer are the
    same to the bit."""
    lm, method = tiny_language_model(family), compression(name)
    level = method.levels(inspect_model(folder_of(family)), (0.5,))[0]
    found = method.applied(lm, level, TEXT, 0)
    stated = {one.data_ptr() for one in linear_weights(found)}
    pairs = zip(lm.model.named_parameters(), found.model.named_parameters(), strict=True)
    differing = {other for (_, one), (other, two) in pairs if not torch.equal(one, two)}
    assert differing == {
        key for key, one in found.model.named_parameters() if one.data_ptr() in stated
    }
    buffers = zip(lm.model.buffers(), found.model.buffers(), strict=True)
    assert all(torch.equal(*pair) for pair in buffers)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["wanda", "sparsegpt"])
def test_what_reads_text_errs_less_than_chance(family, name):
    lm, ids = tiny_language_model(family), torch.tensor(TEXT)
    dense = lm.model(ids).logits
    apart = [
        float(
            (dense - compression(one).applied(lm, 0.5, TEXT, 0).model(ids).logits).square().mean()
        )
        for one in (name, "random_weights")
    ]
    assert apart[0] < apart[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_dropped_layers_are_gone_for_plain_transformers_too(family, tmp_path):
    from transformers import AutoModelForCausalLM

    lm, ids = tiny_language_model(family), torch.tensor(TEXT)
    small = compression("layer_drop").applied(lm, 0.333, TEXT, 0)
    gone = max(range(3), key=lambda layer: cosines_of(lm, TEXT)[layer])
    assert len(lm.adapter.blocks(small.model)) == 2 and small.n_parameters < lm.n_parameters
    small.model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(ids).logits, small.model(ids).logits)
    once = loaded.generate(ids[:, :5], max_new_tokens=6, do_sample=False, pad_token_id=0)
    slow = loaded.generate(
        ids[:, :5], max_new_tokens=6, do_sample=False, pad_token_id=0, use_cache=False
    )
    assert torch.equal(once, slow), f"{gone} was dropped; the cache counts layers otherwise"


def test_a_layer_that_does_nothing_is_dropped_first_and_nothing_changes():
    lm, ids = tiny_language_model("gpt2"), torch.tensor(TEXT)
    idle = compression("random_weights").applied(lm, 0.0, TEXT, 0)  # a copy
    for module in (idle.model.transformer.h[1].attn.c_proj, idle.model.transformer.h[1].mlp.c_proj):
        module.weight.data.zero_()
        module.bias.data.zero_()
    small = compression("layer_drop").applied(idle, 0.333, TEXT, 0)
    torch.testing.assert_close(small.model(ids).logits, idle.model(ids).logits)
    drop_layers(idle, [0])
    assert not torch.allclose(small.model(ids).logits, idle.model(ids).logits)


def test_as_many_ends_of_a_text_as_layers_are_not_dropped_with_them():
    sizes = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    model = GPT2LMHeadModel(GPT2Config(**sizes, eos_token_id=[3, 4]))
    drop_layers(
        SimpleNamespace(model=model, adapter=SimpleNamespace(blocks=lambda one: one.transformer.h)),
        [0],
    )
    assert model.config.eos_token_id == [3, 4] and model.config.n_layer == 1


def test_bytes_are_those_of_the_files_whatever_is_computed_in(tmp_path):
    """A bf16 checkpoint has half of fp32's bytes, and int8 saves half of its weights', not three
    quarters."""
    method, saved = compression("int8"), {}
    for dtype in (torch.float32, torch.bfloat16):
        folder = tmp_path / str(dtype)
        tiny_language_model("llama").model.to(dtype).save_pretrained(folder)
        save_tokenizer(folder)
        info, lm = inspect_model(folder), load_language_model(folder, device="cpu")
        assert (lm.dtype, info.width, lm.width) == (torch.float32, dtype.itemsize, dtype.itemsize)
        assert bytes_of(lm) == info.n_bytes == dtype.itemsize * lm.n_parameters
        (level,) = method.levels(info, (0.5,), 8 * info.width)
        found = method.applied(lm, level, TEXT, 0)
        saved[dtype] = method.reached(found, level)
        assert level == pytest.approx(saved[dtype], abs=0.08)
        zeroed = compression("wanda").applied(lm, 0.5, TEXT, 0)
        stored, packed = bytes_by(zeroed, compression("wanda").bits)
        assert stored == bytes_of(lm) > packed
    assert saved[torch.bfloat16] == pytest.approx(saved[torch.float32] * 2 / 3, abs=0.06)


def test_a_level_that_rounds_to_no_weight_reaches_nothing_and_says_so():
    lm = tiny_language_model("gpt2")
    assert (
        compression("wanda").reached(lm, 0.001)
        == 0
        < compression("magnitude_weights").reached(lm, 0.001)
    )
    said = amount({"method": "wanda", "sparsity": 0.99, "realised": 0.984, "arm": "x"})
    assert said == "98.4 % of weights zero (asked: 99 %)"
