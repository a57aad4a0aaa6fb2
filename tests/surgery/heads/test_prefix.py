"""Every head off from one dense pass = the plain masked forward pass, for every adapter."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, MaskError, PruneAuditError
from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import decode, runtime
from engine.models.decode import begin, draw_on
from engine.surgery.heads import prefix
from engine.surgery.heads import prefix as drafts
from engine.surgery.heads.mask import is_masked, masked, masked_rows
from engine.surgery.heads.prefix import can_draft, redrawn, row_logps
from tests.tiny import TINY, text, tiny_model

TEXTS = [[3, 9, 4, 1, 7, 2], [5, 6], [8, 8, 1, 2, 3, 4, 5, 6, 7], [2, 4, 6, 8], [9, 1, 1]]
FIRST = [2, 1, 4, 1, 2]


def slow(lm, units, decoding=None):
    """One text and one head at a time, no padding."""
    rows = []
    for unit in [None, *units]:
        cut = () if unit is None else (divmod(unit, lm.n_heads),)
        row = []
        for tokens, first in zip(TEXTS, FIRST, strict=True):
            ids = torch.tensor([tokens])
            with torch.no_grad(), masked(lm, HeadMask(lm.n_layers, lm.n_heads, cut)):
                logits = lm.model(input_ids=ids, use_cache=False).logits[0].float()
            if decoding is not None:
                logits = prefix.filtered(logits, decoding)
            logps = logits.log_softmax(-1)
            row.append(sum(float(logps[at - 1, tokens[at]]) for at in range(first, len(tokens))))
        rows.append(row)
    return np.array(rows[0]), np.array(rows[1:])


@pytest.mark.parametrize("family", TINY)
def test_every_head_off_equals_the_masked_model(family):
    lm = tiny_model(family)
    units = range(lm.n_layers * lm.n_heads)
    dense, off = row_logps(lm, TEXTS, FIRST, units)
    plain, plain_off = slow(lm, units)
    np.testing.assert_allclose(dense, plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(off, plain_off, rtol=1e-5, atol=1e-5)
    assert np.abs(off - dense).max() > 1e-3, "heads that change nothing would prove nothing"


@pytest.mark.parametrize("family", TINY)
def test_batch_size_order_and_choice_of_units_change_nothing(family):
    lm = tiny_model(family)
    units = list(range(lm.n_layers * lm.n_heads))
    dense, off = row_logps(lm, TEXTS, FIRST, units)
    shares = []
    few, few_off = row_logps(
        lm, TEXTS[::-1], FIRST[::-1], units[::-2], hooks=Hooks(inside=shares.append), tokens=9
    )
    assert shares == sorted(shares) and len(shares) > 3 and shares[-1] == pytest.approx(1)
    np.testing.assert_allclose(few[::-1], dense, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(few_off[:, ::-1], off[::-2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", TINY)
def test_reading_only_as_far_as_the_units_need_gives_their_numbers_to_the_bit(family):
    lm = tiny_model(family)
    for units in ([1], list(range(lm.n_heads)), list(range(lm.n_layers * lm.n_heads))):
        whole, part = (
            row_logps(lm, TEXTS, FIRST, units),
            row_logps(lm, TEXTS, FIRST, units, whole=False),
        )
        np.testing.assert_array_equal(part[1], whole[1])
        assert not part[0].any()
    assert np.abs(row_logps(lm, TEXTS, FIRST, [])[0]).min() > 0, "the model reads to its end again"


def test_the_distribution_is_the_one_that_was_sampled_from(lm):
    decoding = Decoding(temperature=0.7, top_k=12)
    dense, off = row_logps(lm, TEXTS, FIRST, [1, 3], decoding)
    plain, plain_off = slow(lm, [1, 3], decoding)
    np.testing.assert_allclose(dense, plain, rtol=1e-5)
    np.testing.assert_allclose(off, plain_off, rtol=1e-5)


def test_half_precision_is_close_and_summed_in_full():
    lm = tiny_model("llama_grouped", "bfloat16")
    dense, off = row_logps(lm, TEXTS, FIRST, range(4))
    exact, exact_off = row_logps(tiny_model("llama_grouped"), TEXTS, FIRST, range(4))
    assert dense.dtype == off.dtype == np.float64
    np.testing.assert_allclose(dense, exact, rtol=0.02)
    np.testing.assert_allclose(off, exact_off, rtol=0.02)


def test_damaged_weights_are_named(lm):
    lm.adapter.output_projection(lm.model, 0).weight.data[0, 0] = float("nan")
    with pytest.raises(PruneAuditError, match="finite probability for 5 of 5 texts"):
        row_logps(lm, TEXTS, FIRST, [0])


def test_nothing_stays_behind_when_it_is_cancelled(lm):
    calls = []

    def check():
        calls.append(1)
        if len(calls) > 2:
            raise Cancelled("stop")

    before = row_logps(lm, TEXTS, FIRST, [0, 5])[1]
    with pytest.raises(Cancelled):
        row_logps(lm, TEXTS, FIRST, [0, 5], hooks=Hooks(check=check), tokens=6)
    assert not is_masked(lm)
    assert all("forward" not in vars(module) for module in lm.model.modules())
    assert not any(
        module._forward_pre_hooks or module._forward_hooks for module in lm.model.modules()
    )
    np.testing.assert_array_equal(row_logps(lm, TEXTS, FIRST, [0, 5])[1], before)


def test_a_masked_model_is_refused(lm):
    with (
        masked(lm, HeadMask(lm.n_layers, lm.n_heads, ((0, 0),))),
        pytest.raises(MaskError, match="masked already"),
    ):
        row_logps(lm, TEXTS, FIRST, [1])


def test_where_memory_is_short_batches_shrink_and_the_numbers_stay(lm, monkeypatch):
    plenty = row_logps(lm, TEXTS, FIRST, range(6))
    whole, rooms = prefix._batch, []

    def short_of_memory(lm, rows, *rest):
        rooms.append(len(rows.ids))
        if len(rows.ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(lm, rows, *rest)

    monkeypatch.setattr(prefix, "_batch", short_of_memory)
    found = row_logps(lm, TEXTS, FIRST, range(6))
    assert max(rooms) > 2 and min(rooms) <= 2
    for few, many in zip(found, plenty, strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-5)


# Texts of a model with one head off from those of the dense one: the same to the token as drawn
# from the start.


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


@pytest.fixture
def dense(lm):
    """The texts of the whole model."""
    return draw_on(lm, begun(lm), DECODING)[0]


@pytest.fixture
def expected(lm):
    """Of the model without each of SINGLE."""
    return [plainly(lm, mask) for mask in SINGLE]


def test_a_draft_that_says_something_else_changes_no_text(lm, expected):
    for other in ([[5] * 9 + [2], *([[2]] * 23)], [[]] * 24):
        assert redrawn(lm, SINGLE, begun(lm), other, DECODING) == expected


@pytest.mark.parametrize(
    "decoding", [Decoding(8, 4, 0.7), Decoding(8, 4, 1.0, 5), Decoding(8, 4, 1.0, 0, 0.8)]
)
def test_temperature_top_k_and_top_p_hold_in_drafts(lm, decoding):
    drawn = draw_on(lm, begun(lm, decoding), decoding)[0]
    assert redrawn(lm, [ONE], begun(lm, decoding), drawn, decoding) == [plainly(lm, ONE, decoding)]


def test_what_rounding_could_turn_is_drawn_from_the_start(lm, dense, expected, monkeypatch):
    near = lambda lm, decoding, steps=drafts.NEAR: 1e9 if steps == drafts.NEAR else 0.0  # noqa: E731
    monkeypatch.setattr(drafts, "near_of", near)  # every token comes near another
    began = []
    monkeypatch.setattr(
        drafts,
        "draw_on",
        lambda lm, one, *a, **k: began.extend(one.drawn) or draw_on(lm, one, *a, **k),
    )
    assert redrawn(lm, [ONE], begun(lm), dense, DECODING) == expected[:1]
    assert began == [[]] * len(PROMPTS)


@pytest.mark.parametrize("turned", [False, True])
def test_a_tie_is_drawn_with_the_texts_that_plain_drawing_draws_it_with(
    lm, dense, expected, monkeypatch, turned
):
    """Which of two tokens that lead by a last bit wins may hang on the batch."""
    monkeypatch.setattr(decode, "batch_of", lambda lm: 7)
    drawn, step = [], 2
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
    assert redrawn(lm, [ONE], begun(lm), dense, DECODING) == expected[:1]
    mates = [begun(lm).keys[at] for at in group]
    assert [one for one in drawn if not one[0]] == [(0.0, most, mates)]
    assert len(mates) == 7


def test_prompts_alike_are_read_apart_under_masks_of_their_own(lm):
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


def test_a_device_with_hardly_any_memory_draws_few_texts_at_once_and_the_same(
    lm, dense, expected, monkeypatch
):
    sizes, laid_of = [], decode.laid_of
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
def test_memory_that_runs_out_in_the_middle_of_a_reading_changes_no_text(
    lm, dense, expected, where, at, monkeypatch
):
    calls = []
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


def test_a_batch_larger_than_what_is_left_tells_no_more_than_all(lm):
    told = []
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append))
    draw_on(lm, begun(lm), DECODING, Hooks(inside=told.append), batch_size=10)
    assert max(told) == 1.0 and min(told) > 0.0
