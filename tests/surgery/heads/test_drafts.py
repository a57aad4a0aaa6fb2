"""Texts of a masked model from those of the dense one: the same to the token as drawn from the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import decode, room
from engine.models.decode import begin, draw_on
from engine.surgery.heads import drafts, kv_cache, redraw
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
    near = lambda lm, decoding, steps=drafts.NEAR: 1e9 if steps == drafts.NEAR else 0.0  # noqa: E731
    monkeypatch.setattr(drafts, "near_of", near)  # every token comes near another
    began = []
    monkeypatch.setattr(
        drafts, "draw_on", lambda lm, one, *a, **k: began.extend(one.drawn) or draw_on(lm, one, *a, **k)
    )
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert began == [[]] * len(PROMPTS)


@pytest.mark.parametrize("turned", [False, True])
def test_a_tie_is_drawn_with_the_texts_that_plain_drawing_draws_it_with(monkeypatch, turned):
    """Which of two tokens that lead by a last bit wins may hang on the batch: up to there, or to the end if it did."""
    monkeypatch.setattr(decode, "batch_of", lambda lm: 7)
    lm, drawn, step = tiny_model("gpt2"), [], 2
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, LARGE)
    group = decode.together(lm, begun(lm), DECODING)[1]
    key, most = begun(lm).keys[group[3]], DECODING.max_new_tokens

    def draw(lm, one, decoding, hooks, near, **more):
        """As it is, but for one text, whose third token is a tie until it is drawn in plain drawing's batch."""
        drawn.append((near, decoding.max_new_tokens, list(one.keys)))
        texts, leads = draw_on(lm, one, decoding, hooks, near=near, **more)
        if near and key in one.keys:
            at = list(one.keys).index(key)
            leads[at, step] = 0.0
            texts[at] = [*texts[at][:step], texts[at][step] + 1, 0] if turned else texts[at]
        return texts, leads

    monkeypatch.setattr(drafts, "draw_on", draw)
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    mates = [begun(lm).keys[at] for at in group]
    assert [one for one in drawn if not one[0]] == [(0.0, step + 1, mates), (0.0, most, mates)][: 1 + turned]
    assert len(mates) == 7


@pytest.mark.parametrize("name", sorted(TINY))
def test_what_was_read_is_not_read_again_as_far_as_there_is_room(name, monkeypatch):
    lm, kept = tiny_model(name), []
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, LARGE)
    put, joined = kv_cache.Shelf.put, kv_cache.joined
    monkeypatch.setattr(kv_cache.Shelf, "put", lambda *given: kept.append(put(*given)) or kept[-1])
    monkeypatch.setattr(kv_cache, "joined", lambda rows: kept.append(rows) or joined(rows))
    monkeypatch.setattr(kv_cache, "read", lambda *given: pytest.fail("read again"))
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    shelved = [one for one in kept[0] if one]
    assert {id(one) for one in kept[1]} == {id(one) for one in shelved} if shelved else len(kept) == 1
    assert bool(shelved) == kv_cache._plain(lm.model(input_ids=torch.tensor([[3, 4]]), use_cache=True).past_key_values)
    monkeypatch.undo()
    few = sum(one.tokens for one in shelved[:3]) * 2 * 3 * lm.model.config.hidden_size * 4
    for room_for in (0, few):
        monkeypatch.setattr(room, "kept", lambda *given, room_for=room_for: room_for)
        assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]


def test_texts_that_are_kept_and_texts_that_are_read_make_one_batch(monkeypatch):
    lm, batches = tiny_model("gpt2"), []
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, LARGE)
    put, read = kv_cache.Shelf.put, kv_cache.read
    every_second = lambda found: [one if at % 2 else None for at, one in enumerate(found)]  # noqa: E731
    monkeypatch.setattr(kv_cache.Shelf, "put", lambda *given: every_second(put(*given)))
    monkeypatch.setattr(kv_cache, "read", lambda lm, texts: batches.append(len(texts)) or read(lm, texts))
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert batches and max(batches) > 2


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


def test_a_few_drafts_are_read_before_all_are_and_the_quicker_way_goes_on(monkeypatch):
    lm, calls = tiny_model("gpt2"), []
    dense = draw_on(lm, begun(lm), DECODING)[0]
    expected, singles = plainly(lm, LARGE), [plainly(lm, mask) for mask in SINGLE]
    now, reading, read, draw = [0.0], [0.01], redraw.read, redraw.draw_on

    def slow_read(lm, masks, begun, found, *given):
        calls.append(("read", len(begun)))
        now[0] += reading[0] * len(begun)
        read(lm, masks, begun, found, *given)

    def slow_draw(lm, begun, *given):
        calls.append(("plain", len(begun)))
        now[0] += len(begun)
        return draw(lm, begun, *given)

    monkeypatch.setattr(redraw, "_clock", lambda lm: now[0])
    monkeypatch.setattr(redraw, "read", slow_read)
    monkeypatch.setattr(redraw, "draw_on", slow_draw)
    monkeypatch.setattr(redraw, "_paces", {})
    for _ in range(2):  # nothing is known of plain drawing before the first
        assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert calls == [("plain", 24), ("read", 16), ("read", 8)]
    calls.clear()
    monkeypatch.setattr(redraw, "_paces", {})  # as a worker of a cluster begins: the first of a layer's tells
    assert drawn_again(lm, SINGLE, begun(lm), dense, DECODING) == singles
    assert calls[:2] == [("plain", 24), ("read", 16)] and calls.count(("plain", 24)) == 1
    calls.clear()
    reading[0] = 4.0
    for _ in range(3):  # once plain drawing after a few were read, then without
        redraw._of(lm).misjudged.clear()
        assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert calls == [("read", 16), ("plain", 24), ("plain", 24), ("plain", 24)]


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
    monkeypatch.setattr(redraw, "read", lambda *given: pytest.fail("a draft was read"))
    assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected]
    assert drafts.near_of(lm, DECODING) > 10 * drafts.near_of(tiny_model("gpt2"), DECODING) * 1000


