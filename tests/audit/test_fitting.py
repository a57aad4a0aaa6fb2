"""A request made small enough for a time: what is tried, what is taken, what is refused."""

import types
from dataclasses import dataclass, replace

import pytest

from engine.audit import fitting
from engine.audit.fields import Scale, asked
from engine.core.errors import RequestError, refusal
from engine.core.types import Event, Hooks


def counted(words, fewest, every, *enough, usual=None):
    """A field of so many, at the least and in all."""
    scale = Scale(lambda _: fewest, lambda request: every, words, *enough)
    return asked(usual, kind="integer", optional=True, scale=scale)


def repeated(words, fewest, usual):
    scale = Scale(lambda _: fewest, lambda one: getattr(one, words), words, is_repeat=True)
    return asked(usual, scale=scale)


@dataclass(frozen=True)
class Asked:
    prompts: int | None = counted("prompts", 24, 1000)
    tokens: int | None = counted("tokens", 1000, 9000, usual=4000)


@pytest.fixture
def takes(monkeypatch):
    """Makes audits take so many seconds, by the request; gives what is tried."""

    def of(seconds):
        tried = []

        def forecast(request, store, hooks, patience):
            assert patience >= fitting.PATIENCE
            tried.append(request)
            return seconds(request)

        monkeypatch.setattr(fitting, "forecast", forecast)
        return tried

    return of


def prompts_of(request):
    return request.prompts or 1000


def drawn(request):
    """A prompt takes a second in each seed, for the model and every random cut."""
    return prompts_of(request) * request.seeds * (1 + request.cuts)


def test_what_fits_is_taken_as_it_was_asked(takes):
    tried = takes(lambda one: 10 + prompts_of(one))
    found = fitting.fit(Asked(), 1100.0, None)
    assert found.request == Asked() and tried == [Asked()] and found.changed == {}
    assert found.said == "All that was asked for takes about 17 minutes."


@pytest.mark.parametrize("fixed", [0.0, 100.0, 500.0])
def test_prompts_and_text_shrink_by_one_share_until_the_time_holds(takes, fixed):
    tried = takes(lambda one: fixed + 3 * prompts_of(one))
    found = fitting.fit(Asked(), 1000.0, None)
    seconds = fixed + 3.0 * found.request.prompts
    assert 600 <= seconds <= 1000 and len(tried) <= fitting.TRIES
    assert found.request.tokens == pytest.approx(max(1000, 4 * found.request.prompts), abs=4)
    assert f"With {found.request.prompts:,} prompts" in found.said
    assert found.said.startswith("All that was asked for takes about")


def test_the_fewest_stay_and_a_time_too_short_for_them_is_refused(takes):
    takes(lambda one: 500 + prompts_of(one))
    with pytest.raises(RequestError, match="with 24 prompts and 1,000 tokens"):
        fitting.fit(Asked(), 400.0, None)
    few = replace(Asked(), prompts=10, tokens=500)
    with pytest.raises(RequestError, match="too short"):
        fitting.fit(few, 400.0, None)


@dataclass(frozen=True)
class Repeated(Asked):
    prompts: int | None = counted("prompts", 24, 1000, 120)
    seeds: int = repeated("seeds", 1, 3)
    cuts: int = repeated("cuts", 0, 20)


@pytest.mark.parametrize(
    "seconds, prompts, seeds, cuts",
    [(21_000, (200, 340), 3, 20), (900, (360, 900), 1, 0), (60, (24, 60), 1, 0)],
)
def test_repeats_go_before_prompts_are_too_few(takes, seconds, prompts, seeds, cuts):
    takes(drawn)
    found = fitting.fit(Repeated(), seconds, None)
    assert prompts[0] <= found.request.prompts <= prompts[1]
    assert (found.request.seeds, found.request.cuts) == (seeds, cuts)
    assert ("1 seed and no cuts" in found.said) == (seeds == 1)
    with pytest.raises(RequestError, match="24 prompts, 1,000 tokens, 1 seed and no cuts"):
        fitting.fit(Repeated(), 20, None)


def test_time_that_is_left_goes_into_repeats(takes):
    takes(drawn)
    found = fitting.fit(Repeated(), 2500, None)
    assert found.changed == {"seeds": 2, "cuts": 0} and found.seconds == 2000
    most = fitting.fit(Repeated(), 7000, None)
    assert most.changed == {"cuts": 0} and most.said.endswith(
        "With no cuts it takes about 50 minutes."
    )


