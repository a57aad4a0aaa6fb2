"""The playground: a prompt that the dense and a pruned model are to go on from, checked before
anything loads, and what one answer looks like."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.fields import attempt, is_number
from engine.audit.tracks import request_from
from engine.core import words
from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.text import CONTROL, visible
from engine.core.types import HeadMask, Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.heat_map import map_scale, token_labels, token_map
from engine.report.charts.panel import Choice, Panel, blank
from engine.report.charts.where_it_looks import SIDES, add_side, name_rows
from engine.report.contents import default_choice, variant_row
from engine.report.palette import series_styles, style_of
from engine.store.runs import Run, where
from engine.surgery.named import heads_of
from engine.tracks.language_models.arms import arm_of
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.words import LOOKS

MOST_TOKENS = 200
"""New tokens that can be asked for."""
MOST_CHARACTERS = 20_000
"""Of a prompt: more is refused before a tokenizer sees it."""
MOST_SIBLINGS = 12
TYPED = "typed by hand"
"""Names the random stream of prompts that are not the run's: edits of a prompt meet the same noise.
"""
KNOWN = ("run", "prompt", "variant", "heads", "tokens", "seed", "siblings", "axis", "head")


@dataclass(frozen=True)
class Question:
    """What is asked. `rows`: the prompt, then its siblings. `prompt_id` names the stream that all
    of them draw from; a prompt of the run keeps its own, and so gets the text that the audit has.
    `head`: whose attention is wanted.
    """

    run: Run
    request: AuditRequest
    mask: HeadMask
    label: str
    rows: tuple[Sibling, ...]
    prompt_id: str
    is_known: bool
    tokens: int
    seed: int
    head: tuple[int, int] | None
    notes: tuple[str, ...]
    arm: str = ""
    """What stands in the dense model's place, where that is no mask."""


def question_of(given: Values, run: Run) -> Question:
    """The question, or RequestError with every fault. given: see `asks.py`."""
    faults = [unknown("question", name, KNOWN) for name in given if name not in KNOWN]
    request = request_from(run.request)
    prompt = given.get("prompt", "")
    attempt(lambda: _check_prompt(prompt), faults)
    whole = partial(_whole, given)
    tokens = attempt(lambda: whole("tokens", request.max_new_tokens, 1, MOST_TOKENS), faults)
    seed = attempt(lambda: whole("seed", request.first_seed, 0, 2**31 - 1), faults)
    cut = attempt(lambda: _cut(run, given), faults)
    word, head = given.get("head"), None
    if word is not None:
        head = attempt(lambda: heads_of([word], *_shape(run)).cut[0], faults)
    wanted = given.get("siblings") or ()
    if wanted is not True and not _are_words(wanted):
        advice = "Give words, or true for one of each subgroup."
        faults.append(Fault("siblings", "are no list of words.", advice))
    axis = given.get("axis")
    if axis is not None and axis not in request.axes:
        faults.append(unknown("axis", axis, request.axes))
    if faults or cut is None or tokens is None or seed is None:
        raise RequestError(faults)
    mask, label, arm = cut
    rows, own, notes = _rows(run, request, prompt, axis, wanted)
    if head in mask.cut:
        notes.append(
            "The head whose attention is asked for is off: what it attends to then changes nothing."
        )
    known, said, asked = own or TYPED, tuple(notes), tuple(rows)
    return Question(
        run, request, mask, label, asked, known, bool(own), tokens, seed, head, said, arm
    )


def _cut(run: Run, given: Values) -> tuple[HeadMask, str, str]:
    """What is off in the pruned model, its name, and the arm where it is one: a variant, or heads
    of one's own; else where readers start."""
    shape = _shape(run)
    heads, variant = given.get("heads"), given.get("variant")
    if heads is not None and variant is not None:
        raise refusal("heads", "and a variant are both given.", "Give one of them.")
    if heads is not None:
        if not isinstance(heads, list | tuple):
            raise refusal("heads", "are no list.", 'Give a list of heads, as in ["2.3"].')
        mask = heads_of(heads, *shape)
        return mask, phrasing.count(len(mask.cut), "head") + " chosen by hand", ""
    if variant is None:
        row = lookup.variant_of(run, default_choice(run, given.get("axis")))
    else:
        row = variant_row(run, variant, lookup.frame(run, "variants"))
    mask = HeadMask.from_units(*shape, lookup.cut_units(row))
    return mask, lookup.variant_label(run, row), arm_of(row)


def _shape(run: Run) -> tuple[int, int]:
    return run.model["n_layers"], run.model["n_heads"]


def _check_prompt(prompt: Any) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise refusal("prompt", "is empty.", "Write a few words for the model to go on from.")
    if len(prompt) > MOST_CHARACTERS:
        what = f"has {len(prompt):,} characters; at most {MOST_CHARACTERS:,} are read."
        raise refusal("prompt", what, "Shorten it.")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        what = "holds half of a character (a lone surrogate)."
        raise refusal("prompt", what, "Write it in valid Unicode.") from None


