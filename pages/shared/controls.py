"""The choices every reading page shares: axis, method, sparsity. In the address; they survive page
switches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.core import words
from engine.core.levels import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import default_reading
from engine.report.contract import Level, Reading
from engine.report.tracks import track_of
from engine.store.runs import Run
from pages.shared import frame, state
from pages.shared.safe import plain, visible

LONGEST = 40
"""Characters of a link that are said again."""


def is_dark() -> bool:
    """Whether the browser shows the dark theme (light while unknown)."""
    return st.context.theme.type == "dark"


def capital(text: str) -> str:
    """First letter large, the rest as it is."""
    return phrasing.sentence(text)


def texts_label(group: str) -> str:
    """Which texts something is measured on, in a picker: all, or those of one subgroup."""
    return capital(words.group_name(group)) if group else "All texts"


def axis_label(axis: str) -> str:
    return capital(words.axis_name(axis))


def method_label(method: str) -> str:
    return capital(words.method_name(method))


def select(
    label: str, options: Sequence[Any], key: str, named: Callable[[Any], str] = str, **more: Any
) -> Any:
    """A select box that lives in the address and is remembered on the next page."""
    options = list(options)
    state.restore(key, options, named)
    return state.keep(
        key, st.selectbox(label, options, format_func=named, key=key, bind=state.BOUND, **more)
    )


def select_number(
    label: str, options: Sequence[int], key: str, named: Callable[[int], str], **more: Any
) -> int:
    """A select box whose option stands in the address by its number, so that a link can be written
    by hand: `?head=7`. Links by the option's name are understood too."""
    known = {name: option for option in options for name in (str(option), named(option))}
    asked = state.from_address(key)
    if asked in known:
        state.put(key, known[asked])
    elif state.value_of(key) is None and state.kept(key) in options:
        state.put(key, state.kept(key))
    found = state.keep(key, st.selectbox(label, options, format_func=named, key=key, **more))
    state.to_address(key, found)
    return found


def segmented(
    label: str, options: Sequence[Any], key: str, named: Callable[[Any], str] = str, **more: Any
) -> Any:
    """A row of buttons of which one is always on; in the address, remembered."""
    options = list(options)
    state.restore(key, options, named)
    more = {"default": options[0], "required": True, "bind": state.BOUND, **more}
    picked = st.segmented_control(label, options, format_func=named, key=key, **more)
    return state.keep(key, picked if picked in options else options[0])


def choose(run: Run, ahead: bool = False) -> Choice:
    """Draw the strip of choices and return what is chosen; `ahead`: levels nobody measured are
    offered too."""
    with st.container(key=state.CHOICE_STRIP):
        left, middle, right = st.columns([3, 3, 6], gap="medium", vertical_alignment="top")
        with left:
            axis = select("Axis", run.meta["request"]["axes"], state.AXIS, axis_label)
        with middle:
            offered = lookup.methods(run, axis)
            method = select("Method", offered, state.METHOD, method_label) if offered else "dense"
            if absent := lookup.not_built(run, axis):
                st.caption(plain(absent))
        with right:
            level = _slider(run, method, axis, ahead)
    return Choice(
        method=method, axis=axis, level=level, reading=default_reading(run), dark=is_dark()
    )


def _slider(run: Run, method: str, axis: str, ahead: bool) -> float:
    """The slider: how much is cut. Finished levels are marked below it where others are offered
    too."""
    finished, level = _finished(run, method, axis), track_of(run).level
    options = finished
    if ahead:
        options = sorted({*finished, *(stop for stop in track_of(run).stops(run, method, axis))})
    if len(options) < 2:
        if method in track_of(run).uncut:
            st.caption("This method cuts nothing: it is what the others are compared with.")
            return level.none
        if track_of(run).has_own_levels(method):
            only = finished[0]
            more = (
                f"{track_of(run).level_title(run, method)}: {level.say(only)}"
                if only > level.none
                else "No smaller"
            )
            st.caption(f"{more}. There is one such model, and nothing to choose.")
            return only
        st.caption("No pruned variant of this method is finished for this axis.")
        return level.none
    key = state.level_key(level.key)
    wanted = state.kept(key)
    _answer_link(key, options, level)
    state.restore_nearest(key, options, level.say)
    value = st.select_slider(
        track_of(run).level_title(run, method),
        options,
        value=level.first(finished),
        format_func=level.say,
        key=key,
        bind=state.BOUND,
        help=level.help,
    )
    if len(options) > len(finished):
        _mark_finished(options, finished)
    elif wanted is not None and wanted not in options:
        st.caption(f"{level.say(wanted)} is not measured; this is the nearest that is.")
    asked, instead = state.kept(state.NOT_A_STEP, ("", None))
    if value == instead:
        st.caption(
            plain(
                f"The link asks for {visible(asked)}, which is no step here; this is the nearest."
            )
        )
    return state.keep(key, value)


