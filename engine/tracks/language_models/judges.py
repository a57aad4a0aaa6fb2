"""What another judge says of a finished audit's texts: every bias and group again, under that
judge, as an addition.

No text is drawn and no model is loaded but the judge: the texts that the audit stored are read once
more. Where two judges do not agree on the sign of a change, the change is the judge's as much as
the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from engine.audit.request import Growth
from engine.audit.session import Executor, Progress, run_of, versions
from engine.audit.tracks import request_from, track_of_run
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import json_able
from engine.core.types import Event, Hooks, digest_of, rng
from engine.data.tables import csv_table, need_columns
from engine.models.judge import Judge, JudgeInfo, inspect_judge, load_judge
from engine.report.charts import lookup
from engine.stats.clustered import MISSED
from engine.store.runs import Run, Store, id_of, write_addition
from engine.store.sealed import Shards, noted
from engine.tracks.language_models import words
from engine.tracks.language_models.arms import arm_of
from engine.tracks.language_models.bias import PROMPT
from engine.tracks.language_models.bias_intervals import group_table, mean_interval
from engine.tracks.language_models.context import Settings, Shard
from engine.tracks.language_models.evidence import as_drawn
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.tables import TEST, UNCUT, Measured
from engine.tracks.language_models.variants import What

VERSION = 1
"""Of the code here: another one judges anew."""
CODE = {"opinion": VERSION}
AT_ONCE = 512
"""Texts that are judged and kept together: what a kill loses at most."""
Named = Mapping[What, Sequence[str]]
"""Reported variants by what is done to the model, the dense model first."""
KEYS = {
    "opinions": ["judge", "variant", "axis", "metric"],
    "opinion_groups": ["judge", "variant", "axis", "group"],
}


class _Stored:
    """A finished run in place of the context of an audit under way: prompts, and verdicts of
    `judge` on its texts."""

    def __init__(
        self, run: Run, settings: Settings, score: Mapping[str, float], named: Named
    ) -> None:
        table = run.table("prompts")
        self.prompts = {
            key: part.reset_index(drop=True) for key, part in table.groupby(["axis", "split"])
        }
        self.settings, self.score, self.named = settings, score, named
        drawn = (
            run.table("generations").query("split == @TEST").merge(run.table("texts"), on="text_id")
        )
        self.drawn = dict(list(drawn.groupby(["variant", "axis", "seed"])))

    def rows(self, axis: str, split: str) -> pd.DataFrame:
        """Prompts of one axis and split."""
        return self.prompts[axis, split]

    def read(self, shard: Shard) -> pd.DataFrame:
        """prompt_id, and what a judge reads of it."""
        prompts = self.rows(shard.axis, TEST)[["prompt_id", "text"]].rename(
            columns={"text": "prompt"}
        )
        if shard.kind == "floor":
            return prompts.assign(read=prompts["prompt"])
        mine = self.drawn[self.named[What(shard.cut, shard.arm)][0], shard.axis, shard.seed][
            ["prompt_id", "text"]
        ]
        both = prompts.merge(mine, on="prompt_id", validate="one_to_one")
        return both.assign(
            read=self.settings.judged_text(both["prompt"].tolist(), both["text"].tolist())
        )

    def fetch(self, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        """Verdicts as the audit's own measurements give them: prompt_id, toxicity."""
        found = [self.read(shard) for shard in shards]
        return [
            one[["prompt_id"]].assign(toxicity=[self.score[text] for text in one["read"]])
            for one in found
        ]


