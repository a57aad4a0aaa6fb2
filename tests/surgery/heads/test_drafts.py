"""Texts of a masked model from those of the dense one: the same to the token as drawn from the start."""

from __future__ import annotations

import pytest
import torch

from engine.core.types import Decoding, HeadMask
from engine.models import decode, room
from engine.models.decode import begin, draw_on
from engine.surgery.heads import drafts, redraw
from engine.surgery.heads.drafts import redrawn
from engine.surgery.heads.mask import masked, masked_rows
from engine.surgery.heads.redraw import drawn_again
from tests.tiny import TINY, text, tiny_model

DECODING = Decoding(max_new_tokens=10, max_prompt_tokens=4)
PROMPTS = [text(*(3 + at % 7 + place for place in range(1 + at % 5))) for at in range(24)]
SINGLE = [HeadMask(3, 4, ((layer, head),)) for layer, head in ((0, 1), (1, 0), (1, 3), (2, 2))]
LARGE = HeadMask(3, 4, ((0, 0), (0, 1), (1, 2), (1, 3), (2, 0)))


def begun(lm, decoding=DECODING):
    return begin(lm, PROMPTS, [f"p{at}" for at in range(len(PROMPTS))], [0] * len(PROMPTS), decoding)


def plainly(lm, mask, decoding=DECODING):
    with masked(lm, mask):
        return draw_on(lm, begun(lm, decoding), decoding)[0]


@pytest.mark.parametrize("name", sorted(TINY))
def test_texts_are_those_of_drawing_from_the_start(name):
    lm = tiny_model(name)
    dense = draw_on(lm, begun(lm), DECODING)[0]
    together = redrawn(lm, SINGLE, begun(lm), dense, DECODING)
    assert together == [plainly(lm, mask) for mask in SINGLE]
    changed = redrawn(lm, [LARGE], begun(lm), dense, DECODING)[0]
    assert changed == plainly(lm, LARGE) != dense


@pytest.mark.parametrize("readings", [1, 4])
def test_neither_readings_nor_a_draft_that_says_something_else_change_a_text(readings, monkeypatch):
    monkeypatch.setattr(drafts, "CPU_READINGS", readings)
    lm, expected = tiny_model("gpt2"), [plainly(tiny_model("gpt2"), mask) for mask in (SINGLE[0], LARGE)]
    other = [[5] * 9 + [2], *([[2]] * 23)]
    assert redrawn(lm, [SINGLE[0], LARGE], begun(lm), other, DECODING) == expected


@pytest.mark.parametrize("decoding", [Decoding(8, 4, 0.7), Decoding(8, 4, 1.0, 5), Decoding(8, 4, 1.0, 0, 0.8)])
def test_temperature_top_k_and_top_p_hold_in_drafts(decoding):
    lm = tiny_model("gpt2")
    dense = draw_on(lm, begun(lm, decoding), decoding)[0]
    assert redrawn(lm, [LARGE], begun(lm, decoding), dense, decoding) == [plainly(lm, LARGE, decoding)]


def test_what_rounding_could_turn_is_drawn_from_the_start(monkeypatch):
    lm = tiny_model("gpt2")
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, LARGE)
    monkeypatch.setattr(drafts, "near_of", lambda lm: 1e9)  # every token comes near another
    began = []
    monkeypatch.setattr(
        drafts, "draw_on", lambda lm, one, *a, **k: began.extend(one.drawn) or draw_on(lm, one, *a, **k)
    )
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert began == [[]] * len(PROMPTS)


def test_rows_have_masks_of_their_own():
    lm, ids = tiny_model("gpt2"), torch.tensor([[3, 4, 5]] * 3)
    masks = [LARGE, SINGLE[0]]
    alone = []
    for mask in (SINGLE[0], LARGE, SINGLE[0]):
        with masked(lm, mask), torch.no_grad():
            alone.append(lm.model(input_ids=ids[:1]).logits[0])
    with masked_rows(lm, masks) as choose, torch.no_grad():
        choose([1, 0, 1])
        together = lm.model(input_ids=ids).logits
    assert torch.allclose(together, torch.stack(alone), atol=1e-5)


