"""What a session remembers. The only file that names session-state and query-parameter keys.

Widgets bound to the address bar carry their key as the parameter's name, so
`?axis=Religion&sparsity=20%25` is a view. Streamlit forgets a widget's value when its page is left;
`restore` and `keep` carry it to the next page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

RUN = "run"
SUBJECT = "subject"
SWITCH = "switch_audit"
GALLERY_KIND = "gallery_kind"
GALLERY_MORE = "gallery_more"
GO_TO = "go_to"
QUICK = "quick"
QUICK_STARTED = "quick_started"
METHOD = "method"
AXIS = "axis"
READING = "reading"
TOLERANCES = ("tolerance", "quality_tolerance")
VARIANT = "variant"
HEAD = "head"
EXPLORER = "explorer"
HEAD_CARD = "head_card"
HEAD_WALK = "head_walk"
SHOW_CHANGED = "show_changed_texts"
CHOICE_STRIP = "choice"
NEXT_STEPS = "next_steps"
FOLD = "fold"
KIND = "kind"
SHOW = "show"
TRIAL = "trial"
EFFECT = "effect"
CHANGED_GROUP = "changed_group"
CHANGED_KIND = "changed"
GALLERY_PAGE = "gallery_page"
BENCHMARK = "benchmark"
BENCHMARK_PATH = "benchmark_path"
BENCHMARK_PAGE = "benchmark_page"
FAMILY = "methods"
EFFORT = "counted_in"
SURFACE = "surface"
TICKET_GROUP = "texts_of"
SCORE = "score"
LENS_TEXT = "text"
LENS_STAGE = "weights"
LENS_LAYER = "layer"
LENS_HEAD = "attention_head"
LENS_SHOW = "show_text"
SOURCE = "source"
SPLIT = "split"
TAB = "tab"
TICKED = "ticked"
TITLE = "title_of"
DELETED = "deleted"
REFUSED = "refused"
FAILED = "failed"
LIVE = "live_strip"
WATCHED = "watched_jobs"
MOVED = "moving_jobs"
UNMET = "unmet"
PARETO_CHART = "pareto_chart"
SUBGROUP = "subgroup"
SEARCH = "search"
SEARCH_AUDITS = "search_audits"
SORTED = "sorted"
ORDER = "order"
PAGE = "page"
LABELLER = "labeller"
TO_LABEL = "to_label"
LABEL_PLACE = "label_place"
LABEL_CARD = "label_card"
SHOWN = "texts_shown"
SHOW_ALL = "show_all_texts"
ABOUT_GROUP = "about"
PROMPT = "prompt"
PROMPTS_TAKEN = "prompts_taken"
HEADS_OFF = "heads_off"
NOISE = "noise"
NEW_TOKENS = "new_tokens"
SIBLINGS = "siblings"
LOOKED_AT = "looked_at"
ANSWER = "answer"
SHOW_WRITTEN = "show_written"
SENTENCE = "sentence"
KEPT_PICTURE = "kept_picture"
OWN_PICTURE = "own_picture"
LOOK = "look"
GALLERY_LOOK = "looks"
SECOND_SENTENCE = "second_sentence"
COMPARED = "compared"
PUBLISHED_FILES = "published_files"
PUBLISHED_FOLDER = "published_folder"
EXPORT_TEXTS = "export_texts"
EXPORT_FOLDER = "export_folder"
MASK = "mask"
TAKEN = "taken"
LEVEL = "another_level"
OFF = "off"
OFF_OF = "off_of"
UNDO = "undo"
PROTECTED = "protected"
JUDGE = "judge"
JUDGE_LABEL = "judge_label"
JUDGE_AXES = "judge_axes"
PASTED = "pasted_heads"
SET_NAME = "set_name"
STARTED = "started"
INSPECTED = "inspected"
FORECAST = "forecast"
FILL = "fill"
RAY = "ray_cluster"
MEMORY = "memory_budget"
STEP = "step"
STAGE_BAR = "stage_bar"
BY_KEY = "by_key"
WELCOME = "welcome"
TOUR = "tour"
TOUR_OFF = "tour_off"
TOUR_LINE = "tour_line"
TOUR_MOVED = "tour_moved"

BOUND: Literal["query-params"] = "query-params"
"""Value of a widget's `bind`: the choice is part of the address."""