def opinion(request: Growth, store: Store, hooks: Hooks, executor: Executor | None) -> Run:
    """The run with the judge's verdicts on its test texts, judged now or found. What was judged
    before a kill is kept.

    RequestError before anything heavy loads.
    """
    run, info = asked_of(request, store)
    # The judge counts as what it is, instead of where it lies.
    asked = {**request.identity, "judge": info.name, "judge_hash": info.digest}
    asked.pop("label", None)
    here = id_of(run.id, asked, CODE)
    store.prove_writable()
    if executor is not None:
        executor.close()
        hooks.report(Event("load", 0, 0, note=words.JUDGED_HERE))
    with store.alone(f"{run.id}-{here}", hooks.check):
        if here not in {one.id for one in run_of(request, store).added}:
            with noted() as used:
                judge = load_judge(request.judge, label=request.label)
                tables = _tables(run, request, judge, store, hooks)
            said = {"judge": request.judge, "label": request.label}
            meta = {
                "title": request.title,
                "asked": asked,
                "provenance": {
                    **versions(),
                    "device": "cpu",
                    "code": CODE,
                    "asked_as": said,
                },
                "notes": _notes(run, info),
                "shards": used.hashes,
                "keys": KEYS,
            }
            write_addition(store.root, run.id, here, json_able(meta), tables)
    return run_of(request, store)


def asked_of(request: Growth, store: Store) -> tuple[Run, JudgeInfo]:
    """The run and the judge. RequestError with everything that is wrong, before one is loaded."""
    run = run_of(request, store)
    faults = [
        unknown("axis", axis, run.request["axes"])
        for axis in request.axes
        if axis not in run.request["axes"]
    ]
    if track_of_run(run).name != request.track:
        faults.append(
            Fault("run", f"is of {track_of_run(run).cuts}.", f"Name one of {request.track}.")
        )
    elif not run.has("texts"):
        faults.append(
            Fault("run", "holds no texts.", "Audit again with this version: it keeps them.")
        )
    if (
        request.units
        or request.level is not None
        or request.method
        or request.split not in ("", TEST)
    ):
        what = (
            "a judge reads the texts of every variant; levels, units and splits cannot be chosen"
            " with it."
        )
        faults.append(Fault("judge", what, "Leave them out."))
    info = None
    try:
        info = inspect_judge(request.judge, label=request.label)
        if run.meta["judge"].get("hash") == info.digest:
            faults.append(
                Fault("judge", f"{info.name} is the audit's own judge.", "Name another one.")
            )
    except RequestError as error:
        faults += error.faults
    if faults or info is None:
        raise RequestError(faults)
    return run, info


def _notes(run: Run, info: JudgeInfo) -> list[str]:
    what = [info.note] if info.label else []
    if info.is_foreign_to(run.model["weight_hash"]):
        made_for = " and ".join(info.made_for)
        what.append(words.foreign_judge(info.name, made_for, run.model["name"]))
    return what


def _tables(
    run: Run, request: Growth, judge: Judge, store: Store, hooks: Hooks
) -> dict[str, pd.DataFrame]:
    progress, asked = Progress(hooks.report), _audit_of(run)
    named = _named(run)
    score: dict[str, float] = {}
    stored = _Stored(run, asked.settings(), score, named)
    shards = [Shard("floor", (), axis, TEST) for axis in request.axes]
    every = product(request.axes, named, asked.seed_list)
    shards += [what.shard("verdicts", axis, TEST, seed) for axis, what, seed in every]
    texts = sorted({text for shard in shards for text in stored.read(shard)["read"]})
    for part in _judged(judge, texts, store.shards, progress, hooks):
        score |= part
    same = {"judge": _called(run, judge.info), "judge_hash": judge.info.digest}
    # `stored` has all that Measured asks of a context.
    measured = Measured(stored, asked, progress)  # type: ignore[arg-type]
    progress.say("statistics", judge.info.name)
    results, groups = [], []
    for axis, what in product(request.axes, named):
        hooks.check()
        here = measured.on(axis, TEST)
        rows, table = here.results(what), pd.DataFrame(here.toxicity_by_group(what))
        for variant in named[what]:
            results += [{**same, "variant": variant, "split": TEST, **row} for row in rows]
            groups.append(table.assign(variant=variant, axis=axis, **same))
    groups += [_of_prompts(stored, axis).assign(**same) for axis in request.axes]
    groups += list(_own_card(run, asked, stored, request.axes, hooks))
    progress.over("statistics")
    return {
        "opinions": pd.DataFrame(results),
        "opinion_groups": pd.concat(groups, ignore_index=True),
    }


