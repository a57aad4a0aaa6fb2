"""Procedures on made-up importances: which heads go in which round, what is scored and trained. All
of them found."""

import numpy as np
import pytest

from engine.tracks.text_classifiers.context import TextShard
from engine.tracks.text_classifiers.procedures import (
    TextArm,
    of_initial,
    of_remaining,
    of_remaining_strictly,
    procedures,
)

TOTAL = 8
BASE = np.array([0.8, 0.1, 0.7, 0.2, 0.6, 0.3, 0.5, 0.4])  # cut in the order 1 3 5 7 6 4 2 0


class Made:
    """Importances everybody agrees on at first; once heads 1 and 3 are gone, head 0 becomes the
    least important. None of those after the first `known`."""

    def __init__(self, known=99):
        self.left = known

    def values(self, shard):
        self.left -= 1
        if self.left < 0:
            return None
        gone = set(shard.trained) | set(shard.off)
        values = BASE.copy()
        if {1, 3} <= gone:
            values[0] = 0.0
        values[list(gone)] = np.nan
        return values


def walked(name, sparsities=(0.25, 0.5), step=0.25, known=99):
    """A procedure on these importances, as far as they are known."""
    arm = TextArm(procedures()[name], "conductance", sparsities, step, 1)
    return arm.walk(0, TOTAL, Made(known).values)


AT_ONCE = [(1, 3), (1, 3, 5, 7)], [(), ()]
AGAIN = [(1, 3), (0, 1, 3, 5)], [(), (1, 3)]
OF_THE_REST = [(1, 3), (0, 1, 3), (0, 1, 3, 5)], [(), (1, 3), (0, 1, 3)]
"""Cut after each round, and heads gone when each round is scored."""
EXPECTED = {
    # name: (these, kind of the answers, which says whether it trains)
    "once": (*AT_ONCE, "silenced"),
    "alg61": (*AGAIN, "silenced"),
    "one-shot-isp": (*AT_ONCE, "tuned"),
    "igspf": (*AGAIN, "tuned"),
    "igspp": (*AGAIN, "tuned"),
    "isp": (*OF_THE_REST, "tuned"),
    "isp-strict": (*OF_THE_REST, "tuned"),
}


def test_every_procedure_there_is_was_worked_out_here():
    assert list(procedures()) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_rounds_by_hand(name):
    cuts, gone, kind = EXPECTED[name]
    procedure, walk = procedures()[name], walked(name)
    assert walk.finished and [one.cut for one in walk.iterations] == cuts
    assert {one.retrained for one in walk.iterations} == {kind == "tuned"}
    assert [one.number for one in walk.iterations] == list(range(1, len(cuts) + 1))
    for one, before in zip(walk.iterations, gone, strict=True):
        scored = one.importance
        assert scored.trained + scored.off == before
        assert scored.off == () if procedure.scored == "retrained" else scored.trained == ()
        assert one.answers.kind == kind and one.answers.trained + one.answers.off == one.cut
        assert set(one.newly) == set(one.cut) - set(
            before if procedure.scored != "first" else ()
        ) or name in ("once", "one-shot-isp")
    asked = {share: one.cut for one in walk.iterations for share in one.asked}
    assert {share: len(cut) for share, cut in asked.items()} == {0.25: 2, 0.5: 4}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_walk_stops_where_nothing_is_known_and_asks_for_it(name):
    walk = walked(name, known=0)
    assert not walk.finished and walk.iterations == ()
    assert walk.needed == (TextShard("importance", score="conductance"),)
    later = walked(name, known=1)
    assert len(later.iterations) == 1 and not later.finished
    whole = walked(name)
    assert whole.iterations[0].cut == later.iterations[0].cut and set(later.needed) < set(
        whole.needed
    )


def test_procedures_that_reach_the_same_mask_ask_for_the_same_measurement():
    def asked(name):
        return set(walked(name).needed)

    assert {shard for shard in asked("once") if shard.kind == "importance"} <= asked("one-shot-isp")
    assert {shard for shard in asked("igspf") if shard.kind == "tuned"} <= asked("igspp")


def test_igspf_measures_only_where_it_was_asked():
    walk = walked("igspf", step=0.125)
    assert [len(one.cut) for one in walk.iterations] == [1, 2, 3, 4]
    assert [one.answers is not None for one in walk.iterations] == [False, True, False, True]


def test_rounds_of_the_initial_heads():
    assert of_initial(20, [10], 0.1) == [2, 4, 6, 8, 10]
    assert of_initial(20, [3, 10], 0.25) == [3, 5, 10]
    assert of_initial(16, [4, 8, 12], 0.25) == [4, 8, 12]


def test_rounds_of_the_heads_that_are_left():
    assert of_remaining(100, [50], 0.2) == [20, 36, 48, 50]
    assert of_remaining(8, [7], 0.01) == [1, 2, 3, 4, 5, 6, 7]  # at least one head per round


def test_strictly_a_round_takes_its_share_whatever_was_asked():
    assert of_remaining_strictly(100, [50], 0.2) == [20, 36, 48, 58]
    assert of_remaining_strictly(8, [7], 0.01) == [1, 2, 3, 4, 5, 6, 7]

    def rounds(name, *sparsities):
        found = walked(name, sparsities, 0.6).iterations
        return [(len(one.cut), one.asked) for one in found]

    assert rounds("isp-strict", 0.25, 0.5, 0.6) == [(4, (0.25, 0.5, 0.6))]  # int(.6 * 8) of each
    assert rounds("isp-strict", 0.25, 0.75) == [(4, (0.25,)), (6, (0.75,))]
    assert rounds("isp", 0.25, 0.75) == [(2, (0.25,)), (5, ()), (6, (0.75,))]
