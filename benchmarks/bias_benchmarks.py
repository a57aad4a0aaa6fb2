"""CrowS-Pairs, Winogender and BBQ Religion on a real tiny model before and after cuts of heads,
prompts from BOLD.

stories260k and the files lie in ../shared/data. Nothing is claimed: the model knows children's
stories and no answers, so that this shows what the numbers look like where there is little to find,
and how small a change could be found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.core.files import ASSETS
from engine.stats.student import MISSED
from engine.store.runs import Store
from engine.tracks.language_models.benchmarks.base import scored_benchmarks
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.run import run_audit

DATA = ASSETS.parent.parent / "shared" / "data"
FILES = {
    "crows_pairs": "crows_pairs/crows_pairs_anonymized.csv",
    "winogender": "winogender",
    "bbq": "bbq/Religion.jsonl",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument(
        "--store", type=Path, help="where finished parts are kept and found (default: nowhere)"
    )
    options.add_argument("--data", type=Path, default=DATA, help="the folder of reference data")
    asked = options.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        run = run_audit(request(asked.data), Store(asked.store or folder))
        table = run.table("benchmarks")
    return show([measure for part in rows(table) for measure in part], asked.json)


def request(data: Path) -> AuditRequest:
    """A small audit: first-order scores, one text per prompt, FASP and its control at two
    sparsities."""
    return AuditRequest(
        model=str(data / "stories260k"),
        prompts=str(data / "bias_benchmarks" / "bold"),
        axes=("religious_ideology",),
        corpus=str(data / "tinystories" / "tinystories.txt"),
        max_prompts=140,
        seeds=1,
        max_new_tokens=20,
        max_corpus_tokens=6000,
        methods=("fasp", "random_noncritical"),
        sparsities=(0.0, 0.1, 0.3),
        controls=0,
        estimator="gradient",
        device="cpu",
        benchmarks={name: str(data / "bias_benchmarks" / file) for name, file in FILES.items()},
    )


def rows(table: pd.DataFrame) -> Iterator[list[Measure]]:
    """Per benchmark its published numbers uncut with intervals, then what cuts did to the first of
    them."""
    for name in FILES:
        one = scored_benchmarks()[name]
        mine = table[(table["benchmark"] == name) & (table["group"] == "")]
        dense = mine[mine["variant"] == "dense"].set_index("metric")
        yield [
            Measure(
                f"{one.title}, uncut, {metric.title}{end}",
                float(dense.loc[metric.name, column]),
                "",
            )
            for metric in one.metrics[1:]
            for end, column in (("", "value"), (", low", "low"), (", high", "high"))
        ]
        first = dense.loc[one.main.name]
        yield [
            Measure(
                f"{one.title}, uncut, {one.main.title}, chance {end}",
                float(first[f"null_{end}"]),
                "",
            )
            for end in ("low", "high")
        ]
        yield [
            Measure(f"{one.title}, {said}", value, unit)
            for said, value, unit in _cuts(mine, one.main.name)
        ]
        groups = table[
            (table["benchmark"] == name)
            & (table["group"] != "")
            & (table["metric"] == one.main.name)
        ]
        told = int((groups["delta_q"] < MISSED).sum())
        yield [
            Measure(
                f"{one.title}, groups that moved, of {int(groups['delta_q'].count())} tests",
                told,
                "",
            )
        ]


def _cuts(table: pd.DataFrame, metric: str) -> Iterator[tuple[str, float, str]]:
    """What cuts did to one metric: how many moved it, by how much at most, what could have been
    found."""
    cut = table[(table["metric"] == metric) & (table["variant"] != "dense")]
    told, most = cut[cut["delta_q"] < MISSED], cut.loc[cut["delta"].abs().idxmax()]
    yield f"variants that moved it, of {len(cut)}", len(told), "variants"
    yield f"largest change ({most['variant']})", float(most["delta"]), ""
    yield "its low end", float(most["delta_low"]), ""
    yield "its high end", float(most["delta_high"]), ""
    yield "its q", float(most["delta_q"]), ""
    yield "detectable change, median over variants", float(cut["detectable"].median()), ""


if __name__ == "__main__":
    raise SystemExit(main())