_LAST_RUN_IN_ADDRESS = "last_run_in_address"
_LATER = "set_on_the_next_run"
_BACK_NEXT = "goes_back_on_the_next_run"
_GOES_BACK = "goes_back"
_BOUND = "bound_widgets"
_PAGE = "page_drawn_last"


def _kept(key: str) -> str:
    return f"kept_{key}"


def keep(key: str, value: Any) -> Any:
    """Remember `value` beyond the page it was chosen on; returns it."""
    st.session_state[_kept(key)] = value
    return value


def kept(key: str, default: Any = None) -> Any:
    return st.session_state.get(_kept(key), default)


def take(key: str) -> Any:
    """What is remembered, and forget it."""
    return st.session_state.pop(_kept(key), None)


def restore(key: str, options: Sequence[Any], named: Callable[[Any], str] = str) -> None:
    """Give a widget that was not on the last page what the address asks, else the value remembered
    for it, when it is still offered. However the address spells it: links are typed by hand,
    `?sparsity=20%`."""
    keep(_BOUND, kept(_BOUND, frozenset()) | {key})
    if key in st.session_state and st.session_state[key] not in options:
        del st.session_state[key]  # of another audit; Streamlit would leave it in the address
    if key in st.session_state:
        return
    if in_address(key) is not None:
        found = asked(key, options, named)
        if found is not None and named(found) != in_address(key):
            respell(key, named(found))
    elif kept(key) is not None and kept(key) in options and not st.session_state.get(_GOES_BACK):
        st.session_state[key] = kept(key)


def unmet(key: str, options: Sequence[Any], named: Callable[[Any], str]) -> str | None:
    """What the address asks of a bound widget that was not on the last page, where none of its
    options is meant."""
    if key in st.session_state or asked(key, options, named) is not None:
        return None
    return in_address(key)


def respell(key: str, value: str) -> None:
    """Write into the address what a bound widget that is not drawn yet shall read there, and start
    over. Nothing is done while a widget of the page that was left is still bound to it."""
    with contextlib.suppress(StreamlitAPIException):
        st.query_params[key] = value
        st.rerun()


def reclaim() -> bool:
    """Whether the address asks for more than Streamlit passes on, so that the script must run anew.
    When a reader goes back, it drops parameters that the page they left has too. What the address
    does not name is as usual then.

    Call before anything is written into the address.
    """
    context = get_script_run_ctx()
    query = context.query_string if context else ""
    if st.session_state.get(_GOES_BACK):
        st.query_params.update(st.query_params.to_dict())  # the browser was told to forget them
        for key in kept(_BOUND, frozenset()) - set(st.query_params):
            st.session_state.pop(key, None)
        return False
    if set(parse_qs(query)) <= set(st.query_params):
        return False
    st.session_state[_BACK_NEXT] = True
    return True


def page_drawn() -> str:
    """What Streamlit calls the page that this script run draws; "" outside one."""
    context = get_script_run_ctx()
    return context.page_script_hash if context else ""


def leave_page(at_once: bool = False) -> None:
    """Where another page is drawn than before, or `at_once`: forget the redraws by the clock of the
    one that is left.

    The browser asks for them until it has heard of the new page. Each names the page that was left,
    and Streamlit would go back to it; those that it does not know any more it passes over.
    """
    context = get_script_run_ctx()
    if context and (at_once or st.session_state.get(_PAGE) != page_drawn()):
        context.fragment_storage.clear()
    st.session_state[_PAGE] = page_drawn()


def _plain(text: str) -> str:
    """Small, no blanks or dashes: "Which heads", "which_heads" and "which-heads" are one, "20%" and
    "20 %" too."""
    return "".join(
        letter
        for letter in text.casefold().replace("×", "x")
        if letter.isalnum() or letter in ".%+"
    )


def restore_nearest(key: str, options: Sequence[float], named: Callable[[Any], str] = str) -> None:
    """`restore` for a number: where it is not offered any more, the nearest that is."""
    remembered = kept(key)
    if remembered is not None and options:
        keep(key, min(options, key=lambda option: abs(option - remembered)))
    restore(key, options, named)


def restore_tab(key: str, titles: Sequence[str]) -> None:
    """Open the tab that the address names, else the one that was open last; `key` is the
    strip's."""
    asked, known = from_address(TAB), {_plain(title): title for title in titles}
    if asked is not None and _plain(asked) in known:
        st.session_state[key] = known[_plain(asked)]
    elif key not in st.session_state and kept(key) in titles:
        st.session_state[key] = kept(key)


