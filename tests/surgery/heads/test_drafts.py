"""Texts of a model with one head off from those of the dense one: the same to the token as drawn
from the start."""

from dataclasses import replace

import pytest

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import decode, runtime
from engine.models.decode import begin, draw_on
from engine.surgery.heads import prefix as drafts
from engine.surgery.heads.mask import masked, masked_rows
from engine.surgery.heads.prefix import can_draft, redrawn
from tests.tiny import TINY, text, tiny_model

DECODING = Decoding(max_new_tokens=10, max_prompt_tokens=4)
PROMPTS = [text(*(3 + at % 7 + place for place in range(1 + at % 5))) for at in range(24)]
SINGLE = [HeadMask(3, 4, ((layer, head),)) for layer, head in ((0, 1), (1, 0), (1, 3), (2, 2))]
ONE = SINGLE[0]
LARGE = HeadMask(3, 4, ((0, 0), (0, 1), (1, 2), (1, 3), (2, 0)))


def begun(lm, decoding=DECODING):
    return begin(
        lm, PROMPTS, [f"p{at}" for at in range(len(PROMPTS))], [0] * len(PROMPTS), decoding
    )


def plainly(lm, mask, decoding=DECODING):
    with masked(lm, mask):
        return draw_on(lm, begun(lm, decoding), decoding)[0]


@pytest.mark.parametrize("name", sorted(TINY))
def test_texts_are_those_of_drawing_from_the_start(name):
    lm = tiny_model(name)
    dense = draw_on(lm, begun(lm), DECODING)[0]
    together = redrawn(lm, SINGLE, begun(lm), dense, DECODING)
    assert together == [plainly(lm, mask) for mask in SINGLE] and any(
        one != dense for one in together
    )


def test_a_draft_that_says_something_else_changes_no_text():
    lm, other = tiny_model("gpt2"), [[5] * 9 + [2], *([[2]] * 23)]
    assert redrawn(lm, SINGLE, begun(lm), other, DECODING) == [plainly(lm, mask) for mask in SINGLE]
    assert redrawn(lm, SINGLE, begun(lm), [[]] * 24, DECODING) == [
        plainly(lm, mask) for mask in SINGLE
    ]


@pytest.mark.parametrize(
    "decoding", [Decoding(8, 4, 0.7), Decoding(8, 4, 1.0, 5), Decoding(8, 4, 1.0, 0, 0.8)]
)
def test_temperature_top_k_and_top_p_hold_in_drafts(decoding):
    lm = tiny_model("gpt2")
    dense = draw_on(lm, begun(lm, decoding), decoding)[0]
    assert redrawn(lm, [ONE], begun(lm, decoding), dense, decoding) == [plainly(lm, ONE, decoding)]


def test_what_rounding_could_turn_is_drawn_from_the_start(monkeypatch):
    lm = tiny_model("gpt2")
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, ONE)
    near = lambda lm, decoding, steps=drafts.NEAR: 1e9 if steps == drafts.NEAR else 0.0  # noqa: E731
    monkeypatch.setattr(drafts, "near_of", near)  # every token comes near another
    began = []
    monkeypatch.setattr(
        drafts,
        "draw_on",
        lambda lm, one, *a, **k: began.extend(one.drawn) or draw_on(lm, one, *a, **k),
    )
    assert redrawn(lm, [ONE], begun(lm), dense, DECODING) == [expected]
    assert began == [[]] * len(PROMPTS)


@pytest.mark.parametrize("turned", [False, True])
def test_a_tie_is_drawn_with_the_texts_that_plain_drawing_draws_it_with(monkeypatch, turned):
    """Which of two tokens that lead by a last bit wins may hang on the batch."""
    monkeypatch.setattr(decode, "batch_of", lambda lm: 7)
    lm, drawn, step = tiny_model("gpt2"), [], 2
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], plainly(lm, ONE)
    group = decode.together(lm, begun(lm), DECODING)[1]
    key, most = begun(lm).keys[group[2]], DECODING.max_new_tokens

    def draw(lm, one, decoding, hooks, near, **more):
        """As it is, but for one text, whose third token is a tie until it is drawn in plain
        drawing's batch."""
        drawn.append((near, decoding.max_new_tokens, list(one.keys)))
        texts, leads = draw_on(lm, one, decoding, hooks, near=near, **more)
        if near and key in one.keys:
            at = list(one.keys).index(key)
            leads[at, step] = 0.0
            texts[at] = [*texts[at][:step], texts[at][step] + 1, 0] if turned else texts[at]
        return texts, leads

    monkeypatch.setattr(drafts, "draw_on", draw)
    assert redrawn(lm, [ONE], begun(lm), dense, DECODING) == [expected]
    mates = [begun(lm).keys[at] for at in group]
    assert [one for one in drawn if not one[0]] == [(0.0, most, mates)]
    assert len(mates) == 7


