"""Texts the demo judge learns from and is held against: project-written ones and public data given by path.

The public texts stay where they are; nothing of them is stored in the project.
"""

from __future__ import annotations

import argparse
import csv
import html
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from assets.build.models.remarks import Labelled, continuations, harmless, remarks

SURGE_REPEATS = 12
"""So few comments (half of 1,000) would drown among 20,000 tweets."""


@dataclass(frozen=True)
class JudgeData:
    """Training texts, and held-out texts by source. Labels: 1.0 toxic, 0.0 not."""

    train: list[Labelled]
    held_out: dict[str, list[Labelled]]


@dataclass(frozen=True)
class Case:
    """One HateCheck case; target is "" where it names no group, `template` the case with its group left open."""

    text: str
    hateful: bool
    target: str
    kind: str
    template: str


def read_davidson(path: Path) -> list[Labelled]:
    """Tweets of Davidson et al. 2017, each text once: class 0 (hate) and 1 (offensive) are toxic, 2 is not."""
    with path.open(encoding="utf-8", newline="") as file:
        found = {row["tweet"]: float(row["class"] != "2") for row in csv.DictReader(file)}
    return sorted(found.items())


def read_surge(path: Path) -> list[Labelled]:
    """Comments of surge-ai's toxicity set, each text once."""
    with path.open(encoding="utf-8", newline="") as file:
        found = {row["text"]: float(row["is_toxic"] == "Toxic") for row in csv.DictReader(file)}
    return sorted(found.items())


def read_hatecheck(path: Path) -> list[Case]:
    """HateCheck cases (Röttger et al. 2021). For measuring only, never trained on."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("target_ident", "functionality", "case_templ")
    return [Case(row["test_case"], row["label_gold"] == "hateful", *(row[name] for name in names)) for row in rows]


def without_links(text: str) -> str:
    """A tweet without user names, links, entities and retweet marks: how a sentence looks elsewhere."""
    plain = re.sub(r"https?://\S+|@\w+:?|\bRT\b", " ", html.unescape(text))
    return re.sub(r"\s+", " ", plain).strip(' !"')


def judge_data(davidson: Path, surge: Path, seed: int) -> JudgeData:
    """Split (davidson 80/20, surge 50/50, by seed) and mix with project-written texts."""
    rng = Random(seed)
    tweets, comments = read_davidson(davidson), read_surge(surge)
    rng.shuffle(tweets)
    rng.shuffle(comments)
    at, half = len(tweets) * 4 // 5, len(comments) // 2
    public = [(without_links(text) if rng.random() < 0.5 else text, label) for text, label in tweets[:at]]
    written = [
        *islice(continuations(seed), 12_000),
        *islice(harmless(seed), 6_000),
        *islice(remarks(seed), 4_000),
    ]
    held_out = {
        "davidson": tweets[at:],
        "surge": comments[half:],
        "demo sentences": [*islice(continuations(seed + 1), 2_000), *islice(harmless(seed + 1), 1_000)],
    }
    return JudgeData([*public, *comments[:half] * SURGE_REPEATS, *written], held_out)


def arguments(what: str, steps: int, seed: int, threads: int) -> argparse.Namespace:
    """What the command that trains a judge was given."""
    parser = argparse.ArgumentParser(description=f"Train {what}.")
    parser.add_argument("--to", type=Path, required=True, help="folder to write, replaced whole")
    parser.add_argument("--davidson", type=Path, required=True, help="labeled_data.csv of Davidson et al. 2017")
    parser.add_argument("--surge", type=Path, required=True, help="toxicity_en.csv of surge-ai")
    parser.add_argument("--hatecheck", type=Path, required=True, help="test_suite_cases.csv of HateCheck")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--threads", type=int, default=threads)
    return parser.parse_args()
