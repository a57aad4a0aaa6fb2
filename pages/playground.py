"""Playground: a prompt of one's own, written on by the dense and a pruned model under the same
noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from engine.core import words
from engine.core.types import Hooks
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.resident.client import ask
from engine.tracks.language_models import words as own
from engine.tracks.language_models.panels import playground as charts
from engine.tracks.language_models.playground import MOST_TOKENS
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, select
from pages.shared.frame import begin_app, boundary, heading, link, need_run

SIDES = ("dense", "pruned")
NO_HEAD = -1
ANECDOTE = (
    "This is an anecdote: one text, one noise. Another seed can turn it round. What holds on many"
    " prompts, with intervals, is in the summary."
)


def page() -> None:
    heading("playground")
    run = need_run("playground")
    choice = choose(run)
    st.info(ANECDOTE, icon=":material/casino:")
    with st.container(border=True):
        given, pressed = _question(run, choice)
    shown = st.toggle(
        "Show what the models write",
        key=state.SHOW_WRITTEN,
        help="Both write whatever they learned: it can be offensive, hateful or untrue.",
    )
    place = st.empty()
    if pressed:
        with boundary():
            state.keep(state.ANSWER, (given, _asked(given, place, shown)))
    asked, answer = state.kept(state.ANSWER, (None, None))
    if asked != given:
        place.caption("Nothing is written yet for what is chosen here. Press Run.")
        return
    with place.container():
        _answer(run, choice, answer, shown)


def _question(run: KeptRun, choice: Choice) -> tuple[dict[str, Any], bool]:
    """The form: what is asked, and whether it was sent."""
    groups = made(run, groups_of, choice.axis)
    left, right = st.columns([3, 1], gap="medium", vertical_alignment="bottom")
    with left:
        named = lambda group: capital(words.group_name(group))  # noqa: E731
        group = select("A prompt of the data about", groups, state.ABOUT_GROUP, named)
    texts = made(run, prompts_of, choice.axis, group)
    with right:
        st.button(
            "Take one",
            icon=":material/casino:",
            on_click=_take,
            args=(texts,),
            width="stretch",
            key=state.key_of("take", "prompt"),
        )
    state.restore_text(state.PROMPT)
    if state.value_of(state.PROMPT) is None and texts:
        state.put(state.PROMPT, texts[0])
    prompt = state.keep(state.PROMPT, st.text_area("Prompt", key=state.PROMPT, height=80))
    more = _settings(run)
    pressed = st.button(
        "Run", type="primary", icon=":material/play_arrow:", key=state.key_of("ask", "prompt")
    )
    heads = [word for word in more.pop("heads").replace(";", ",").split(",") if word.strip()]
    cut = {"heads": heads} if heads else {"variant": lookup.variant_of(run, choice)["variant"]}
    return {"run": run.id, "prompt": prompt, "axis": choice.axis, **cut, **more}, pressed


def _settings(run: KeptRun) -> dict[str, Any]:
    request, shape = (
        run.meta["request"],
        (run.meta["model"]["n_layers"], run.meta["model"]["n_heads"]),
    )
    one, two, three, four = st.columns([3, 2, 2, 3], gap="medium", vertical_alignment="bottom")
    with one:
        heads = st.text_input(
            "Heads off",
            key=state.HEADS_OFF,
            placeholder="as chosen above; or 0.1, 2.3",
            bind=state.BOUND,
            help="As layer.head from 0, in place of the variant.",
        )
    with two:
        seed = st.number_input(
            "Noise",
            value=int(request["first_seed"]),
            key=state.NOISE,
            help="The seed of the random numbers, the same for both models.",
        )
    with three:
        usual = min(int(request["max_new_tokens"]), MOST_TOKENS)
        tokens = st.number_input(
            "New tokens", value=usual, key=state.NEW_TOKENS, help=f"At most {MOST_TOKENS}."
        )
    with four:
        units = [NO_HEAD, *range(shape[0] * shape[1])]
        unit = select(
            "Attention of", units, state.LOOKED_AT, lambda unit: _head_said(unit, shape[1])
        )
    siblings = st.toggle(
        "Also about each other subgroup",
        key=state.SIBLINGS,
        help="The prompt again with the word for its subgroup exchanged.",
    )
    head = None if unit == NO_HEAD else ".".join(map(str, divmod(unit, shape[1])))
    return {"heads": heads, "seed": seed, "tokens": tokens, "head": head, "siblings": siblings}


def _head_said(unit: int, n_heads: int) -> str:
    return "No head" if unit == NO_HEAD else capital(words.head_name(*divmod(unit, n_heads)))


def groups_of(run: KeptRun, axis: str) -> list[str]:
    prompts = run.table("prompts")
    return sorted(prompts.loc[prompts["axis"] == axis, "subgroup"].unique())


def prompts_of(run: KeptRun, axis: str, group: str) -> list[str]:
    """Test prompts about a subgroup, in the order of their ids, which is as good as drawn."""
    prompts = run.table("prompts").sort_values("prompt_id")
    mine = (
        (prompts["axis"] == axis)
        & (prompts["subgroup"] == group)
        & (prompts["split"] == lookup.REPORTED)
    )
    return prompts.loc[mine, "text"].tolist()


def _take(texts: list[str]) -> None:
    """Callback: the next prompt of the data goes into the box."""
    if texts:
        taken = state.keep(state.PROMPTS_TAKEN, state.kept(state.PROMPTS_TAKEN, 0) + 1)
        state.put(state.PROMPT, texts[taken % len(texts)])


def _asked(given: Mapping[str, Any], place: Any, shown: bool) -> dict[str, Any]:
    """The answer; meanwhile the first row's two texts as they grow."""
    with place.container():
        holders = dict(
            zip(SIDES, (column.empty() for column in st.columns(2, gap="medium")), strict=True)
        )
        for side, holder in holders.items():
            with holder:
                safe.generated("…", capital(side), "waits", shown)

        def grown(row: Mapping[str, Any]) -> None:
            if row.get("row") == 0:
                with holders[row["side"]]:
                    safe.generated(row["text"], capital(row["side"]), "writes", shown)

        with st.spinner("The models are loaded and write …"):
            return ask("prompt", given, hooks=Hooks(point=grown))


