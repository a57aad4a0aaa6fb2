"""Annealed sets of heads against FASP's and against random cuts, of as many heads under the same
protection.

The demo's five axes. Heads are scored and sets chosen on validation prompts, anew with other draws
for every seed; biases are of test prompts. A difference is the mean over seeds, its interval
Student's t over them: it tells what other draws would do, and says nothing of other prompts.
Finished parts are kept in the store (the command line's default, $PRUNEAUDIT_STORE). With `--run`,
how many of a finished audit's FASP sets annealing keeps: then there is nothing to measure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.audit.session import Local
from engine.core.types import Hooks
from engine.core.words import axis_name
from engine.stats.clustered import Student
from engine.store.runs import EMBEDDED, Store, default_root, find_run
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.controls import control_cuts, with_measuring
from engine.tracks.language_models.effects import head_groups
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.request import REQUEST, AuditRequest, validate
from engine.tracks.language_models.run import score_heads
from engine.tracks.language_models.selection import annealed
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import all_variants

SHARES, APART = (0.1, 0.2), 10
"""Shares of heads that are cut; decoding seeds of one try begin so far from those of the next."""
BETTER, SECONDS = 3, 60.0
"""Bars: axes on which annealing helps, and seconds for 10,000 sets by prediction."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5, help="how often heads are scored anew")
    options.add_argument("--axes", type=int, default=5, help="the first so many axes of the demo")
    options.add_argument("--run", help="sets of this finished audit, by its scores")
    asked = options.parse_args(arguments)
    if asked.run:
        return show([*_kept(asked.run)], asked.json)
    axes = REQUEST.axes[: asked.axes]
    rows = pd.DataFrame([row for seed in range(asked.seeds) for row in _tried(axes, seed)])
    return show([*_measures(rows)], asked.json)


def _kept(name: str) -> Iterator[Measure]:
    """For every axis of a run, at its levels."""
    run = find_run(name, [Store(default_root()), Store(EMBEDDED, read_only=True)])
    request = AuditRequest.from_dict(run.request)
    request = replace(request, methods=("fasp", "annealed"))
    scores, groups = run.table("scores"), run.table("head_groups")
    variants = all_variants(request, scores, run.n_units, groups=groups)
    cuts = {(one.method, one.target_axis, one.sparsity): one.cut for one in variants}
    for axis in request.axes:
        own = {at: cut for (method, of, at), cut in cuts.items() if (method, of) == ("fasp", axis)}
        same = sum(cuts["annealed", axis, at] == cut for at, cut in own.items())
        yield Measure(f"{axis_name(axis)}: FASP's sets kept, of {len(own)}", same, "")


def _tried(axes: Sequence[str], seed: int) -> Iterator[dict[str, object]]:
    """Biases on test of every axis and share, with the heads scored by the draws of one seed."""
    shares, methods = (0.0, *SHARES), ("fasp", "annealed")
    request = replace(REQUEST, methods=methods, sparsities=shares, gamma=0.3, axes=tuple(axes))
    request = replace(request, first_seed=APART * seed)
    with closing(Local()) as executor:
        audit = open_audit(validate(request), Store(default_root()), Hooks(), executor)
        audit.job = with_measuring(audit)
        scores = score_heads(audit)
        groups = head_groups(audit.job, scores, audit.scoring["z_bias"])
        began = time.perf_counter()
        variants = all_variants(request, scores, audit.job.total, groups=groups)
        spent = (time.perf_counter() - began) / sum(one.method == "annealed" for one in variants)
        chosen = {(one.method, one.target_axis, one.sparsity): one for one in variants}
        for axis in axes:
            for share in SHARES:
                if ("fasp", axis, share) not in chosen:  # heads were not ranked
                    continue
                own, other = (chosen[method, axis, share] for method in ("fasp", "annealed"))
                chance = control_cuts(request, scores, own, audit.job.total)
                cuts = [own.cut, other.cut, *chance]
                dense, fasp, found, *random = _biases(audit, axis, [(), *cuts])
                yield {
                    "axis": axis_name(axis),
                    "share": share,
                    "dense": dense,
                    "difference": found - fasp,
                    "same": own.cut == other.cut,
                    "fasp_rank": np.mean(np.array(random) <= fasp),
                    "rank": np.mean(np.array(random) <= found),
                    "seconds": spent * 10_000 / (annealed.CHAINS * annealed.STEPS),
                }


def _biases(audit: Audit, axis: str, cuts: Sequence[tuple[int, ...]]) -> list[float]:
    """On test prompts, both draws."""
    shards = {cut: [Shard("verdicts", cut, axis, TEST, s) for s in audit.job.seeds] for cut in cuts}
    audit.finish("cuts", [shard for part in shards.values() for shard in part])
    prompts = audit.context.rows(axis, TEST)[["prompt_id", "subgroup", "template", "descriptor"]]
    tables = [pd.concat(audit.context.fetch(shards[cut])) for cut in cuts]
    return [bias(prompts.merge(table, on="prompt_id"), audit.job.reading) for table in tables]


def _measures(rows: pd.DataFrame) -> Iterator[Measure]:
    for share, some in rows.groupby("share"):
        better = 0
        for axis, part in some.groupby("axis", sort=False):
            found, count = part["difference"].to_numpy(), len(part)
            error = found.std(ddof=1) / math.sqrt(count) if count > 1 else math.nan
            mean = Student(np.array(found.mean()), np.array(error), np.array(count - 1.0))
            better += bool(mean.high < 0)
            name = f"{share:.0%} of heads, {axis}: "
            yield Measure(f"{name}FASP's sets kept, of {count}", int(part["same"].sum()), "")
            yield Measure(f"{name}bias of annealed sets minus FASP's", float(mean.value), "")
            yield Measure(f"{name}that, lower end", float(mean.low), "")
            yield Measure(f"{name}that, upper end", float(mean.high), "")
            for who, column in (("FASP", "fasp_rank"), ("annealed sets", "rank")):
                text = f"{name}random cuts with no more bias than {who}, share"
                yield Measure(text, float(part[column].mean()), "")
        yield Measure(f"{share:.0%} of heads: axes with less bias", better, "", BETTER, True)
    yield Measure("10,000 sets by prediction", float(rows["seconds"].max()), "s", SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
