"""How far work is: the share that is done never falls, whatever turns up, and seconds left follow
what was measured."""

import itertools

import pytest

from engine.audit.session import OFTEN, SETTLED, Progress, _partly
from engine.audit.turn import BEAT, Pulse
from engine.core.errors import Cancelled
from engine.core.types import Event


def told():
    events = []
    return events, Progress(events.append)


def test_seconds_left_are_those_of_the_rest_at_the_speed_so_far():
    events, progress = told()
    progress.expect_in_all(10)
    progress.expect(4)
    progress.advance("one", 4, seconds=8)
    assert (events[-1].done, events[-1].total, events[-1].eta) == (4, 10, 12)
    progress.partly("two", 3, seconds=3)
    assert (events[-1].done, events[-1].eta) == (7, 3 * 11 / 7)


def test_the_first_batch_is_no_forecast_and_what_begins_again_within_a_part_stands_still():
    events, progress = told()
    progress.clock = itertools.count(8 * SETTLED, 2 * OFTEN).__next__
    progress.expect_in_all(10)
    progress.partly("one", 0.1, seconds=SETTLED / 2)
    assert events[-1].eta is None
    report = _partly(progress, "one", 5, "fit, then answer", start=0)
    for share in (0.8, 0.1, 0.9):
        report(share)
    assert [event.done for event in events[1:]] == [4, 4, 5]  # 4.5, counted upwards
    assert events[1].eta == pytest.approx(events[2].eta, rel=0.1) and events[3].eta < events[2].eta


def test_what_was_finished_before_counts_as_done_and_not_for_the_speed():
    events, progress = told()
    progress.expect(10)
    progress.advance("one", 5, seconds=0, fresh=False)
    assert events[-1].eta is None
    progress.advance("one", 1, seconds=2)
    assert events[-1].eta == 8


def test_the_share_stands_still_while_more_work_turns_up():
    events, progress = told()
    progress.expect_in_all(20)
    for size in (7, 90, 3, 1):
        progress.expect(size)
        progress.say("next")
        progress.advance("next", size / 2, seconds=1)
        progress.advance("next", size / 2, seconds=1)
    shares = [event.done / event.total for event in events]
    assert shares == sorted(shares) and shares[-1] == 1
    assert events[-1].eta == 0 and max(event.eta for event in events[3:]) > 0


def test_what_was_said_last_is_said_again_while_a_step_takes_long():
    now, events, raised = [0.0], [], []
    pulse = Pulse(events.append, lambda: now[0] > 100, lambda: now[0])
    pulse.say(Event("score", 1, 9, "gender", eta=20.0, note="a sentence said once"))
    for moment in (BEAT / 2, BEAT, BEAT + 0.1, 12.0, 60.0, 101.0):
        now[0] = moment
        pulse.beat()
    again = [(event.done, event.what, event.eta, event.note) for event in events[1:]]
    assert again == [
        (1, "gender (2 seconds so far)", 20.0 - BEAT, ""),
        (1, "gender (12 seconds so far)", 8.0, ""),
        (1, "gender (60 seconds so far)", 2.0, ""),
    ]

    def watched(event):
        if raised:
            raise Cancelled("enough")

    pulse = Pulse(watched, clock=lambda: now[0])
    pulse.check()
    raised.append(True)
    now[0] += BEAT
    pulse.beat()
    with pytest.raises(Cancelled, match="enough"):
        pulse.check()


def test_a_job_that_ended_says_nothing_more():
    events = []
    with Pulse(events.append) as pulse:
        pulse.say(Event("load", 0, 0))
    assert not pulse._thread.is_alive() and len(events) == 1