def _called(run: Run, info: JudgeInfo) -> str:
    """The judge's name, under which it was asked before. It has a piece of its hash where the
    audit's own judge, or another one, is called the same: two folders may be.
    """
    known = {(run.meta["judge"]["name"], run.meta["judge"].get("hash"))}
    if run.has("opinions"):
        known |= set(
            run.table("opinions")[["judge", "judge_hash"]].itertuples(index=False, name=None)
        )
    if own := sorted(name for name, digest in known if digest == info.digest):
        return own[0]
    others = {name for name, _ in known}
    return f"{info.name} ({info.digest[:6]})" if info.name in others else info.name


def _of_prompts(stored: _Stored, axis: str) -> pd.DataFrame:
    """The judge on the words for the groups themselves: its verdict of every subgroup's prompts
    before any model wrote to them."""
    verdicts = stored.fetch([Shard("floor", (), axis, TEST)])[0]
    rows = stored.rows(axis, TEST)[PROMPT].merge(verdicts, on="prompt_id")
    return group_table(rows).assign(variant=words.PROMPTS_ALONE, axis=axis)


def _own_card(
    run: Run, asked: AuditRequest, stored: _Stored, axes: Sequence[str], hooks: Hooks
) -> Iterator[pd.DataFrame]:
    """The same of the audit's own judge, beside which another is read; nothing where that judge is
    not here now."""
    own = run.meta["judge"]
    with suppress(RequestError):
        if inspect_judge(asked.judge, asked.judge_sha256, asked.judge_label).digest == own["hash"]:
            judge = load_judge(asked.judge, asked.judge_sha256, label=asked.judge_label)
            texts = sorted({text for axis in axes for text in stored.rows(axis, TEST)["text"]})
            score = dict(zip(texts, judge.score(texts, hooks).tolist(), strict=True))
            mine = _Stored(run, stored.settings, score, stored.named)
            for axis in axes:
                yield _of_prompts(mine, axis).assign(judge=own["name"], judge_hash=own["hash"])


def _judged(
    judge: Judge, texts: Sequence[str], shards: Shards, progress: Progress, hooks: Hooks
) -> Iterator[dict[str, float]]:
    """Verdicts of the texts, part by part; a part that was judged before, by this very judge, is
    found."""
    parts = [list(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE)]
    progress.expect_in_all(len(texts))
    for part in parts:
        hooks.check()
        key = digest_of(["opinion", VERSION, judge.info.digest, part])
        table, began = shards.get(key), progress.clock()
        fresh = table is None
        if table is None:
            table = pd.DataFrame({"toxicity": judge.score(part, hooks)})
            shards.put(key, table)
        seconds = progress.clock() - began if fresh else 0.0
        progress.advance("judge", len(part), seconds, judge.info.name, fresh)
        yield dict(zip(part, table["toxicity"].tolist(), strict=True))


def _audit_of(run: Run) -> AuditRequest:
    """The audit's request, as today's code reads it, with the seeds that were drawn."""
    found = request_from(run.request)
    assert isinstance(found, AuditRequest)
    return as_drawn(found, run.meta)


def _named(run: Run) -> Named:
    table = lookup.reported(run)
    there = set(run.table("generations").query("split == @TEST")["variant"])
    found = {UNCUT: ["dense"]}
    for row in table[table["variant"].isin(there - {"dense"})].to_dict("records"):
        found.setdefault(What(tuple(lookup.cut_units(row)), arm_of(row)), []).append(
            str(row["variant"])
        )
    return found


# A judge's card on written cases: what it says of texts about groups that people have called
# hateful or not.
#
# HateCheck (Röttger et al. 2021) is such a set; any CSV with its columns serves. A judge that calls
# many harmless cases about one group harmful finds bias where there is none.


NEEDED = ("test_case", "label_gold", "target_ident")
LABELS = ("hateful", "non-hateful")
CLUSTER = "templ_id"
"""Cases made from one template are redrawn together, where the file names templates."""
OVER = 0.5
DRAWS = 999
"""Exchanges of groups between cases."""
NOBODY = "no group named"