def test_prompts_alike_are_read_apart_under_masks_of_their_own():
    lm = tiny_model("gpt2")
    twice = begin(lm, [PROMPTS[4]] * 6, list("abcabc"), [0] * 6, DECODING)
    with masked_rows(lm, [LARGE, ONE]) as choose:
        mixed = draw_on(
            lm,
            twice,
            DECODING,
            batch=lambda places, laid: choose(
                [places[at] // 3 for at in (laid.first if laid else range(len(places)))]
            ),
            kinds=[0, 0, 0, 1, 1, 1],
        )[0]
    for mask, some in ((LARGE, [0, 1, 2]), (ONE, [3, 4, 5])):
        with masked(lm, mask):
            assert draw_on(lm, twice.of(some), DECODING)[0] == [mixed[at] for at in some]
    assert mixed[:3] != mixed[3:]


def test_a_device_with_hardly_any_memory_draws_few_texts_at_once_and_the_same(monkeypatch):
    lm, sizes, laid_of = tiny_model("gpt2"), [], decode.laid_of
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], [plainly(lm, mask) for mask in SINGLE]
    weights = lm.n_parameters * lm.dtype.itemsize
    monkeypatch.setattr(
        decode, "laid_of", lambda lm, *of: sizes.append(len(of[0])) or laid_of(lm, *of)
    )
    for spare, most in ((400_000, len(PROMPTS) - 1), (0, 1)):
        sizes.clear()
        monkeypatch.setattr(runtime, "on_device", lambda device, spare=spare: weights + spare)
        assert redrawn(lm, SINGLE, begun(lm), dense, DECODING) == expected
        assert draw_on(lm, begun(lm), DECODING)[0] == dense
        assert min(most, 2) <= max(sizes) <= most


def failing(call, at, left):
    """`call`, out of memory the time numbered `at`."""

    def one(*given, **more):
        left.append(call)
        if len(left) == at:
            raise MemoryError("out of memory")
        return call(*given, **more)

    return one


@pytest.mark.parametrize("at", [1, 2, 3, 5])
@pytest.mark.parametrize("where", ["without_heads", "_won"])
def test_memory_that_runs_out_in_the_middle_of_a_reading_changes_no_text(where, at, monkeypatch):
    lm, calls = tiny_model("gpt2"), []
    dense, expected = draw_on(lm, begun(lm), DECODING)[0], [plainly(lm, mask) for mask in SINGLE]
    monkeypatch.setattr(drafts, where, failing(getattr(drafts, where), at, calls))
    assert redrawn(lm, SINGLE, begun(lm), dense, DECODING) == expected and calls


@pytest.mark.parametrize(
    "what",
    [
        Decoding(10, 4, 1.0, 3),
        Decoding(10, 4, 1.0, 0, 0.9),
        "mixtral",
        "longrope",
        "a prompt of nothing",
        "16 bits",
    ],
)
def test_what_a_last_bit_turns_without_a_lead_that_shows_it_is_no_draft(what, monkeypatch):
    """Who is among the first three, which expert a token is sent to, and what 16 bits round."""
    decoding = what if isinstance(what, Decoding) else DECODING
    lm = tiny_model("mixtral" if what == "mixtral" else "gpt2", *["bfloat16"] * (what == "16 bits"))
    start = begun(lm, decoding)
    if what == "longrope":
        monkeypatch.setattr(
            lm.model.config, "rope_parameters", {"full": {"rope_type": "longrope"}}, raising=False
        )
    if what == "a prompt of nothing":
        start = replace(start, prompts=[[], *start.prompts[1:]])
    assert not can_draft(lm, start, decoding) and can_draft(tiny_model("gpt2"), begun(lm), DECODING)


def test_a_batch_larger_than_what_is_left_tells_no_more_than_all():
    lm, told = tiny_model("gpt2"), []
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append))
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append), batch_size=10)
    assert max(told) == 1.0 and min(told) > 0.0