def from_address(key: str) -> str | None:
    """What the address asks of a widget that is not bound to it, where it has changed since
    `to_address`."""
    asked = st.query_params.get(key)
    return asked if asked != kept(_in_address(key)) else None


def in_address(key: str) -> str | None:
    """What the address says of `key`, whoever wrote it."""
    return st.query_params.get(key)


def asked(key: str, options: Sequence[Any], named: Callable[[Any], str] = str) -> Any:
    """The option that the address names, however it is spelled; None where it names none."""
    said = in_address(key)
    if said is None:
        return None
    return next((one for one in options if _plain(named(one)) == _plain(said)), None)


def to_address(key: str, value: object) -> None:
    """Name the value of a widget that is not bound to the address."""
    keep(_in_address(key), str(value))
    if st.query_params.get(key) != str(value):
        st.query_params[key] = str(value)


def _in_address(key: str) -> str:
    return f"last_{key}_in_address"


def follow(key: str, value: Any, options: Iterable[Any]) -> None:
    """Have a widget show `value` whenever that is another one than before; what the address asks
    for at first stays."""
    name = key_of("followed", key)
    before = kept(name)
    keep(name, value)
    if value != before and value in options and (before is not None or in_address(key) is None):
        put(key, value)


def restore_text(key: str) -> None:
    """Give a text field that was not on the last page what was typed into it."""
    if key not in st.session_state and kept(key):
        st.session_state[key] = kept(key)


def wanted_run() -> str | None:
    """Run id asked for: a changed address wins, then what was chosen before."""
    in_address = st.query_params.get(RUN)
    if in_address and in_address != st.session_state.get(_LAST_RUN_IN_ADDRESS):
        return in_address
    return kept(RUN)


def remember_run(run_id: str) -> None:
    """Choose the run and put its id into the address, so that the link means the same run
    tomorrow."""
    keep(RUN, run_id)
    st.session_state[_LAST_RUN_IN_ADDRESS] = run_id
    if st.query_params.get(RUN) != run_id:
        st.query_params[RUN] = run_id


def run_named() -> dict[str, str]:
    """The chosen run as a parameter of the address; {} where there is none."""
    return {RUN: kept(RUN)} if kept(RUN) else {}


def choose_run(run_id: str) -> None:
    """Choose a run from anywhere; the next script run shows it."""
    keep(RUN, run_id)
    st.session_state[_LAST_RUN_IN_ADDRESS] = st.query_params.get(RUN)


def go(page: str) -> None:
    """Open a page on the next script run: not now, in a callback."""
    keep(GO_TO, page)


def open_run(run_id: str) -> None:
    """Show a run's summary on the next script run; for callbacks."""
    choose_run(run_id)
    go("summary")


def form_key(field: str) -> str:
    """Key of one field of the form for a new audit, which stays as it was left."""
    return f"new_{field}"


def fill_form(track: str, values: dict[str, Any]) -> None:
    """Values that fields of the form start with from now on, under either preset."""
    keep(FILL, {**kept(FILL, {}), track: {**filled(track), **values}})


def filled(track: str) -> dict[str, Any]:
    """Those of one track's form."""
    return dict(kept(FILL, {}).get(track, {}))


def value_of(key: str, default: Any = None) -> Any:
    """A widget's value of this session, e.g. a chart selection read before the chart is drawn."""
    return st.session_state.get(key, default)


def put(key: str, value: Any) -> None:
    """Set a widget's value before it is drawn, or from a callback."""
    st.session_state[key] = value


def put_later(key: str, value: Any) -> None:
    """Set a widget's value on the next script run, when it may already have been drawn on this
    one."""
    st.session_state.setdefault(_LATER, {})[key] = value


def coming(key: str, default: Any = None) -> Any:
    """A widget's value as the next script run will find it, for callbacks: the one before may not
    be drawn yet."""
    return st.session_state.get(_LATER, {}).get(key, value_of(key, default))


def settle() -> None:
    """Apply what `put_later` and `reclaim` left. Called once, before anything is drawn."""
    st.session_state[_GOES_BACK] = st.session_state.pop(_BACK_NEXT, False)
    for key, value in st.session_state.pop(_LATER, {}).items():
        st.session_state[key] = value


def key_of(kind: str, *names: object) -> str:
    """Key of a button or chart of which there are several, e.g. key_of("open", run_id)."""
    return "_".join([kind, *map(str, names)])