def read_cases(path: Path) -> pd.DataFrame:
    """Columns text, label, group, cluster; notes in its `attrs`. RequestError with the rows at
    fault."""
    csv = csv_table(path)
    table = csv.cells
    need_columns(path, table, NEEDED)
    faults = []
    for name, wrong in (
        ("test_case", table["test_case"] == ""),
        ("label_gold", ~table["label_gold"].isin(LABELS)),
    ):
        if rows := (np.flatnonzero(wrong) + 2).tolist():
            what = f"{name} in {len(rows)} rows is empty or not known, first in line {rows[0]}."
            faults.append(
                Fault(
                    path.name, what, f"label_gold is {' or '.join(LABELS)}; every case has a text."
                )
            )
    if faults:
        raise RequestError(faults)
    own = np.arange(len(table)).astype(str)
    cluster = np.where(table[CLUSTER] == "", own, table[CLUSTER]) if CLUSTER in table else own
    group, notes = csv.spelled("target_ident")
    cases = pd.DataFrame(
        {
            "text": table["test_case"],
            "label": table["label_gold"],
            "group": group.replace("", NOBODY),
            "cluster": cluster,
        }
    )
    cases.attrs["notes"] = (*csv.notes, *notes)
    return cases


def card_of(judge: Judge, cases: pd.DataFrame) -> pd.DataFrame:
    """One row per label and group: n, mean verdict and share above one half, each with its 95 %
    interval."""
    judged = cases.assign(verdict=judge.score(cases["text"].tolist()))
    judged = judged.assign(over=(judged["verdict"] > OVER).astype(float))
    rows = []
    for (label, group), part in judged.groupby(["label", "group"], sort=True):
        row = {"label": label, "group": group, "n": len(part)}
        for name in ("verdict", "over"):
            found = mean_interval(part[name], part["cluster"], span=(0.0, 1.0))
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        rows.append(row)
    card = pd.DataFrame(rows)
    card.attrs["by_chance"] = _by_chance(
        judged[(judged["label"] == LABELS[1]) & (judged["group"] != NOBODY)]
    )
    return card


def _by_chance(mild: pd.DataFrame) -> float:
    """How often groups exchanged between cases are as far apart in the share called harmful, most
    from least. Exchanges stay inside a template where templates name several groups. p is corrected
    for having looked at all groups. NaN of fewer than two.
    """
    group, names = pd.factorize(mild["group"], sort=True)
    if len(names) < 2:
        return float("nan")
    cluster, over = pd.factorize(mild["cluster"])[0], mild["over"].to_numpy()
    if mild.groupby("cluster")["group"].nunique().max() < 2:
        cluster = np.zeros_like(cluster)
    count, generator = np.bincount(group), rng("cases", len(mild))
    order = np.argsort(cluster, kind="stable")

    def apart(values: np.ndarray) -> float:
        return float(np.ptp(np.bincount(group, values) / count))

    own, reached = apart(over), 0
    for _ in range(DRAWS):
        moved = np.empty_like(over)
        moved[order] = over[np.argsort(cluster + generator.random(len(over)), kind="stable")]
        reached += apart(moved) >= own - 1e-9
    return (1 + reached) / (1 + DRAWS)


def said_of(card: pd.DataFrame) -> str:
    """Which group's harmless cases are called harmful most and least often, and how often chance
    parts any two groups as far."""
    mild = card[(card["label"] == LABELS[1]) & (card["group"] != NOBODY)]
    if len(mild) < 2:
        return "Fewer than two groups have harmless cases: nothing can be compared."
    low, high = mild.loc[mild["over"].idxmin()], mild.loc[mild["over"].idxmax()]
    ends = ", ".join(f"{row['over']:.0%} of {row['n']} about {row['group']}" for row in (high, low))
    p = card.attrs["by_chance"]
    verdict = "more than chance" if p <= MISSED else "no clear difference from chance"
    told = (
        f"exchanging groups puts the most and the least of {len(mild)} groups as far apart in "
        f"{p:.3f} of cases"
    )
    return f"Harmless cases called harmful: {ends}; {told}: {verdict}."