def _whole(given: Values, name: str, usual: int, least: int, most: int) -> int:
    value = usual if given.get(name) is None else given[name]
    if not is_number(value) or value != int(value) or not least <= value <= most:
        what = f"{str(value)[:40]!r} is not possible."
        raise refusal(name, what, f"Give a whole number, {least} to {most}.")
    return int(value)


def _are_words(wanted: Any) -> bool:
    if not isinstance(wanted, list | tuple) or len(wanted) > MOST_SIBLINGS:
        return False
    return all(isinstance(word, str) and 0 < len(word.strip()) <= 100 for word in wanted)


def _rows(
    run: Run, request: AuditRequest, prompt: str, axis: str | None, wanted: Sequence[str] | bool
) -> tuple[list[Sibling], str, list[str]]:
    """The prompt and its siblings, the id of the prompt where it is one of the run's, and what must
    be said."""
    prompts, notes = lookup.frame(run, "prompts"), []
    if steering := len(CONTROL.findall(prompt)):
        notes.append(
            f"{phrasing.count(steering, 'control character')} in the prompt: shown as a mark, read"
            " as it is."
        )
    # The row with exactly this text, on the axis first.
    same = where(prompts, text=prompt)
    mine = where(same, axis=axis)
    same = (mine if len(mine) else same).sort_values("prompt_id")
    own = next(iter(same.to_dict("records")), None)
    axes = list(dict.fromkeys([own["axis"]] if own else [axis or request.axes[0], *request.axes]))
    table = group_words(prompts, axes)
    found = named_in(prompt, table, own["descriptor"] if own else "")
    rows = [Sibling(prompt, *((found["subgroup"], found["word"]) if found else ()))]
    if wanted and not found:
        notes.append(
            "No sibling: the prompt names no subgroup of the audit's axes by a word of its prompts."
        )
    elif wanted and found:
        chosen = () if wanted is True else [word.strip() for word in wanted]
        rows = siblings(prompt, table, found, chosen, prompts["text"])
    if len(rows) > MOST_SIBLINGS + 1:
        notes.append(f"{len(rows) - 1} siblings: the first {MOST_SIBLINGS} are written on.")
    return rows[: MOST_SIBLINGS + 1], str(own["prompt_id"]) if own else "", notes


# The siblings of a prompt: the same words about each other subgroup of the axis.


_VOWELS = "aeiouAEIOU"
_ARTICLE = r"(?:(?<!\w)(?P<article>an?|An?)(?P<space>\s+))?"


@dataclass(frozen=True)
class Sibling:
    """One prompt and whom it is about; both empty where that is not known."""

    prompt: str
    subgroup: str = ""
    word: str = ""


