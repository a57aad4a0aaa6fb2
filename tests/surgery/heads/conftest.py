"""The model that most of these tests mask."""

import pytest

from tests.tiny import tiny_model


@pytest.fixture
def lm():
    return tiny_model("gpt2")