def test_every_way_is_tried_and_the_quicker_one_goes_on(monkeypatch):
    lm, calls = tiny_model("gpt2"), []
    dense = draw_on(lm, begun(lm), DECODING)[0]
    expected = plainly(lm, LARGE)
    seconds = {"drafts": 3.0, "plain": 1.0}
    now = [0.0]

    def pretended(way, found):
        def draw(lm, *given):
            calls.append((way, len(given[1])))
            now[0] += seconds[way] * len(given[1])
            return found(lm, *given)

        return draw

    monkeypatch.setattr(redraw.time, "process_time", lambda: now[0])
    monkeypatch.setattr(redraw, "redrawn", pretended("drafts", redraw.redrawn))
    monkeypatch.setattr(redraw, "_plain", pretended("plain", redraw._plain))
    monkeypatch.setattr(redraw, "_paces", {})
    for _ in range(3):
        assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert [way for way, _ in calls] == ["drafts", "plain", "plain"]
    calls.clear()
    monkeypatch.setattr(redraw, "batch_of", lambda lm: 4)  # 24 texts are six batches now
    monkeypatch.setattr(redraw, "_paces", {})
    for _ in range(2):
        assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert calls == [("drafts", 6), ("plain", 6), ("plain", 12), ("plain", 24)]


def test_a_device_with_hardly_any_memory_draws_few_texts_at_once_and_the_same(monkeypatch):
    lm, sizes, padded = tiny_model("gpt2"), [], decode.left_pad
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], [plainly(lm, mask) for mask in SINGLE]
    weights = lm.n_parameters * lm.dtype.itemsize
    monkeypatch.setattr(decode, "left_pad", lambda rows, device: sizes.append(len(rows)) or padded(rows, device))
    for spare, most in ((400_000, len(PROMPTS) - 1), (0, 1)):
        sizes.clear()
        monkeypatch.setattr(room, "on_device", lambda device, spare=spare: weights + spare)
        assert redrawn(lm, SINGLE, begun(lm), dense, DECODING) == expected
        assert draw_on(lm, begun(lm), DECODING)[0] == dense
        assert min(most, 2) <= max(sizes) <= most


def test_numbers_of_16_bits_are_drawn_plainly(monkeypatch):
    """A lead below a whole unit of a logit could be rounding there: hardly a token of a draft would be sure."""
    lm = tiny_model("gpt2", "bfloat16")
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, LARGE)
    monkeypatch.setattr(redraw, "redrawn", lambda *given: pytest.fail("a draft was read"))
    assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert drafts.near_of(lm) > 10 * drafts.near_of(tiny_model("gpt2")) * 1000


@pytest.mark.slow
def test_texts_of_the_demo_are_those_of_drawing_from_the_start():
    """Single heads of a layer, few and many heads, from the dense model's texts and from each other's."""
    from engine.models.load_language_model import load_language_model

    lm, decoding = load_language_model("demo-gpt2", device="cpu"), Decoding(max_new_tokens=40)
    words = ["the people from", "my neighbour is", "a story about her", "every day they", "he said that", "we saw"]
    texts = [f"{word} {more}" for word in words for more in words]
    start = begin(lm, texts, [f"p{at}" for at in range(len(texts))], [0] * len(texts), decoding)
    shape, singles = (lm.n_layers, lm.n_heads), [HeadMask(lm.n_layers, lm.n_heads, ((2, head),)) for head in range(4)]
    few = HeadMask.from_units(*shape, (1, 9, 30))
    many = HeadMask.from_units(*shape, (1, 3, 9, 12, 17, 22, 30, 33, 41, 46))

    def drawn(mask):
        with masked(lm, mask):
            return draw_on(lm, start, decoding)[0]

    dense, expected = draw_on(lm, start, decoding)[0], [drawn(mask) for mask in (few, many)]
    assert redrawn(lm, singles, start, dense, decoding) == [drawn(mask) for mask in singles]
    assert redrawn(lm, [few], start, dense, decoding) == expected[:1]
    assert redrawn(lm, [many], start, expected[0], decoding) == expected[1:]
    assert dense != expected[0] != expected[1]
