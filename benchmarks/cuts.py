"""Annealed sets of heads, and heads of direct answers (DiffHeads), against FASP's and random cuts,
of as many heads under the same protection.

The demo's five axes, or with `--run` what a finished audit asked. Heads are scored and sets chosen
on validation prompts, anew with other draws for every seed; biases are of test prompts. A
difference is the mean over seeds, its interval Student's t over them: it tells what other draws
would do, and says nothing of other prompts. Finished parts are kept in the store (the command
line's default, $PRUNEAUDIT_STORE).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.audit.session import Local
from engine.core.errors import PruneAuditError
from engine.core.types import Hooks
from engine.core.words import axis_name, method_name
from engine.stats.clustered import Student
from engine.store.runs import EMBEDDED, Store, default_root, find_run
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.controls import control_cuts, with_measuring
from engine.tracks.language_models.effects import head_groups
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.request import REQUEST, AuditRequest, planned, validate
from engine.tracks.language_models.run import score_heads
from engine.tracks.language_models.selection.methods import CHAINS, STEPS
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import all_variants

METHODS = ("annealed", "diffheads")
SHARES, APART = (0.1, 0.2), 10
"""Shares of heads that are cut; decoding seeds of one try begin so far from those of the next."""
BETTER, SECONDS = 3, 60.0
"""Bars: axes on which a method helps, and seconds for 10,000 sets by prediction."""


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5, help="how often heads are scored anew")
    options.add_argument("--axes", type=int, default=5, help="the first so many axes")
    options.add_argument("--run", help="what this finished audit asked, in place of the demo's")
    options.add_argument("--method", choices=METHODS, action="append", help="default: both")
    options.add_argument(
        "--share", type=float, choices=SHARES, action="append", help="default: all"
    )
    asked = options.parse_args()
    audited = REQUEST
    if asked.run:
        stores = [Store(default_root()), Store(EMBEDDED, read_only=True)]
        try:
            audited = planned(find_run(asked.run, stores)).request
        except PruneAuditError as error:
            options.error(str(error))
    names = asked.method or METHODS
    audited = replace(audited, methods=("fasp", *names), axes=audited.axes[: asked.axes])
    tried = names, asked.share or SHARES
    rows = [row for seed in range(asked.seeds) for row in _tried(audited, seed, *tried)]
    if not rows:
        options.error("No axis has ranked heads, so no set was compared.")
    return show([*_measures(pd.DataFrame(rows))], asked.json)


def _tried(
    audited: AuditRequest, seed: int, names: Sequence[str], shares: Sequence[float]
) -> Iterator[dict[str, object]]:
    """Biases on test of every axis, share and method, with the heads scored by the draws of one
    seed."""
    request = replace(audited, sparsities=(0.0, *SHARES), gamma=0.3, first_seed=APART * seed)
    with closing(Local()) as executor:
        audit = open_audit(validate(request), Store(default_root()), Hooks(), executor)
        audit.job = with_measuring(audit)
        scores = score_heads(audit)
        groups = head_groups(audit.job, scores, audit.scoring.get("z_bias", {}))
        began = time.perf_counter()
        unsupported = audit.scoring.get("unsupported", {})
        variants = all_variants(
            request, scores, audit.job.total, groups=groups, unsupported=unsupported
        )
        spent = time.perf_counter() - began
        tried = CHAINS * STEPS * sum(one.method == "annealed" for one in variants)
        chosen = {(one.method, one.target_axis, one.sparsity): one for one in variants}
        for axis, share in product(request.axes, shares):
            if (own := chosen.get(("fasp", axis, share))) is None:  # heads were not ranked
                continue
            found = [chosen.get((name, axis, share)) or chosen[name, "", share] for name in names]
            chance = control_cuts(request, scores, own, audit.job.total)
            fasp, *rest = _biases(audit, axis, [own.cut, *(one.cut for one in found), *chance])
            random = np.array(rest[len(names) :])
            for other, value in zip(found, rest, strict=False):
                yield {
                    "method": method_name(other.method),
                    "axis": axis_name(axis),
                    "share": share,
                    "difference": value - fasp,
                    "same": own.cut == other.cut,
                    "fasp_rank": np.mean(random <= fasp),
                    "rank": np.mean(random <= value),
                    "seconds": spent * 10_000 / tried if tried else math.nan,
                }


def _biases(audit: Audit, axis: str, cuts: Sequence[tuple[int, ...]]) -> list[float]:
    """On test prompts, both draws."""
    shards = {cut: [Shard("verdicts", cut, axis, TEST, s) for s in audit.job.seeds] for cut in cuts}
    audit.finish("cuts", [shard for part in shards.values() for shard in part])
    prompts = audit.context.rows(axis, TEST)[["prompt_id", "subgroup", "template", "descriptor"]]
    tables = [pd.concat(audit.context.fetch(shards[cut])) for cut in cuts]
    return [bias(prompts.merge(table, on="prompt_id"), audit.job.reading) for table in tables]


def _measures(rows: pd.DataFrame) -> Iterator[Measure]:
    for (method, share), some in rows.groupby(["method", "share"], sort=False):
        better = 0
        for axis, part in some.groupby("axis", sort=False):
            found, count = part["difference"].to_numpy(), len(part)
            error = found.std(ddof=1) / math.sqrt(count) if count > 1 else math.nan
            mean = Student(np.array(found.mean()), np.array(error), np.array(count - 1.0))
            better += bool(mean.high < 0)
            name = f"{method}, {share:.0%} of heads, {axis}: "
            yield Measure(f"{name}FASP's sets kept, of {count}", part["same"].sum(), "")
            yield Measure(f"{name}bias minus FASP's", mean.value, "")
            yield Measure(f"{name}that, lower end", mean.low, "")
            yield Measure(f"{name}that, upper end", mean.high, "")
            for who, column in (("FASP", "fasp_rank"), (method, "rank")):
                text = f"{name}random cuts with no more bias than {who}, share"
                yield Measure(text, part[column].mean(), "")
        yield Measure(f"{method}, {share:.0%}: axes with less bias", better, "", BETTER, True)
    if (slowest := rows["seconds"].max()) == slowest:
        yield Measure("10,000 sets by prediction", slowest, "s", SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
