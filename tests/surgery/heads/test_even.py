"""Even cuts: whole groups in every layer, and a folder that plain transformers loads as the masked
model."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.core.errors import MaskError
from engine.core.types import HeadMask
from engine.surgery.heads.mask import cut, masked
from engine.surgery.heads.replay import Shape, even_faults, is_even, save_even, shape_of
from tests.tiny import VOCABULARY, tiny_language_model

EVEN = HeadMask(3, 4, ((0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (2, 1)))
IDS = torch.randint(3, VOCABULARY, (4, 20), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("family", "group"), [("llama_grouped", 2), ("llama", 1)])
def test_the_folder_loads_with_plain_transformers_and_answers_as_the_masked_model(
    family, group, tmp_path
):
    lm = tiny_language_model(family)
    shape = shape_of(lm.model.config)
    assert (
        shape == Shape(3, 4, group, (1,) if group == 2 else (1, 2))
        and is_even(EVEN, shape)
        and not even_faults(lm.model.config)
    )
    folder = save_even(cut(lm, EVEN), shape, tmp_path / "plain")
    said = json.loads((folder / "config.json").read_text())
    assert (
        said["num_attention_heads"] == 2
        and said["num_key_value_heads"] == 2 // group
        and said["head_dim"] == 8
    )
    assert said["hidden_size"] == 32 and lm.model.config.num_attention_heads == 4
    assert AutoConfig.from_pretrained(folder).num_attention_heads % said["num_key_value_heads"] == 0
    plain = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad(), masked(lm, EVEN):
        torch.testing.assert_close(plain(IDS).logits, lm.model(IDS).logits, rtol=1e-4, atol=1e-5)
    assert sum(one.numel() for one in plain.parameters()) < lm.n_parameters


def test_what_config_cannot_say_is_refused(tmp_path):
    lm = tiny_language_model("llama_grouped")
    half = HeadMask(
        3, 4, tuple((layer, head) for layer in range(3) for head in (0, 2))
    )  # half of both groups
    three = HeadMask(
        3, 4, ((0, 0), (1, 1), (2, 2))
    )  # 32 does not divide by 3: Llama's config refuses it
    plain = shape_of(tiny_language_model("llama").model.config)
    assert (
        is_even(three, Shape(3, 4))
        and not is_even(three, plain)
        and plain.may_take(1) == 0
        and plain.may_take(3) == 3
    )
    uneven = HeadMask(3, 4, ((0, 0), (0, 1)))
    all_of_it = HeadMask(3, 4, tuple((layer, head) for layer in range(3) for head in range(4)))
    for mask in (half, uneven, all_of_it, HeadMask(3, 4)):
        assert not is_even(mask, Shape(3, 4, 2))
    with pytest.raises(MaskError, match="as many whole groups"):
        save_even(cut(lm, uneven), Shape(3, 4, 2), tmp_path / "no")
    (fault,) = even_faults(tiny_language_model("gpt2").model.config)
    assert "head_dim" in fault.what
