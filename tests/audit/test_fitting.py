"""A request made small enough for a time: what is tried, what is taken, what is refused."""

import types
from dataclasses import dataclass, replace

import pytest

from engine.audit import fitting
from engine.audit.fields import Scale, asked
from engine.core.errors import RequestError, refusal
from engine.core.types import Event, Hooks


@dataclass(frozen=True)
class Asked:
    prompts: int | None = asked(
        None,
        kind="integer",
        optional=True,
        scale=Scale(lambda _: 24, lambda request: 1000, "prompts"),
    )
    tokens: int | None = asked(
        4000,
        kind="integer",
        optional=True,
        scale=Scale(lambda _: 1000, lambda request: 9000, "tokens"),
    )


def timed(monkeypatch, fixed: float, per_prompt: float) -> list[Asked]:
    """An audit that takes `fixed` seconds and so many per prompt; returns what is tried."""
    tried = []

    def forecast(request, store, hooks, patience):
        assert patience >= fitting.PATIENCE
        tried.append(request)
        return fixed + per_prompt * (request.prompts or 1000)

    monkeypatch.setattr(fitting, "forecast", forecast)
    return tried


def test_what_fits_is_taken_as_it_was_asked(monkeypatch):
    tried = timed(monkeypatch, 10.0, 1.0)
    found = fitting.fit(Asked(), 1100.0, None)
    assert found.request == Asked() and tried == [Asked()] and found.changed == {}
    assert found.said == "All that was asked for takes about 17 minutes."


@pytest.mark.parametrize("fixed", [0.0, 100.0, 500.0])
def test_prompts_and_text_shrink_by_one_share_until_the_time_holds(monkeypatch, fixed):
    tried = timed(monkeypatch, fixed, 3.0)
    found = fitting.fit(Asked(), 1000.0, None)
    takes = fixed + 3.0 * found.request.prompts
    assert 600 <= takes <= 1000 and len(tried) <= fitting.TRIES
    assert found.request.tokens == pytest.approx(max(1000, 4 * found.request.prompts), abs=4)
    assert f"With {found.request.prompts:,} prompts" in found.said
    assert found.said.startswith("All that was asked for takes about")


def test_the_fewest_stay_and_a_time_too_short_for_them_is_refused(monkeypatch):
    timed(monkeypatch, 500.0, 1.0)
    with pytest.raises(RequestError, match="with 24 prompts and 1,000 tokens"):
        fitting.fit(Asked(), 400.0, None)
    few = replace(Asked(), prompts=10, tokens=500)
    with pytest.raises(RequestError, match="too short"):
        fitting.fit(few, 400.0, None)


@dataclass(frozen=True)
class Repeated(Asked):
    prompts: int | None = asked(
        None,
        kind="integer",
        optional=True,
        scale=Scale(lambda _: 24, lambda request: 1000, "prompts", 120),
    )
    seeds: int = asked(
        3, scale=Scale(lambda _: 1, lambda request: request.seeds, "seeds", is_repeat=True)
    )
    cuts: int = asked(
        20, scale=Scale(lambda _: 0, lambda request: request.cuts, "cuts", is_repeat=True)
    )


@pytest.mark.parametrize(
    "seconds, prompts, seeds, cuts",
    [(21_000, (200, 340), 3, 20), (900, (360, 900), 1, 0), (60, (24, 60), 1, 0)],
)
def test_repeats_go_before_prompts_are_too_few(monkeypatch, seconds, prompts, seeds, cuts):
    """A prompt takes a second in each seed, for the model and every random cut."""

    def forecast(request, store, hooks, patience):
        return (request.prompts or 1000) * request.seeds * (1 + request.cuts)

    monkeypatch.setattr(fitting, "forecast", forecast)
    found = fitting.fit(Repeated(), seconds, None)
    assert prompts[0] <= found.request.prompts <= prompts[1]
    assert (found.request.seeds, found.request.cuts) == (seeds, cuts)
    assert ("1 seed and no cuts" in found.said) == (seeds == 1)
    with pytest.raises(RequestError, match="24 prompts, 1,000 tokens, 1 seed and no cuts"):
        fitting.fit(Repeated(), 20, None)


def test_time_that_is_left_goes_into_repeats(monkeypatch):
    def forecast(request, store, hooks, patience):
        return (request.prompts or 1000) * request.seeds * (1 + request.cuts)

    monkeypatch.setattr(fitting, "forecast", forecast)
    found = fitting.fit(Repeated(), 2500, None)
    assert found.changed == {"seeds": 2, "cuts": 0} and found.seconds == 2000
    most = fitting.fit(Repeated(), 7000, None)
    assert most.changed == {"cuts": 0} and most.said.endswith(
        "With no cuts it takes about 50 minutes."
    )


def test_a_long_text_takes_no_prompts_away(monkeypatch):
    """Of 300,000 tokens the share that is enough is small; as many prompts are tried as are."""

    @dataclass(frozen=True)
    class Long(Repeated):
        tokens: int | None = asked(
            None,
            kind="integer",
            optional=True,
            scale=Scale(lambda _: 1000, lambda request: 300_000, "tokens", 2000),
        )

    def forecast(request, store, hooks, patience):
        drawn = (request.prompts or 1000) * request.seeds * (1 + request.cuts)
        return drawn + (request.tokens or 300_000) / 100

    monkeypatch.setattr(fitting, "forecast", forecast)
    found = fitting.fit(Long(), 200, None).request
    assert (found.prompts, found.tokens, found.seeds, found.cuts) == (120, 2000, 1, 0)


def test_the_quick_preset_stands_in_before_prompts_are_too_few(monkeypatch):
    """For what is as usual: what a person chose stays, and how much is measured is fitted anew."""

    @dataclass(frozen=True)
    class Preset(Repeated):
        methods: tuple[str, ...] = asked(("a", "b", "c"), quick=("a",), label="Methods")
        length: int = asked(9, quick=3, label="Length")
        length_settings: str = ""

    def forecast(request, store, hooks, patience):
        drawn = (request.prompts or 1000) * request.seeds * (1 + request.cuts)
        return drawn * len(request.methods) * request.length

    monkeypatch.setattr(fitting, "forecast", forecast)
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


def test_a_request_that_is_wrong_is_tried_once(monkeypatch):
    @dataclass(frozen=True)
    class Preset(Asked):
        length: int = asked(9, quick=3, label="Length")

    tried = []

    def forecast(request, store, hooks, patience):
        tried.append(request)
        raise refusal("model", "is damaged.", "Mend it.")

    monkeypatch.setattr(fitting, "forecast", forecast)
    with pytest.raises(RequestError, match="is damaged"):
        fitting.fit(Preset(), 100, None)
    assert len(tried) == 1


def test_a_time_shorter_than_a_try_is_refused_before_anything_is_tried(monkeypatch):
    tried = timed(monkeypatch, 10.0, 1.0)
    with pytest.raises(RequestError, match="is shorter than trying"):
        fitting.fit(Asked(), 1.0, None)
    assert tried == []


def test_a_model_that_tells_nothing_in_time_is_refused(monkeypatch):
    monkeypatch.setattr(fitting, "forecast", lambda *given: None)
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
