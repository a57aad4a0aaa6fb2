"""What of a config says that a last bit, or a text's length, may turn what a model does."""

from types import SimpleNamespace as Config

import pytest
from transformers import AutoConfig

from engine.models.checkpoint import has_experts, positions_hang_on_length


@pytest.mark.parametrize(
    ("family", "whether"),
    [
        ("gpt2", False),
        ("qwen3", False),
        ("mixtral", True),
        ("qwen3_moe", True),
        ("gpt_oss", True),
        ("dbrx", True),
    ],
)
def test_models_of_experts_are_known_by_their_config(family, whether):
    assert has_experts(AutoConfig.for_model(family)) is whether


@pytest.mark.parametrize(
    ("said", "whether"),
    [
        (None, False),
        ({"rope_type": "default"}, False),
        ({"rope_type": "yarn", "factor": 4.0}, False),
        ({"type": "dynamic"}, True),
        ({"rope_type": "longrope", "short_factor": [1.0]}, True),
        (
            {
                "full_attention": {"rope_type": "longrope"},
                "sliding_attention": {"rope_type": "default"},
            },
            True,
        ),
    ],
)
def test_positions_that_hang_on_the_length_of_a_text(said, whether):
    assert positions_hang_on_length(Config(rope_parameters=said)) is whether
    assert positions_hang_on_length(Config(rope_scaling=said)) is whether
