"""What is proved of a model read by its structure is what an audit asks of it; inspect says what is
not read."""

from __future__ import annotations

import shutil

import pytest

from engine.core.types import Decoding, Window
from engine.models.decode import sample
from engine.tracks.language_models import likelihoods
from engine.tracks.language_models.likelihoods import window_nll
from engine.tracks.language_models.request import inspected
from tests.models.test_structure import TEXTS
from tests.tiny import DECODERS, folder_of, tiny_model


@pytest.mark.parametrize("name", DECODERS)
def test_perplexity_a_few_positions_at_a_time_and_drawing_are_what_was_proved(name, monkeypatch):
    lm, tokens = tiny_model(name), list(range(3, 45))
    plain = window_nll(lm, tokens, Window())
    monkeypatch.setattr(likelihoods, "positions_at_once", lambda lm: 5)
    assert abs(window_nll(lm, tokens, Window())["nll"] - plain["nll"]).max() < 1e-2
    short = Decoding(max_new_tokens=4)
    each = [sample(lm, [one], [key], [0], short)[0] for one, key in zip(TEXTS, "ab", strict=True)]
    assert sample(lm, TEXTS, ["a", "b"], [0, 0], short) == each


def test_inspect_says_what_of_a_folder_is_not_read(tmp_path):
    folder = shutil.copytree(folder_of("gpt2"), tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"x")
    note = "pytorch_model.bin is not read; model.safetensors is. Are they the same weights?"
    assert note in inspected({"model": str(folder)})