def _finished(run: Run, method: str, axis: str) -> list[float]:
    """Levels that a method is measured at, that of the dense model first; where its levels are its
    own, without that, which is not one of them unless it has such a variant."""
    found, none = lookup.levels(run, method, axis), track_of(run).level.none
    own = [value for value in found if value > none] if track_of(run).has_own_levels(method) else []
    return own or found


def _answer_link(key: str, options: Sequence[float], level: Level) -> None:
    """Where a link names a level that is none here, go to the nearest and remember to say so."""
    asked = state.unmet(key, options, level.say)
    if asked is None:
        return
    found = re.search(r"\d+(?:\.\d+)?", asked)
    number = float(found[0]) if found else level.first(options)
    is_percent = not level.is_ratio and ("%" in asked or number > 1)
    number = number / 100 if is_percent and found else number
    nearest = min(options, key=lambda option: abs(option - number))
    if not (found and is_level(number, options)):
        state.keep(state.NOT_A_STEP, (asked[:LONGEST], nearest))
    state.respell(key, level.say(nearest))


def _mark_finished(options: Sequence[float], finished: Sequence[float]) -> None:
    """Dots below the slider: full where a level is measured. They line up with its steps."""
    dots = "".join(
        f'<i class="{"pa-measured" if one in finished else "pa-predicted"}"></i>' for one in options
    )
    st.html(
        f'<div class="pa-stops" role="img" aria-label="measured at {len(finished)} of'
        f' {len(options)}">{dots}</div>'
    )


def show_on(page: str, run: Run, variant: Mapping[str, Any]) -> None:
    """Open a page with this variant chosen. A link's parameters would lose against what the session
    remembers."""
    level = track_of(run).level
    chosen = {state.level_key(level.key): round(float(variant[level.column]), 9)}
    chosen |= {} if variant["variant"] == "dense" else {state.METHOD: variant["method"]}
    chosen |= {state.AXIS: variant["target_axis"]} if variant.get("target_axis") else {}
    for key, value in chosen.items():
        state.put_later(key, state.keep(key, value))
    frame.turn_to(page)


def choose_reading(run: Run, choice: Choice) -> Choice:
    """A switch between readings of harm and quality where the track offers several."""
    track = track_of(run)
    offered = track.offers(run)
    if len(offered) < 2:
        return choice
    picked = segmented(
        "Read by", offered, state.READING, lambda name: capital(_reading_label(track.reading(name)))
    )
    return replace(choice, reading=picked)


def _reading_label(reading: Reading) -> str:
    return reading.label or reading.quality.name


def neighbours(run: Run, choice: Choice) -> list[Choice]:
    """The same choice at every other finished level, the nearest first: where the slider may go
    next."""
    others = [
        level for level in lookup.levels(run, choice.method, choice.axis) if level != choice.level
    ]
    others.sort(key=lambda level: abs(level - choice.level))
    return [replace(choice, level=level) for level in others]


def offer_missing(run: Run, choice: Choice) -> None:
    """Say which levels of the request are not finished for this method, and where to ask for
    more."""
    level = track_of(run).level
    if choice.method in track_of(run).uncut or track_of(run).has_own_levels(choice.method):
        return
    finished = lookup.levels(run, choice.method, choice.axis)
    asked = [float(value) for value in run.meta["request"][level.asked]]
    missing = [level.say(value) for value in asked if not is_level(value, finished)]
    if missing:
        st.caption(f"Not finished for this method: {', '.join(missing)}.")
    frame.link("new_audit", "Ask for another axis or method")


def chosen(run: Run) -> Choice:
    """The choice without its strip: what the address asks for, else what was chosen on other pages,
    else where a reader starts. Finished levels only; the address then says it."""
    axis = _named(state.AXIS, run.meta["request"]["axes"], axis_label)
    offered, level = lookup.methods(run, axis), track_of(run).level
    method = _named(state.METHOD, offered, method_label) if offered else "dense"
    key, finished = state.level_key(level.key), _finished(run, method, axis)
    cut = [value for value in finished if value > level.none]
    if len(finished) < 2 or not cut:
        return Choice(
            method=method,
            axis=axis,
            level=finished[0],
            reading=default_reading(run),
            dark=is_dark(),
        )
    if (wanted := state.kept(key)) is not None:
        state.keep(key, min(finished, key=lambda one: abs(one - wanted)))
    value = _named(key, finished, level.say, level.first(cut))
    return Choice(
        method=method, axis=axis, level=value, reading=default_reading(run), dark=is_dark()
    )


def _named(
    key: str, options: Sequence[Any], named: Callable[[Any], str], default: Any = None
) -> Any:
    """One of the options by its name in the address, else the one remembered, else the default,
    else the first."""
    found = state.asked(key, options, named)
    if found is None:
        remembered = state.kept(key)
        found = remembered if remembered in options else options[0] if default is None else default
    state.say_in_address(key, named(found))
    return state.keep(key, found)
