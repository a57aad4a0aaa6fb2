"""What a session remembers. The only file that names session-state and query-parameter keys.

Widgets bound to the address bar carry their key as the parameter's name, so `?axis=Religion&sparsity=20%25` is a view.
Streamlit forgets a widget's value when its page is left; `restore` and `keep` carry it to the next page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

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
VARIANT = "variant"
HEAD = "head"
EXPLORER = "explorer"
HEAD_CARD = "head_card"
HEAD_WALK = "head_walk"
SHOW_CHANGED = "show_changed_texts"
CHOICE_STRIP = "choice"
KIND = "kind"
SHOW = "show"
TRIAL = "trial"
CHANGED_GROUP = "changed_group"
CHANGED_KIND = "changed"
GALLERY_PAGE = "gallery_page"
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
PARETO_CHART = "pareto_chart"
SUBGROUP = "subgroup"
ORDER = "order"
PAGE = "page"
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
BENCH_SCORE = "lowest_by"
PASTED = "pasted_heads"
SET_NAME = "set_name"
STARTED = "started"

BOUND = "query-params"
"""Value of a widget's `bind`: the choice is part of the address."""

_LAST_RUN_IN_ADDRESS = "last_run_in_address"
_LATER = "set_on_the_next_run"


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


def restore(key: str, options: Sequence[Any], of: str = "") -> None:
    """Give a widget that was not on the last page the value remembered for it, when it is still offered.

    `of`: the page that it is remembered for, where pages share a key and not its meaning.
    """
    if key in st.session_state or key in st.query_params:
        return
    remembered = kept(key_of(key, of) if of else key)
    if remembered is not None and remembered in options:
        st.session_state[key] = remembered


def spell(key: str, options: Sequence[Any], named: Callable[[Any], str] = str) -> None:
    """Take what the address asks of a bound widget however it is spelled: links are typed by hand, `?tab=layers`.

    The widget itself knows only its options as `named` writes them, and corrects the address.
    """
    asked = st.query_params.get(key)
    if asked is None or key in st.session_state or asked in map(named, options):
        return
    for option in options:
        if _plain(named(option)) == _plain(asked):
            st.session_state[key] = option


def _plain(text: str) -> str:
    """Small, no blanks or dashes: "Which heads", "which_heads" and "which-heads" are one, "20%" and "20 %" too."""
    return "".join(letter for letter in text.casefold().replace("×", "x") if letter.isalnum() or letter in ".%")


def restore_list(key: str, options: Sequence[Any]) -> None:
    """`restore` for a widget of several values: those of them that are still offered."""
    if key not in st.session_state and kept(key):
        st.session_state[key] = [value for value in kept(key) if value in options]


def restore_nearest(key: str, options: Sequence[float]) -> None:
    """`restore` for a number: where it is not offered any more, the nearest that is."""
    remembered = kept(key)
    if remembered is not None and options:
        keep(key, min(options, key=lambda option: abs(option - remembered)))
    restore(key, options)


def from_address(key: str) -> str | None:
    """What the address asks of a widget that is not bound to it, where it has changed since `to_address`."""
    asked = st.query_params.get(key)
    return asked if asked != kept(_in_address(key)) else None


def in_address(key: str) -> str | None:
    """What the address says of `key`, whoever wrote it."""
    return st.query_params.get(key)


def to_address(key: str, value: object) -> None:
    """Name the value of a widget that is not bound to the address."""
    keep(_in_address(key), str(value))
    if st.query_params.get(key) != str(value):
        st.query_params[key] = str(value)


def _in_address(key: str) -> str:
    return f"last_{key}_in_address"


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
    """Choose the run and put its id into the address, so that the link means the same run tomorrow."""
    keep(RUN, run_id)
    st.session_state[_LAST_RUN_IN_ADDRESS] = run_id
    if st.query_params.get(RUN) != run_id:
        st.query_params[RUN] = run_id


def choose_run(run_id: str) -> None:
    """Choose a run from anywhere; the next script run shows it."""
    keep(RUN, run_id)
    st.session_state[_LAST_RUN_IN_ADDRESS] = st.query_params.get(RUN)


def level_key(level: str) -> str:
    """Key of the slider of a track: how much is cut, by its name there ("sparsity", "speedup")."""
    return level


def form_key(field: str) -> str:
    """Key of one field of the form for a new audit."""
    return f"new_{field}"


def value_of(key: str, default: Any = None) -> Any:
    """A widget's value of this session, e.g. a chart selection read before the chart is drawn."""
    return st.session_state.get(key, default)


def put(key: str, value: Any) -> None:
    """Set a widget's value before it is drawn, or from a callback."""
    st.session_state[key] = value


def put_later(key: str, value: Any) -> None:
    """Set a widget's value on the next script run, when it may already have been drawn on this one."""
    st.session_state.setdefault(_LATER, {})[key] = value


def settle() -> None:
    """Apply what `put_later` left. Called once, before anything is drawn."""
    for key, value in st.session_state.pop(_LATER, {}).items():
        st.session_state[key] = value


def shown_key(text_id: str, row: int) -> str:
    """Key of the switch that uncovers one example."""
    return f"show_{row}_{text_id}"


def key_of(kind: str, *names: object) -> str:
    """Key of a button or chart of which there are several, e.g. key_of("open", run_id)."""
    return "_".join([kind, *map(str, names)])
