"""The strip of choices above every page that shows a run, and the pickers, buttons and folds that
pages share.

What is picked is part of the address and is remembered from page to page: axis, method, level. A
run shows finished variants only; what is missing is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import streamlit as st

from engine.core import words
from engine.core.types import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import default_reading
from engine.report.tracks import Level, prediction_of, track_of
from engine.report.verdict import OFFERED, tolerances
from engine.store.runs import Run
from pages.shared import state
from pages.shared.safe import caption, visible

T = TypeVar("T")
MANY = 60
"""Levels of a slider from which on only measured ones have a dot."""
LONGEST = 40
"""Characters of a link that are said again."""
capital = phrasing.sentence
"""First letter large, the rest as it is."""


def is_dark() -> bool:
    """Whether the browser shows the dark theme (light while unknown)."""
    return st.context.theme.type == "dark"


def group_label(group: str, everything: str = "All texts") -> str:
    """A subgroup in a picker; "" stands for `everything`."""
    return capital(words.group_name(group)) if group else everything


def axis_label(axis: str) -> str:
    return capital(words.axis_name(axis))


def method_label(method: str) -> str:
    return capital(words.method_name(method))


def button(
    label: str,
    key: Sequence[object],
    on_click: Callable[..., Any] | None = None,
    *args: Any,
    icon: str = "",
    **more: Any,
) -> bool:
    """A button; `key`: what tells it from others; `icon`: the name of a Material icon."""
    icon = f":material/{icon}:" if icon else ""
    name = state.key_of(*map(str, key))
    return st.button(label, name, on_click=on_click, args=args, icon=icon or None, **more)


def fold(title: str, key: str, draw: Callable[[], Any], **more: Any) -> None:
    """What stands behind a title, drawn when it is opened."""
    with st.expander(title, key=key, on_change="rerun", **more) as box:
        if box.open:
            draw()


def line() -> Any:
    """Pickers side by side, as wide as they need to be."""
    return st.container(horizontal=True, gap="medium")


Options = Sequence[Any] | Mapping[Any, str]
"""What a picker offers; with the name of each, where it is a mapping."""
Named = Callable[[Any], str]


def beside(*widths: int) -> list[Any]:
    """Columns for pickers, whose boxes stand on one line."""
    return st.columns(widths, gap="medium", vertical_alignment="bottom")


def grid(
    items: Sequence[T], across: int, gap: Literal["small", "large"] = "large"
) -> Iterator[tuple[Any, T]]:
    """Items with a column for each, row by row, so that neighbours begin at one height."""
    for start in range(0, len(items), across):
        yield from zip(st.columns(across, gap=gap), items[start : start + across], strict=False)


def select(label: str, options: Options, key: str, named: Named | None = None, **more: Any) -> Any:
    """A select box that lives in the address and is remembered on the next page."""
    return _picked(st.selectbox, label, options, key, named, more)


def segmented(label: str, options: Options, key: str, **more: Any) -> Any:
    """A row of buttons of which one is always on; in the address, remembered."""
    more = {"default": next(iter(options)), "required": True, **more}
    return _picked(st.segmented_control, label, options, key, None, more)


def _picked(
    draw: Callable[..., Any],
    label: str,
    options: Options,
    key: str,
    named: Named | None,
    more: dict[str, Any],
) -> Any:
    known = list(options)
    named = named or (options.__getitem__ if isinstance(options, Mapping) else str)
    asked = state.unmet(key, known, named)
    state.restore(key, known, named)
    picked = draw(label, known, format_func=named, key=key, **{"bind": state.BOUND, **more})
    picked = picked if picked in known else next(iter(known), None)
    _say_unmet(key, asked, picked)
    return state.keep(key, picked)


def select_group(groups: Iterable[str], key: str) -> str:
    """One subgroup, or all: ""."""
    named = {group: group_label(group, "All subgroups") for group in ("", *groups)}
    return select("Subgroup", named, key)


def _say_unmet(
    key: str, asked: str | None, shown: Any, why: str = "which is not here; this is shown instead."
) -> None:
    """That a link asks for what is not offered, until the reader picks something else."""
    name = state.key_of(state.UNMET, key)
    if asked is not None:
        state.keep(name, (asked[:LONGEST], shown))
    asked, instead = state.kept(name, ("", None))
    if asked and shown == instead:
        caption(f"The link asks for {visible(asked)}, {why}")


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
    _say_unmet(key, None if asked in known else asked, found)
    return found


def search(label: str, key: str) -> str:
    """What is looked for, stripped; remembered on the next page."""
    more: dict[str, Any] = {"icon": ":material/search:", "max_chars": 100}
    return st.text_input(label, key=key, persist_state="session", **more).strip()


def page_of(count: int, per_page: int, key: str) -> slice:
    """The picker of a page of a list; which of its items are on it."""
    last = max(1, math.ceil(count / per_page))
    number = select(f"Page of {last}", range(1, last + 1), key)
    return slice((number - 1) * per_page, number * per_page)


def choose(run: Run, ahead: bool = False) -> Choice:
    """Draw the strip of choices and return what is chosen; `ahead`: levels nobody measured are
    offered too."""
    with st.container(key=state.CHOICE_STRIP):
        left, middle, right = st.columns([3, 3, 6], gap="medium", vertical_alignment="top")
        with left:
            axis = select("Axis", run.request["axes"], state.AXIS, axis_label)
        with middle:
            offered = lookup.methods(run, axis)
            method = select("Method", offered, state.METHOD, method_label) if offered else "dense"
            caption(lookup.not_built(run, axis))
        with right:
            level = _slider(run, method, axis, ahead)
    return Choice(method, axis, level, None, default_reading(run), is_dark()).accepting(
        **accepted()
    )


def _slider(run: Run, method: str, axis: str, ahead: bool) -> float:
    """The slider: how much is cut. Dots below it mark the finished levels."""
    track, level, finished = track_of(run), track_of(run).level, _finished(run, method, axis)
    prediction = prediction_of(run)
    options = sorted({*finished, *(prediction.stops(run, method, axis) if prediction else ())})
    if len(options) < 2:
        return _without_a_slider(run, method, finished[0])
    wanted = state.kept(level.key)
    _answer_link(level.key, options, level)
    state.restore_nearest(level.key, options, level.say)
    value = st.select_slider(
        track.ways.title(method) or level.title,
        options,
        value=level.first(finished),
        format_func=level.say,
        key=level.key,
        bind=state.BOUND,
        help=level.help,
    )
    _mark_finished(options, finished)
    if len(options) == len(finished) and wanted is not None and wanted not in options:
        st.caption(f"{level.say(wanted)} is not measured; this is the nearest that is.")
    _say_unmet(level.key, None, value, "which is no step here; this is the nearest.")
    state.keep(level.key, value)
    if ahead or is_level(value, finished):
        return value
    nearest = min(finished, key=lambda one: abs(one - value))
    said = f"{level.say(value)} is not measured: this page shows {level.say(nearest)}."
    st.caption(said)
    return nearest


def _without_a_slider(run: Run, method: str, only: float) -> float:
    """The only level of a method, and why there is nothing to choose."""
    track, level = track_of(run), track_of(run).level
    if method in track.ways.uncut:
        st.caption("This method cuts nothing: it is what the others are compared with.")
    elif track.ways.own_levels(method):
        found = lookup.reported(run).set_index("method")[level.realised]
        size = (
            f"{track.ways.title(method) or level.title}: {level.say(found.loc[[method]].iloc[0])}"
        )
        more = size if only > level.none else "No smaller"
        st.caption(f"{more}. There is one such model, and nothing to choose.")
        return only
    else:
        st.caption("No pruned variant of this method is finished for this axis.")
    return level.none


def _finished(run: Run, method: str, axis: str) -> list[float]:
    """Levels that a method is measured at, that of the dense model first. Where its levels are its
    own, that is not one of them unless it has such a variant."""
    found, none = lookup.levels(run, method, axis), track_of(run).level.none
    is_own = track_of(run).ways.own_levels(method)
    own = [value for value in found if value > none] if is_own else []
    return own or found


def _answer_link(key: str, options: Sequence[float], level: Level) -> None:
    """Where a link names a level that is none here, go to the nearest and remember to say so."""
    asked = state.unmet(key, options, level.say)
    if asked is None:
        return
    found = re.search(r"\d+(?:\.\d+)?", asked)
    number = float(found[0]) if found else level.first(options)
    if found and not level.is_ratio and ("%" in asked or number > 1):
        number = number / 100
    nearest = min(options, key=lambda option: abs(option - number))
    if not (found and is_level(number, options)):
        state.keep(state.key_of(state.UNMET, key), (asked[:LONGEST], nearest))
    state.respell(key, level.say(nearest))


def _mark_finished(options: Sequence[float], finished: Sequence[float]) -> None:
    """Dots below the slider: full where a level is measured. They line up with its steps."""
    last = len(options) - 1
    dots = "".join(
        f'<i class="{"pa-measured" if one in finished else "pa-predicted"}"'
        f' style="left: {100 * place / last:.3g}%"></i>'
        for place, one in enumerate(options)
        if one in finished or last < MANY
    )
    st.html(
        f'<div class="pa-stops" role="img" aria-label="measured at {len(finished)} of'
        f' {len(options)}">{dots}</div>'
    )


def accepted() -> dict[str, float]:
    """Tolerances that the address names or a person set before."""
    return {
        key: value
        for key in state.TOLERANCES
        if (value := state.asked(key, OFFERED) or state.kept(key))
    }


def choose_tolerances(run: Run, choice: Choice) -> Choice:
    """By which losses advice is given."""
    with st.popover("Accepted losses"):
        return choice.accepting(
            **{
                key: select(title, OFFERED, key, index=OFFERED.index(getattr(choice, key)))
                for key, title in tolerances(run, choice).items()
            }
        )


def choose_reading(run: Run, choice: Choice) -> Choice:
    """A switch between readings of harm and quality where the track offers several."""
    track = track_of(run)
    offered = {name: track.readings.of(name) for name in track.readings.offered(run)}
    if len(offered) < 2:
        return choice
    named = {name: capital(one.label or one.quality.name) for name, one in offered.items()}
    return replace(choice, reading=segmented("Read by", named, state.READING))
