"""The siblings of a prompt: the same words about each other subgroup of the axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

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
    """The prompt itself, then the prompt with the word that was found in it exchanged everywhere:
    by `wanted`, or by one word of every other subgroup of the axis, that of the same rank where
    there is one. texts: see `exchanged`.
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