def failing(call, at, left):
    """`call`, out of memory the time numbered `at`."""

    def one(*given, **more):
        left.append(call)
        if len(left) == at:
            raise MemoryError("out of memory")
        return call(*given, **more)

    return one


@pytest.mark.parametrize("at", [1, 2, 3, 5])
@pytest.mark.parametrize("where", ["without_heads", "_won", "_hidden"])
def test_memory_that_runs_out_in_the_middle_of_a_reading_changes_no_text(where, at, monkeypatch):
    lm, calls = tiny_model("gpt2"), []
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], [plainly(lm, mask) for mask in (*SINGLE, LARGE)]
    of = drafts._Reader if where == "_won" else drafts
    monkeypatch.setattr(of, where, failing(getattr(of, where), at, calls))
    several = redrawn(lm, SINGLE, begun(lm), dense, DECODING)
    assert [*several, *redrawn(lm, [LARGE], begun(lm), dense, DECODING)] == expected and calls


def test_where_drafts_do_not_fit_at_all_texts_are_drawn_plainly(monkeypatch):
    lm, calls = tiny_model("gpt2"), []
    dense, expected = redraw.drawn_plainly(lm, begun(lm), DECODING), plainly(lm, LARGE)

    def read(*given):
        calls.append("read")
        raise MemoryError("out of memory")

    monkeypatch.setattr(redraw, "read", read)
    assert drawn_again(lm, [LARGE], begun(lm), dense, DECODING) == [expected] and calls == ["read"]
    monkeypatch.setattr(redraw, "read", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        drawn_again(lm, [LARGE], begun(lm), dense, DECODING)


def test_drafts_of_which_nothing_is_left_to_read(monkeypatch):
    monkeypatch.setattr(drafts, "CPU_READINGS", 3)
    lm, expected = tiny_model("gpt2"), plainly(tiny_model("gpt2"), LARGE)
    assert redrawn(lm, [LARGE], begun(lm), [[2]] * 24, DECODING) == [expected]
    assert redrawn(lm, [LARGE], begun(lm), [[]] * 24, DECODING) == [expected]
    redraw.drawn_plainly(lm, begun(lm), DECODING)
    assert drawn_again(lm, [LARGE], begun(lm).of([]), [], DECODING) == [[]]


def test_of_a_draft_only_what_a_text_can_have_is_read():
    lm, few = tiny_model("gpt2"), Decoding(max_new_tokens=5, max_prompt_tokens=4)
    dense, behind = draw_on(lm, begun(lm), DECODING)[0], lm.tokenizer.eos_token_id
    assert redrawn(lm, [LARGE], begun(lm, few), dense, few) == [plainly(lm, LARGE, few)]
    dense = [[*one, behind, *one[:3]] for one in dense]
    assert redrawn(lm, [LARGE], begun(lm), dense, DECODING) == [plainly(lm, LARGE)]


@pytest.mark.parametrize(
    "what", [Decoding(10, 4, 1.0, 3), Decoding(10, 4, 1.0, 0, 0.9), "mixtral", "longrope", "a prompt of nothing"]
)
def test_what_a_last_bit_turns_without_a_lead_that_shows_it_is_drawn_plainly(what, monkeypatch):
    """Who is among the first three, which expert a token is sent to; drafts would not be worth their promise."""
    decoding = what if isinstance(what, Decoding) else DECODING
    lm = tiny_model("mixtral" if what == "mixtral" else "gpt2")
    start = begun(lm, decoding)
    if what == "longrope":
        monkeypatch.setattr(lm.model.config, "rope_parameters", {"full": {"rope_type": "longrope"}}, raising=False)
    dense = redraw.drawn_plainly(lm, start, decoding)
    if what == "a prompt of nothing":
        start = replace(start, prompts=[[], *start.prompts[1:]])
    monkeypatch.setattr(redraw, "read", lambda *given: pytest.fail("a draft was read"))
    monkeypatch.setattr(redraw, "_plain", lambda *given: dense)
    assert drawn_again(lm, [LARGE], start, dense, decoding) == [dense]


def test_a_batch_larger_than_what_is_left_tells_no_more_than_all():
    lm, told = tiny_model("gpt2"), []
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append))
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append), batch_size=10)
    assert max(told) == 1.0 and min(told) > 0.0


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