def test_a_long_text_takes_no_prompts_away(takes):
    """Of 300,000 tokens the share that is enough is small; as many prompts are tried as are."""

    @dataclass(frozen=True)
    class Long(Repeated):
        tokens: int | None = counted("tokens", 1000, 300_000, 2000)

    takes(lambda one: drawn(one) + (one.tokens or 300_000) / 100)
    found = fitting.fit(Long(), 200, None).request
    assert (found.prompts, found.tokens, found.seeds, found.cuts) == (120, 2000, 1, 0)


def test_the_quick_preset_stands_in_before_prompts_are_too_few(takes):
    """For what is as usual: what a person chose stays, and how much is measured is fitted anew."""

    @dataclass(frozen=True)
    class Preset(Repeated):
        methods: tuple[str, ...] = asked(("a", "b", "c"), quick=("a",), label="Methods")
        length: int = asked(9, quick=3, label="Length")
        length_settings: str = ""

    takes(lambda one: drawn(one) * len(one.methods) * one.length)
    whole = fitting.fit(Preset(), 27 * 130, None)
    assert "preset" not in whole.said and 120 <= whole.request.prompts <= 130
    found = fitting.fit(Preset(), 27 * 100, None)
    assert "The quick preset's values stand in for methods and length." in found.said
    assert found.request.methods == ("a",) and found.request.length == 3
    assert 540 <= found.request.prompts <= 900 and found.changed["methods"] == ("a",)
    for mine, chosen in ((Preset(methods=("a", "b")), ()), (Preset(length=3), ("methods",))):
        kept = fitting.fit(mine, 9 * 60, None, chosen=chosen).request
        assert kept.methods == mine.methods and kept.length == 3 and 24 <= kept.prompts <= 90
    assert fitting.fit(Preset(length_settings="mine"), 27 * 20, None).request.length == 9
    with pytest.raises(RequestError, match="24 prompts"):
        fitting.fit(Preset(), 20, None)
    alone = fitting.fit(Preset(prompts=10, seeds=1, cuts=0), 100, None)
    assert alone.said.endswith("length. It takes about 30 seconds.")


def test_a_request_that_is_wrong_is_tried_once(takes):
    @dataclass(frozen=True)
    class Preset(Asked):
        length: int = asked(9, quick=3, label="Length")

    def damaged(request):
        raise refusal("model", "is damaged.", "Mend it.")

    tried = takes(damaged)
    with pytest.raises(RequestError, match="is damaged"):
        fitting.fit(Preset(), 100, None)
    assert len(tried) == 1


def test_a_time_shorter_than_a_try_is_refused_before_anything_is_tried(takes):
    tried = takes(prompts_of)
    with pytest.raises(RequestError, match="is shorter than trying"):
        fitting.fit(Asked(), 1.0, None)
    assert tried == []


def test_a_model_that_tells_nothing_in_time_is_refused(takes):
    takes(lambda request: None)
    with pytest.raises(RequestError, match="too short to tell"):
        fitting.fit(Asked(), 400.0, None)


@pytest.mark.parametrize("text, seconds", [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_times_are_read(text, seconds):
    assert fitting.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "0m", "-5m", "nan", "1d", "1e9m"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(RequestError, match="is no time"):
        fitting.seconds_of(text)


def test_a_forecast_is_the_audits_own_and_stops_it(monkeypatch):
    """It computes until it can tell, and no longer; an audit that ends before has taken that."""
    events = iter([Event("draw", 1, 9, "", None), Event("draw", 2, 9, "", 400.0)])

    def run(request, store, hooks, executor):
        for event in events:
            hooks.report(event)
            hooks.check()
        if endless:
            hooks.check()

    entry = types.SimpleNamespace(part=lambda which: run)
    monkeypatch.setattr(fitting, "track_of_request", lambda request: entry)
    monkeypatch.setattr(fitting, "TRIED", 0.0)
    endless = True
    assert fitting.forecast(None, None, Hooks()) == pytest.approx(400, abs=5)
    events, endless = iter(()), False
    assert fitting.forecast(None, None, Hooks()) == pytest.approx(0, abs=5)
