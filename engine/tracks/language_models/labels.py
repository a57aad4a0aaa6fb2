"""What people say of a few texts of one variant beside the dense model, and what that makes of the
judge's numbers. Labels are kept as an addition of the run.

People see a prompt and one text at a time, and neither model, group nor verdict. The order is the
design's (`engine.stats.labels`), so whoever stops early has labelled a sample too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from engine.audit.session import check_name
from engine.core.errors import RequestError, refusal, refuse
from engine.core.types import digest_of, rng
from engine.data.tables import RowFaults, csv_table, need_columns
from engine.report.charts.lookup import remembered
from engine.stats.labels import FEWEST, Corrected, Design, agreement, errs, tested
from engine.store.runs import Run, Store, id_of, remove_addition, where, write_addition
from engine.tracks.language_models.bias_intervals import BiasErrors, verdicts
from engine.tracks.language_models.examples import SIDES, pairs

AnyRun = TypeVar("AnyRun", bound=Run)
VERSION = 1
TABLE = "labels"
KEYS = ["variant", "axis", "labeller", "text"]
HARMFUL, HARMLESS, UNSURE = "harmful", "not harmful", "unsure"
SAID = {HARMFUL: 1.0, HARMLESS: 0.0}
ANSWERS = {
    **dict.fromkeys(("h", "harmful", "1", "yes"), HARMFUL),
    **dict.fromkeys(("n", "not harmful", "0", "no"), HARMLESS),
    **dict.fromkeys(("u", "unsure", "?"), UNSURE),
    "": "",
}
"""What may stand in a file; an empty cell is a text that nobody has read yet."""
FILLED = ("sample", "text", "label")
"""Columns of a file that are read."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The test texts of one variant beside the dense model's, in the order in which they are
    labelled."""

    run_id: str
    variant: str
    axis: str
    pairs: pd.DataFrame
    """A row per prompt and draw, as `examples.pairs`, with `id_dense` and `id_pruned`."""

    @property
    def name(self) -> str:
        """In every row of a file."""
        return f"{self.run_id}/{self.variant}/{self.axis}"

    @cached_property
    def errors(self) -> BiasErrors:
        return BiasErrors(self.pairs.assign(toxicity=self.pairs["toxicity_dense"]))

    @cached_property
    def design(self) -> Design:
        judge = self.pairs[[f"toxicity_{side}" for side in SIDES]].to_numpy(dtype=float)
        group = np.searchsorted(self.errors.subgroups, self.pairs["subgroup"].to_numpy(dtype=str))
        return Design(judge, group, self.name)

    @cached_property
    def texts(self) -> pd.DataFrame:
        """text (id), prompt, written, each text once; which model's comes first is by chance."""
        rows, named = self.pairs.iloc[self.design.order], ["text", "prompt", "written"]
        second = rng("labels", "sides", self.name).random(len(rows)) >= 0.5
        parts = [
            rows[[f"id_{side}", "prompt", f"text_{side}"]]
            .set_axis(named, axis=1)
            .assign(pair=range(len(rows)), place=place)
            for side, place in zip(SIDES, (second, ~second), strict=True)
        ]
        both = pd.concat(parts).sort_values(["pair", "place"])
        return both.drop_duplicates("text", ignore_index=True)[named]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of pairs [pairs, 2] as means of prompts in the order of `errors`."""
        one = (self.errors.toxicities(self.pairs.assign(toxicity=part)) for part in values.T)
        return np.stack(list(one), axis=1)


def sample_of(run: Run, variant: str, axis: str) -> Sample:
    """RequestError where the run kept no texts, or the variant is the dense model."""
    if not (run.has("texts") and run.has("generations")):
        raise refusal("run", "keeps no texts.", "Audit again with this version: it keeps them.")
    found = pairs(run, variant, axis)
    if variant == "dense" or found.empty:
        what = f"{variant!r} has no texts beside the dense model's."
        raise refusal("variant", what, "Name one that is cut, as `runs show` prints it.")
    ids = {
        f"id_{side}": [
            f"t{digest_of([run.id, prompt, str(text)])[:11]}"
            for prompt, text in zip(found["prompt_id"], found[f"text_id_{side}"], strict=True)
        ]
        for side in SIDES
    }
    return Sample(run.id, variant, axis, found.assign(**ids))


def kept(run: Run, variant: str, axis: str) -> pd.DataFrame:
    """labeller, text, label ("" where drawn and not read yet) of one sample."""
    if not run.has(TABLE):
        return pd.DataFrame(columns=["labeller", "text", "label"])
    found = where(run.table(TABLE), variant=variant, axis=axis)
    return found[["labeller", "text", "label"]].reset_index(drop=True)


def without(run: AnyRun) -> AnyRun:
    """The run without any label: it stays the same while people label."""
    mine = {one.path for one in run.added if one.has(TABLE)}
    return replace(run, additions=tuple(path for path in run.additions if path not in mine))


def check_labeller(name: str) -> str:
    """The name of somebody who labels. RequestError where there is none, or it cannot be shown."""
    check_name(name)
    if not name.strip():
        raise refusal("labeller", "has no name.", "Give a name or initials.")
    return name.strip()


def keep(run: Run, store: Store, sample: Sample, labeller: str, labels: Mapping[str, str]) -> None:
    """Keep what somebody says of texts, beside what the same person said before of others.

    labels: by id of a text; "" for one that is drawn. RequestError as `check_labeller`.
    """
    labeller = check_labeller(labeller)
    before = kept(run, sample.variant, sample.axis)
    before = before[before["labeller"] == labeller].set_index("text")["label"].to_dict()
    drawn = {text: label for text, label in labels.items() if not label}
    after = {**drawn, **before, **{text: label for text, label in labels.items() if label}}
    same = {"variant": sample.variant, "axis": sample.axis, "labeller": labeller}
    code = {TABLE: VERSION}
    asked = {**same, "labels": digest_of(sorted(after.items()))}
    here = id_of(run.id, asked, code)
    table = pd.DataFrame({"text": list(after), "label": list(after.values())}).assign(**same)
    read = sum(map(bool, after.values()))
    meta = {
        "title": f"{read} labels by {labeller} of {sample.variant}, {sample.axis}",
        "asked": asked,
        "provenance": {"code": code},
        "keys": {TABLE: KEYS},
    }
    write_addition(store.root, run.id, here, meta, {TABLE: table[[*KEYS, "label"]]})
    for one in run.added:
        mine = {name: one.meta["asked"].get(name) for name in same} == same
        if mine and one.has(TABLE) and one.id != here:
            remove_addition(one.path)


def read_labels(run: Run, path: Path) -> dict[str, dict[str, str]]:
    """Labels by text by sample's name, of a file that was drawn and filled. RequestError with every
    fault."""
    table = csv_table(path, FILLED).cells
    need_columns(path, table, FILLED)
    faults, found = RowFaults(path.name), dict[str, dict[str, str]]()
    known, first = dict[str, set[str] | None](), dict[tuple[str, str], int]()
    rows = table[[*FILLED]].itertuples(index=False, name=None)
    for row, (name, text, said) in enumerate(rows, 1):
        if name not in known:
            sample = named(run, name)
            known[name] = None if sample is None else set(sample.texts["text"])
        texts, label = known[name], ANSWERS.get(said.casefold())
        if texts is None:
            faults.add(row, f"{name!r} is no sample of this audit.", f"Draw one of {run.id}.")
        elif text not in texts:
            faults.add(row, f"{text!r} is no text of its sample.", "Leave ids as they were drawn.")
        elif first.setdefault((name, text), row) != row:
            faults.add(row, f"repeats row {first[name, text]}.", "Leave one of the two.")
        if label is None:
            faults.add(row, f"{said!r} is no label.", "Use h, n or u, or leave the cell empty.")
        found.setdefault(name, {})[text] = label or ""
    if not faults and not any(any(one.values()) for one in found.values()):
        raise refusal(path.name, "holds no label.", "Fill the column label with h, n or u.")
    refuse(faults.all())
    return found


def named(run: Run, name: str) -> Sample | None:
    """The sample that a file names; None where the run has none of this name."""
    run_id, _, rest = name.partition("/")
    variant, _, axis = rest.rpartition("/")
    if run_id != run.id:
        return None
    try:
        return sample_of(run, variant, axis)
    except RequestError:
        return None


@dataclass(frozen=True, eq=False)
class Told:
    """What labels of one sample say.

    people: labeller, labelled, unsure, missing, whoever labelled most first. agreement: of the
    first two, None where one labelled. read: texts that somebody labelled, of `texts`. holes: texts
    that were passed over; then there are no rows.

    rows: group (ALL: all texts, GAP: between `ends`), n (labelled pairs), judge, value, low, high,
    all after the cut. Then judge_delta, delta, delta_low, delta_high, and errs: whether the judge
    is shown to err. ends: the groups that the judge finds worst and best off.
    """

    people: pd.DataFrame
    agreement: Mapping[str, float] | None
    read: int
    texts: int
    holes: int
    rows: pd.DataFrame
    ends: tuple[str, ...]


ALL, GAP = "", "\x00gap"


@remembered(TABLE, "generations", "prompts", "texts")
def told(run: Run, variant: str, axis: str) -> Told:
    """What people said of a sample so far, and what that makes of the judge's numbers."""
    sample, labels = sample_of(run, variant, axis), kept(run, variant, axis)
    labels = labels[labels["text"].isin(sample.texts["text"])]
    counts = labels.groupby(["labeller", "label"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=[*SAID, UNSURE, ""], fill_value=0)
    people = pd.DataFrame({"labelled": counts[[*SAID]].sum(axis=1), "unsure": counts[UNSURE]})
    people = people.assign(missing=counts[""]).reset_index()
    people = people.sort_values(
        ["labelled", "labeller"], ascending=[False, True], ignore_index=True
    )
    each = labels.assign(value=labels["label"].map(SAID)).pivot(
        index="text", columns="labeller", values="value"
    )
    both = each.reindex(columns=people["labeller"].head(2)).dropna()
    same = agreement(*(both.to_numpy(dtype=bool).T)) if len(people) > 1 else None
    answered = sample.texts["text"].isin(labels.loc[labels["label"] != "", "text"]).to_numpy()
    reached = np.flatnonzero(answered).max(initial=-1) + 1
    holes = int((~answered[:reached]).sum())
    said = each.mean(axis=1)
    rows, ends = _numbers(sample, said if not holes else said.iloc[:0])
    return Told(people, same, int(said.notna().sum()), len(sample.texts), holes, rows, ends)


_NUMBERS = ("n", "judge", "judge_delta", "value", "low", "high", "delta", "delta_low", "delta_high")


def _numbers(sample: Sample, said: pd.Series) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Rows of `Told`, and the ends of the gap. said: mean label by text."""
    design, errors = sample.design, sample.errors
    label = np.stack([sample.pairs[f"id_{side}"].map(said) for side in SIDES], axis=1)
    found, whole = (design.corrected(label.astype(float), together) for together in (False, True))
    judged = errors.clusters(errors.rows).means(sample.spread(design.judge))[1]
    able = np.array([not reason for reason in verdicts(errors)]) & found.told
    able &= found.labelled >= FEWEST
    known, one = np.flatnonzero(able), np.eye(len(able))
    names, weights = [errors.subgroups[at] for at in known], one[known]
    ends: tuple[str, ...] = ()
    if len(known) > 1:
        high, low = (known[pick(judged[known])] for pick in (np.argmax, np.argmin))
        ends = errors.subgroups[high], errors.subgroups[low]
        names, weights = [*names, GAP], np.vstack([weights, one[high] - one[low]])
    share = np.bincount(design.group)[None] / len(design.group)
    tables = [_of(sample, names, weights, found)] if names else []
    if whole.labelled[0] >= FEWEST and whole.told[0]:
        tables.append(_of(sample, [ALL], share, whole))
    if not tables:
        return pd.DataFrame(columns=["group", *_NUMBERS, "errs"]), ends
    table = pd.concat(tables, ignore_index=True)
    error = dict(zip([*errors.subgroups, ALL], [*found.error, *whole.error], strict=True))
    judge = (table["delta"] - table["judge_delta"]).to_numpy()
    noise = table["group"].map(error).to_numpy(dtype=float)  # a gap has none
    return table.assign(errs=errs(judge, noise, table["n"].to_numpy())), ends


def _of(sample: Sample, names: list[str], weights: np.ndarray, found: Corrected) -> pd.DataFrame:
    """Rows of weighted means of groups, [names, groups]."""
    clusters = sample.errors.clusters(sample.errors.rows)
    contrast = np.concatenate([np.stack([sign * weights, weights], axis=1) for sign in (0, -1)])
    n = (weights != 0) @ np.bincount(sample.design.group, found.seen)
    test = tested(clusters, sample.spread(found.values), contrast, np.tile(n, 2))
    judge = (contrast * clusters.means(sample.spread(sample.design.judge))).sum(axis=(1, 2))
    told = np.stack([test.value, test.low, test.high]).reshape(3, 2, -1)
    told[1:] = np.clip(told[1:], np.where(weights.min(axis=1) < 0, -1, [[0], [-1]]), 1)
    numbers = [n.astype(int), *judge.reshape(2, -1), *told[:, 0], *told[:, 1]]
    return pd.DataFrame({"group": names, **dict(zip(_NUMBERS, numbers, strict=True))})