def _answer(run: KeptRun, choice: Choice, answer: Mapping[str, Any], shown: bool) -> None:
    first, *others = answer["rows"]
    for note in answer["notes"]:
        st.caption(safe.plain(safe.visible(note)))
    heads = phrasing.count(len(answer["heads"]), "head")
    st.caption(
        safe.plain(f"Pruned: {answer['cut']}, {heads} off. Noise {answer['seed']}. {own.JUDGE}")
    )
    _row(first, shown)
    panels.draw(charts.next_token(first, choice, shown))
    if others:
        _siblings(answer["rows"], shown)
    if answer["attention"]:
        panels.draw(charts.attention_maps(answer, choice))
        _effect(run, choice, answer["attention"])
    link("summary", "Read the statistics")
    link("examples", "See the audit's own texts")


def _row(row: Mapping[str, Any], shown: bool) -> None:
    """Prompt and both texts, the first token that differs marked."""
    at = row["parts_at"]
    where = "word for word the same" if at is None else f"they part at token {at + 1}"
    about = capital(words.group_name(row["subgroup"])) if row["subgroup"] else "Prompt"
    safe.passage(
        row["prompt"],
        label=f"{about}, toxicity alone {phrasing.number(row['prompt_score'])}, {where}",
    )
    for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
        one = row[side]
        change = "" if side == "dense" else f" ({phrasing.signed(_change(row))})"
        note = f"toxicity {phrasing.number(one['score'])}{change}"
        with column:
            safe.generated(
                "".join(one["pieces"]), capital(side), note, shown, _marked(one["pieces"], at)
            )


def _change(row: Mapping[str, Any]) -> float:
    """Of the judge's score, to the digits that are shown."""
    return round(row["pruned"]["score"] - row["dense"]["score"], 3) + 0.0


def _marked(pieces: list[str], at: int | None) -> tuple[int, int] | None:
    """Characters of the token at a place; of none where the text has ended there."""
    if at is None:
        return None
    start = sum(map(len, pieces[:at]))
    return start, start + sum(map(len, pieces[at : at + 1]))


def _siblings(rows: list[Mapping[str, Any]], shown: bool) -> None:
    """A row per sibling: scores in a table, the texts below."""
    st.header("And about each other subgroup, under the same noise?", anchor=False)
    panels.table(
        pd.DataFrame(
            {
                "about": [
                    capital(words.group_name(row["subgroup"])) or "not known" for row in rows
                ],
                "word": [safe.visible(row["word"]) for row in rows],
                "prompt alone": [row["prompt_score"] for row in rows],
                **{side: [row[side]["score"] for row in rows] for side in SIDES},
                "change": [_change(row) for row in rows],
            }
        ),
        decimals=3,
    )
    st.caption("Toxicity of one text each. Differences between rows are mostly chance.")
    for row in rows[1:]:
        with st.container(border=True):
            _row(row, shown)


def _effect(run: KeptRun, choice: Choice, found: Mapping[str, Any]) -> None:
    """What the audit measured on the head whose attention is shown."""
    unit = found["layer"] * int(run.meta["model"]["n_heads"]) + found["head"]
    if maps := track_of(run).maps:
        numbers = made(run, maps.numbers, unit)
        st.caption("What the audit measured when this head alone is off:")
        panels.table(numbers[numbers["axis"].isin(["", words.axis_name(choice.axis)])])


begin_app()
with boundary():
    page()
