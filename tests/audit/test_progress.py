"""How far work is: the share that is done never falls, whatever turns up, and seconds left follow what was measured."""

from __future__ import annotations

from engine.audit.progress import Progress


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


def test_work_that_was_counted_already_is_not_counted_again():
    _, progress = told()
    progress.expect_in_all(10)
    progress.expect(4)
    assert progress.total == 10
    progress.advance("one", 4, seconds=1)
    progress.expect(8)
    assert progress.total == 12
