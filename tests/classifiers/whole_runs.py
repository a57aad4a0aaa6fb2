"""What every whole audit of a classifier promises, whatever it classifies. A module of tests with
fixtures `run` and `events` says in a subclass of `WholeRun` what is its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.tracks import request_from, track_of_run
from engine.audit.verification import verify_run
from engine.core.files import sha256_of
from engine.report.summary import summary_of, summary_text
from engine.store.runs import Run
from tests.audit.run_checks import assert_tables
from tests.builders import seal

META = "track created title request model data provenance warnings spent"  # of run.json
COLUMNS = {
    "results": (
        "variant split axis metric value low high n null_mean null_low null_high null_p delta"
        " delta_low delta_high delta_p group verdict"
    ),
    "groups": (
        "variant split axis metric group value low high n n_positive delta delta_low delta_high"
        " verdict"
    ),
    "thumbs": "image_id png",
    "layers": "variant layer group filters kept",
    "costs": (
        "variant flops parameters bytes latency_ms latency_low latency_high dense_latency_ms"
        " speedup speedup_low speedup_high theoretical n max_logit_difference agrees"
    ),
    "weights": "variant name shape dtype data",
}
"""Of tables that all audits of image classifiers write."""


class WholeRun:
    """columns: of every table. phases: that progress names. follow: how many numbers are computed
    again from stored answers. warned, told: parts of the warnings and of the summary."""

    columns: Mapping[str, str]
    phases: set[str]
    follow: int
    warned: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    def test_all_tables_have_the_columns_of_the_contract(self, run):
        assert_tables(run, self.columns)
        assert set(META.split()) <= set(run.meta)

    def test_the_request_of_run_json_is_the_same_run(self, run):
        """Defaults were spelled out."""
        track = track_of_run(run)
        assert track.part("validate")(request_from(run.meta["request"])).run_id == run.id
        assert run.meta["track"] == track.name == self.__module__.split(".")[-2]

    def test_the_summary_is_json_and_names_every_reported_variant(self, run):
        value = summary_of(run)
        assert json.dumps(value, allow_nan=False)
        reported = set(run.table("variants").query("chosen")["variant"])
        assert {row["variant"] for row in value["results"]} == reported
        said = summary_text(run)
        assert not [part for part in self.told if part not in said]

    def test_warnings_say_what_a_reader_must_know(self, run):
        said = "\n".join(run.meta["warnings"])
        assert not [part for part in self.warned if part not in said]

    def test_progress_reaches_its_end(self, run, events):
        assert events[-1].done == events[-1].total > 0
        done = [event.done for event in events]
        assert done == sorted(done) and self.phases <= {event.phase for event in events}

    def test_a_sound_run_verifies(self, run):
        found = verify_run(run)
        assert found["ok"], [check["what"] for check in found["checks"] if not check["ok"]]
        again = [one for one in found["checks"] if "follow from the stored answers" in one["what"]]
        assert len(again) == self.follow

    def test_answers_and_numbers_that_were_changed_do_not_verify(self, copy):
        """Of a trial, and of the mean over trials; also where a number is gone."""
        answers, results = (copy.table(name) for name in ("predictions", "results"))
        name, row = next(models_of(copy).query("method != 'dense'").iterrows())
        rows = answers.index[answers["variant"] == name][::2]
        turned = answers.assign(p_1=answers["p_1"].where(~answers.index.isin(rows), 0.9))
        rewritten(copy, "predictions", turned)
        assert not verify_run(Run(copy.path))["ok"]
        rewritten(copy, "predictions", answers)
        for variant, value in ((name, 0.5), (name, float("nan")), (row["pooled"], 0.5)):
            where = {"variant": variant, "metric": "auc", "axis": ""}
            changed_values(copy, "results", where, value=value)
            assert not verify_run(Run(copy.path))["ok"]
            rewritten(copy, "results", results)
        assert verify_run(Run(copy.path))["ok"], "nothing else was changed"

    def test_variants_and_rows_of_results_are_there_once(self, run):
        assert not run.table("variants")["variant"].duplicated().any()
        results = run.table("results")
        assert not results.duplicated(["variant", "split", "axis", "metric"]).any()
        assert set(results["split"]) == {"test"}
        for name in ("results", "groups"):
            assert set(run.table(name)["variant"]) == set(run.table("variants")["variant"]), name


def models_of(run: Run) -> pd.DataFrame:
    """Rows of the variants table that are one model each, by variant."""
    variants = run.table("variants")
    return variants[variants["seed"] >= 0].set_index("variant")


def changed_values(run: Run, name: str, where: Mapping[str, Any], **values: Any) -> None:
    """Other values in the one row of a table that these columns tell, by somebody who also adjusts
    the hash."""
    table = run.table(name)
    rows = np.logical_and.reduce([table[key] == wanted for key, wanted in where.items()])
    assert rows.sum() == 1
    for column, value in values.items():
        table.loc[rows, column] = value
    rewritten(run, name, table)


def rewritten(run: Run, name: str, table: pd.DataFrame) -> None:
    """Somebody who also adjusts the hash in run.json."""
    path = run.path / f"{name}.parquet"
    table.to_parquet(path, compression="zstd", index=False)
    tables = {**run.meta["tables"], name: {"rows": len(table), "sha256": sha256_of(path)}}
    seal(run.path, {**run.meta, "tables": tables})


def same_tables(one: Run, other: Run) -> None:
    """But for what a clock says."""
    assert set(one.meta["tables"]) == set(other.meta["tables"])
    for name in one.meta["tables"]:
        first, second = one.table(name), other.table(name)
        timed = [
            column
            for column in first
            if "seconds" in column
            or (name == "costs" and ("latency" in column or column.startswith("speedup")))
        ]
        pd.testing.assert_frame_equal(
            first.drop(columns=timed), second.drop(columns=timed), obj=name
        )
