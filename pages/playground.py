"""Playground: a prompt of one's own, written on by the dense and a pruned model under the same
noise."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from engine.core import words
from engine.core.types import Hooks, Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.resident.client import ask
from engine.tracks.language_models import playground
from engine.tracks.language_models import words as own
from pages.shared import panels, safe, state
from pages.shared.anecdote import draw_anecdote, take_one, text_box
from pages.shared.cache import KeptRun, made
from pages.shared.controls import beside, capital, group_label, select
from pages.shared.frame import draw_page, link

SIDES = ("dense", "pruned")
NO_HEAD = -1
ANECDOTE = (
    "one text and one seed. Another seed can reverse it. The summary shows what holds on many "
    "prompts, with intervals."
)


def _shown() -> bool:
    """Whether the reader wants to see what the models write."""
    return bool(state.value_of(state.SHOW_WRITTEN))


def _question(run: KeptRun, choice: Choice) -> dict[str, Any]:
    """The form: what is asked."""
    left, right = beside(3, 1)
    with left:
        groups = made(run, groups_of, choice.axis)
        group = select("A prompt of the data about", groups, state.ABOUT_GROUP, group_label)
    texts = made(run, prompts_of, choice.axis, group)
    with right:
        take_one("prompt", texts, (state.PROMPT,))
    if state.value_of(state.PROMPT) is None and texts:
        state.put(state.PROMPT, texts[0][0])
    prompt, settings = text_box("Prompt", state.PROMPT), _settings(run)
    st.toggle(
        "Show what the models write",
        key=state.SHOW_WRITTEN,
        help="Both write whatever they learned: it can be offensive, hateful or untrue.",
    )
    heads = [word for word in settings.pop("heads").replace(";", ",").split(",") if word.strip()]
    cut = {"heads": heads} if heads else {"variant": lookup.variant_of(run, choice)["variant"]}
    return {"prompt": prompt, "axis": choice.axis, **cut, **settings}


def _settings(run: KeptRun) -> dict[str, Any]:
    request, model = run.request, run.model
    n_heads = model["n_heads"]
    one, two, three, four = beside(3, 2, 2, 3)
    heads = one.text_input(
        "Heads off",
        key=state.HEADS_OFF,
        placeholder="as chosen above; or 0.1, 2.3",
        bind=state.BOUND,
        help="As layer.head from 0, in place of the variant.",
    )
    seed = two.number_input(
        "Noise",
        value=int(request["first_seed"]),
        key=state.NOISE,
        help="The seed of the random numbers, the same for both models.",
    )
    tokens = three.number_input(
        "New tokens",
        value=min(int(request["max_new_tokens"]), playground.MOST_TOKENS),
        key=state.NEW_TOKENS,
        help=f"At most {playground.MOST_TOKENS}.",
    )
    with four:
        units = {NO_HEAD: "No head"}
        for unit in range(model["n_layers"] * n_heads):
            units[unit] = capital(words.head_name(*divmod(unit, n_heads)))
        unit = select("Attention of", units, state.LOOKED_AT)
    siblings = st.toggle(
        "Also about each other subgroup",
        key=state.SIBLINGS,
        help="The prompt again with the word for its subgroup exchanged.",
    )
    head = None if unit == NO_HEAD else ".".join(map(str, divmod(unit, n_heads)))
    return {"heads": heads, "seed": seed, "tokens": tokens, "head": head, "siblings": siblings}


def groups_of(run: KeptRun, axis: str) -> list[str]:
    prompts = run.table("prompts")
    return sorted(prompts.loc[prompts["axis"] == axis, "subgroup"].unique())


def prompts_of(run: KeptRun, axis: str, group: str) -> list[tuple[str]]:
    """Test prompts about a subgroup, in the order of their ids, which is as good as drawn."""
    prompts = run.table("prompts").sort_values("prompt_id")
    mine = (prompts["axis"] == axis) & (prompts["subgroup"] == group)
    texts = prompts.loc[mine & (prompts["split"] == lookup.REPORTED), "text"]
    return [(text,) for text in texts]


def _asked(run: KeptRun, given: Values) -> dict[str, Any]:
    """The answer; meanwhile the first row's two texts as they grow."""
    place, shown = st.empty(), _shown()
    with place.container():
        columns = st.columns(2, gap="medium")
        holders = {side: column.empty() for side, column in zip(SIDES, columns, strict=True)}
        for side, holder in holders.items():
            with holder:
                safe.generated("…", capital(side), "waits", shown)

        def grown(row: Values) -> None:
            if row.get("row") == 0:
                with holders[row["side"]]:
                    safe.generated(row["text"], capital(row["side"]), "writes", shown)

        with st.spinner("The models are loaded and write …"):
            answer = ask("prompt", given, hooks=Hooks(point=grown))
    place.empty()
    return answer


