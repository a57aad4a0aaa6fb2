"""Draws a verdict: what was audited, the sentences, three numbers, cost and advice, and the way
on."""

from __future__ import annotations

import streamlit as st

from engine.report.advice import RULE
from engine.report.contract import Track
from engine.report.verdict import Fact, Verdict
from pages.shared import state
from pages.shared.controls import capital
from pages.shared.frame import link
from pages.shared.safe import escaped, unbroken


def sentences(said: Verdict) -> None:
    """What was audited, the verdict, whether that is a lot, and what else belongs to it."""
    lines = (("pa-audited", said.audited), ("pa-lead", said.sentence), ("pa-answer", said.meaning))
    st.html(
        "".join(f'<p class="{name}">{unbroken(text)}</p>' for name, text in lines if text)
        + _mind(said.more)
    )


def _mind(text: str) -> str:
    return f'<p class="pa-mind">{unbroken(text)}</p>' if text else ""


def numbers(said: Verdict) -> None:
    """Three numbers, what the cut costs, and what can be recommended."""
    cards = "".join(_card(fact, said.predicted) for fact in said.numbers)
    rows = [("Cost", said.cost, "")]
    if said.advice.said:
        rows.append(("Advice", said.advice.said, RULE))
    facts = "".join(
        f'<dt title="{escaped(help)}">{name}</dt><dd title="{escaped(help)}">{unbroken(text)}</dd>'
        for name, text, help in rows
    )
    st.html(
        f'<div class="pa-told"><div class="pa-cards pa-three">{cards}</div><dl'
        f' class="pa-facts">{facts}</dl></div>'
    )


_TONE = {"better": "pa-good", "worse": "pa-bad"}


def _card(fact: Fact, predicted: bool) -> str:
    """A number, what it was, and whether that is better, in words and not only in colour."""
    change = ""
    if fact.was:
        kind = f"{fact.kind}, predicted" if predicted else fact.kind
        tone = "" if predicted else _TONE.get(fact.kind, "")
        change = (
            f'<div class="pa-line">was {escaped(fact.was)}: <b'
            f' class="{tone}">{escaped(kind)}</b></div>'
        )
    return (
        f'<div class="pa-card" title="{escaped(fact.help)}"><div'
        f' class="pa-label">{escaped(capital(fact.name))}</div><div'
        f' class="pa-value">{escaped(fact.value)}</div>{change}</div>'
    )


def next_steps(track: Track) -> None:
    """Why, how sure, take it: three links."""
    sure = "reliability" if "reliability" in track.pages else "measured"
    with st.container(key=state.NEXT_STEPS, horizontal=True, gap="small"):
        link(track.pages[0], "Why")
        link(sure, "How sure")
        link("export", "Take it")