def group_words(prompts: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Words that name a subgroup: columns axis, subgroup, word, rank (its place among those of the
    subgroup). The descriptors of the prompts, or, on an axis that names none, the subgroups
    themselves; axes in the order given.
    """
    found = []
    for axis in axes:
        mine = prompts[prompts["axis"] == axis]
        named = mine[mine["descriptor"].astype(str) != ""]
        part = named[["axis", "subgroup"]].assign(word=named["descriptor"])
        part = mine[["axis", "subgroup"]].assign(word=mine["subgroup"]) if part.empty else part
        found.append(part.drop_duplicates().sort_values(["subgroup", "word"]))
    table = pd.concat(found, ignore_index=True)
    return table.assign(rank=table.groupby(["axis", "subgroup"]).cumcount())


def named_in(prompt: str, table: pd.DataFrame, preferred: str = "") -> dict | None:
    """The row of `group_words` whose word the prompt names: the preferred one, else on the first
    axis that has any the longest; None where it names none."""
    rows = [row for row in table.to_dict("records") if _pattern(row["word"]).search(prompt)]
    first = [row for row in rows if row["axis"] == rows[0]["axis"]]
    own = [row for row in first if row["word"] == preferred]
    return max(own or first, key=lambda row: len(row["word"]), default=None)


def siblings(
    prompt: str,
    table: pd.DataFrame,
    found: dict,
    wanted: Sequence[str] = (),
    texts: Iterable[str] = (),
) -> list[Sibling]:
    """The prompt itself, then the prompt with the word that was found in it exchanged everywhere.
    It becomes `wanted`, or one word of every other subgroup of the axis, that of the same rank
    where there is one. texts: see `exchanged`.
    """
    same = table[table["axis"] == found["axis"]]
    groups = dict(zip(same["word"], same["subgroup"], strict=True))
    if not wanted:
        others = same[(same["subgroup"] != found["subgroup"]) & (same["rank"] <= found["rank"])]
        wanted = others.groupby("subgroup", sort=True)["word"].last().tolist()
    new = [word for word in dict.fromkeys(wanted) if word != found["word"]]
    rows = [
        Sibling(exchanged(prompt, found["word"], word, texts), groups.get(word, ""), word)
        for word in new
    ]
    return [Sibling(prompt, found["subgroup"], found["word"]), *rows]


def exchanged(prompt: str, old: str, new: str, texts: Iterable[str] = ()) -> str:
    """The prompt with one word for another, its first letter as large as it was. "A" or "an" before
    it follows as the `texts` write it before the new word, else as English does."""
    before = re.compile(rf"\b(an?)\s+{re.escape(new)}(?!\w)", re.IGNORECASE)
    known = next((match[1].lower() for text in texts if (match := before.search(text))), None)

    def instead(match: re.Match[str]) -> str:
        word = new[:1].upper() + new[1:] if match["word"][:1].isupper() else new
        if not match["article"]:
            return word
        article = known or ("an" if new[:1] in _VOWELS else "a")
        return f"{match['article'][0]}{article[1:]}{match['space']}{word}"

    return _pattern(old).sub(instead, prompt)


def _pattern(word: str) -> re.Pattern[str]:
    """The word on its own, with the article before it."""
    return re.compile(rf"{_ARTICLE}(?<!\w)(?P<word>{re.escape(word)})(?!\w)", re.IGNORECASE)


# What one answer looks like: the next token where two texts part, attention before and after.


PARTING = "Which word might come next where the two models part?"


def next_token(row: Values, choice: Choice, shown: bool) -> Panel:
    """Probabilities of the next token of one row of an answer; tokens are numbered unless they are
    to be `shown`."""
    names = [_named(one["token"], place, shown) for place, one in enumerate(row["next"], 1)]
    figure = blank(choice, 90 + 34 * len(names), "probability of being drawn next")
    for side, style in zip(SIDES, _styles(choice), strict=True):
        values = [one[side] for one in row["next"]]
        drawn = ["drawn" if side in one["drawn_by"] else "" for one in row["next"]]
        hovers = [
            f"<b>{name}</b><br>{side}:"
            f" {phrasing.percent(round(value, 4))}{', drawn' if mark else ''}"
            for name, value, mark in zip(names, values, drawn, strict=True)
        ]
        add_side(figure, side, values, style, drawn, hovers)
    name_rows(figure, names)
    figure.update_xaxes(
        range=[0, 1.08 * max(one[side] for one in row["next"] for side in SIDES)], tickformat=".0%"
    )
    columns = {
        "token": [html.unescape(name) for name in names],
        **{f"{side} model": [one[side] for one in row["next"]] for side in SIDES},
        "drawn by": [" and ".join(one["drawn_by"]) for one in row["next"]],
    }
    note = (
        "The likeliest tokens of both models, after temperature and cuts of the decoding. Both "
        "drew with the same random numbers. So a small change of the probabilities can change the "
        "word, and a large one need not."
    )
    return Panel("next_token", PARTING, _said(row), figure, pd.DataFrame(columns), note)


def _styles(choice: Choice) -> tuple[str, str]:
    """Colours of the dense and the pruned model: that of its method, where it has one."""
    own = (
        style_of(choice.method, LOOKS, choice.dark)
        if choice.method in LOOKS
        else series_styles(choice.dark)[1]
    )
    return style_of("dense", LOOKS, choice.dark).colour, own.colour


def _named(token: str, place: int, shown: bool) -> str:
    text = visible(token).strip() or "(space)"
    return html.escape(text[:24], quote=False) if shown else f"token {place}"


def _said(row: Values) -> str:
    distance = 0.5 * sum(abs(one["dense"] - one["pruned"]) for one in row["next"])
    moved = (
        f"At least {phrasing.percent(round(distance, 3))} of the probability moved to other tokens"
        " there."
    )
    if row["parts_at"] is None:
        return f"The two never part here: these are the chances of the first token. {moved}"
    return f"They part at token {row['parts_at'] + 1}. {moved}"


def attention_maps(answer: Values, choice: Choice) -> Panel:
    """Where the chosen head attends on the prompt, before and after the cut."""
    found = answer["attention"]
    labels = token_labels(found["tokens"], shown=True)
    maps = {side: np.array(found[side]) for side in SIDES if found[side] is not None}
    top = max(float(one.max()) for one in maps.values())
    parts = tuple(
        token_map(choice, one, labels, f"{side.capitalize()} model", map_scale(0.0, top))
        for side, one in maps.items()
    )
    head = words.head_name(found["layer"], found["head"])
    question = f"Where does {head} look, before and after?"
    pairs = [(row, column) for row in range(len(labels)) for column in range(row + 1)]
    columns = {
        "from": [html.unescape(labels[row]) for row, _ in pairs],
        "to": [html.unescape(labels[column]) for _, column in pairs],
        **{side: [float(one[pair]) for pair in pairs] for side, one in maps.items()},
    }
    note = (
        "Row: the token that attends; column: the one it attends to. Attention is no explanation."
        f" {words.COUNTING}"
    )
    return Panel(
        "prompt_attention", question, _moved(maps), None, pd.DataFrame(columns), note, parts
    )


def _moved(maps: Mapping[str, np.ndarray]) -> str:
    if "pruned" not in maps:
        return "The head is off in the pruned model, so it is shown before the cut only."
    moved = 0.5 * np.abs(maps["dense"] - maps["pruned"]).sum(axis=1).mean()
    if not moved:
        return "It looks at the same tokens as before: no head in an earlier layer is off."
    return (
        f"On average {phrasing.percent(round(float(moved), 3))} of what a token attends to moved"
        " elsewhere."
    )
