"""How much the form asks for, in one sentence, and how long an audit like it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.audit.fields import fields_of
from engine.audit.tracks import track_named
from engine.core import words
from engine.report import phrasing
from pages.shared import cache
from pages.shared.safe import plain

MOST = 0.95
"""Share of an audit that must have been computed when it was made, for its time to be told of."""


def line(request: Mapping[str, Any]) -> None:
    """What will be computed. No time is promised before anything ran: only what one audit of this
    kind took."""
    what = amount(request["track"], request)
    took = _took(request["track"])
    how_long = (
        f"{took} How long yours takes is measured as it runs, and stands beside the job."
        if took
        else ("How long it takes is measured as it runs, and stands beside the job.")
    )
    st.markdown(plain(f"This asks for {what} of {request.get('model') or 'a model'}. {how_long}"))


def amount(track: str, request: Mapping[str, Any]) -> str:
    """ "1 axis, 7 methods, 4 sparsities and 3 texts per prompt", from the fields that say how they
    are counted."""
    said = []
    for field in fields_of(track_named(track).part("request")):
        value = request.get(field.name)
        if field.counted and value is not None:
            said.append(
                phrasing.count(
                    len(value) if isinstance(value, list | tuple) else value, *field.counted
                )
            )
    return phrasing.listing(said)


def _took(track: str) -> str:
    """A finished audit of this kind, its size, and what computing it took where it was computed; ""
    without one."""
    for summary in cache.all_runs():
        if cache.track_name_of(summary.id) != track:
            continue
        meta = cache.open_run(summary.id).meta
        spent = meta.get("spent") or {}
        seconds = sum(spent.values())
        if seconds > 0 and _wholly(meta, spent):
            size = amount(track, meta["request"])
            return (
                f"An audit of {meta['model']['name']} with {size} took {words.duration(seconds)}"
                " where it was computed."
            )
    return ""


def _wholly(meta: Mapping[str, Any], spent: Mapping[str, float]) -> bool:
    """Whether nearly all of a run was computed when it was made; one that was resumed or shares
    parts of others took less than it says. Runs of earlier versions do not say it: there a stage
    that took no time was found finished.
    """
    return meta["computed"] >= MOST if "computed" in meta else min(spent.values()) > 0