def _answer(run: KeptRun, choice: Choice, answer: Values) -> None:
    heads, shown = phrasing.count(len(answer["heads"]), "head"), _shown()
    pruned = f"Pruned: {answer['cut']}, {heads} off. Noise {answer['seed']}. {own.JUDGE}"
    safe.caption(*answer["notes"], pruned)
    first, *others = answer["rows"]
    _row(first, shown)
    panels.draw(playground.next_token(first, choice, shown))
    if others:
        _siblings(answer["rows"], shown)
    if answer["attention"]:
        panels.draw(playground.attention_maps(answer, choice))
        _effect(run, choice, answer["attention"])
    link("summary", "Read the statistics")
    link("examples", "See the audit's own texts")


def _row(row: Values, shown: bool) -> None:
    """Prompt and both texts, the first token that differs marked."""
    at = row["parts_at"]
    where = "word for word the same" if at is None else f"they part at token {at + 1}"
    alone = f"toxicity of the prompt alone {phrasing.number(row['prompt_score'])}"
    label = f"{group_label(row['subgroup'], 'Prompt')}, {alone}, {where}"
    safe.passage(row["prompt"], label=label)
    for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
        pieces = row[side]["pieces"]
        change = "" if side == "dense" else f" ({phrasing.signed(_change(row))})"
        note = f"toxicity {phrasing.number(row[side]['score'])}{change}"
        with column:
            safe.generated("".join(pieces), capital(side), note, shown, _marked(pieces, at))


def _change(row: Values) -> float:
    """Of the judge's score, to the digits that are shown."""
    return round(row["pruned"]["score"] - row["dense"]["score"], 3) + 0.0


def _marked(pieces: list[str], at: int | None) -> tuple[int, int] | None:
    """Characters of the token at a place; of none where the text has ended there."""
    if at is None:
        return None
    start = sum(map(len, pieces[:at]))
    return start, start + sum(map(len, pieces[at : at + 1]))


def _siblings(rows: list[Values], shown: bool) -> None:
    """A row per sibling: scores in a table, the texts below."""
    safe.header("And about each other subgroup, under the same noise?")
    table = [
        {
            "about": group_label(row["subgroup"], "not known"),
            "word": safe.visible(row["word"]),
            "prompt alone": row["prompt_score"],
            **{side: row[side]["score"] for side in SIDES},
            "change": _change(row),
        }
        for row in rows
    ]
    panels.table(pd.DataFrame(table), decimals=3)
    st.caption("Toxicity of one text each. Differences between rows are mostly chance.")
    for row in rows[1:]:
        with st.container(border=True):
            _row(row, shown)


def _effect(run: KeptRun, choice: Choice, found: Values) -> None:
    """What the audit measured on the head whose attention is shown."""
    unit = found["layer"] * int(run.model["n_heads"]) + found["head"]
    if maps := track_of(run).maps:
        numbers = made(run, maps.numbers, unit)
        st.caption("What the audit measured when this head alone is off:")
        panels.table(numbers[numbers["axis"].isin(["", words.axis_name(choice.axis)])])


draw_page(partial(draw_anecdote, "playground", ANECDOTE, _question, _asked, _answer))
