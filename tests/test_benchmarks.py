"""Benchmarks run and report every row; small, slow copies of the real ones."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.report import Measure, show
from tests.places import ROOT


@pytest.mark.slow
def test_head_scores_prints_every_row_and_the_exact_ones_hold():
    found = rows_of("benchmarks.head_scores", "--only", "demo", "--prompts", "144", "--truth", "5")
    rows = {name.removeprefix("demo-gpt2: "): row for name, row in found.items()}
    for name in ("reweight", "gradient"):
        assert rows[f"{name} against truth, Pearson over heads, mean of 4 seeds"]["value"] > 0.9
        assert rows[f"time of generate over {name}"]["value"] > 1
    generate = rows["generate, ICC(C,1) over heads with small effects, 4 seeds"]["value"]
    assert rows["gradient, ICC(C,1) over heads with small effects, 4 seeds"]["value"] > generate
    assert rows["exact perplexity, prefix reuse against plain, largest relative difference"][
        "holds"
    ]
    assert sum(row["bar"] is not None for row in rows.values()) == 11


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "count", "barred"),
    [
        ("fair_training --quick", 4, 2),
        ("filter_pruning --quick", 7, 2),
        ("calibration --quick --only classifiers", 82, 70),
        ("calibration --quick --only text_classifiers", 30, 0),
    ],
)
def test_every_row_of_a_small_run_is_printed(words, count, barred):
    rows = rows_of(*f"benchmarks.{words}".split())
    assert (len(rows), sum(row["bar"] is not None for row in rows.values())) == (count, barred)
    assert all(math.isfinite(row["value"]) for row in rows.values())


def rows_of(module, *words):
    """What a benchmark prints as JSON, by name; the test is skipped where its track was taken
    out."""
    pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-m", module, *words, "--json"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr[
        -2000:
    ]  # 1: a bar was missed, which this size may do
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_every_option_is_among_the_bad_inputs(tmp_path):
    """Wrong, without a value, shortened or twice, by one of the commands of the table that have
    it; --json and --store are in every row."""
    inputs = pytest.importorskip("benchmarks.hardening.inputs")
    rows = [row.words for row in inputs.rows(tmp_path) if row.words]
    tried = {word for words in rows for word in words[1:]}
    assert len(rows) > 500 and len(tried) > 500
    for name in {words[0] for words in rows} & {*inputs.commands()}:
        for action in inputs.commands()[name]._actions:
            options = [one for one in action.option_strings if one.startswith("--")]
            if options and action.nargs != 0 and options[-1] != "--store":
                assert tried & {options[-1], options[-1][:-1], f"{options[-1]}x"}, (name, options)


@pytest.mark.slow
def test_hardening_refuses_every_bad_input_and_the_gate_lets_nobody_in():
    rows = rows_of("benchmarks.hardening", "--only", "inputs", "gate")
    assert len(rows) == 4 and all(row["holds"] for row in rows.values())


def test_every_refused_architecture_says_why():
    refused = pytest.importorskip("benchmarks.families.refused")
    found = list(refused.measures())
    assert len(found) == len(refused.REFUSED) and all(row.holds for row in found), [
        row.name for row in found
    ]


def test_a_family_shows_its_surgery_and_its_score_three_ways():
    from benchmarks.families import decoders

    every = {"qwen3": decoders.DECODERS["qwen3"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoders, "TINY", every)
        patch.setattr(decoders, "DECODERS", {})
        rows = list(decoders.measures())
    assert len(rows) == 11 and [row.name for row in rows if row.holds is False] == [
        "families of decoders accepted"
    ]


@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
@pytest.mark.parametrize(
    ("bar", "met"),
    [({"bar": 2.0}, True), ({"bar": 1.0}, False), ({"bar": 2.0, "floor": 1.6}, False)]
    + [({"bar": 1.5, "at_least": True}, True), ({"bar": 2.0, "at_least": True}, False)],
)
def test_a_row_says_whether_it_holds_whatever_its_number_is_made_of(kind, bar, met, capsys):
    """A row of numpy's failed after half an hour, when it was to be printed as JSON; and no code of
    exit told that one does not hold."""
    row = Measure("row", kind(1.5), "x", **bar)
    assert show([row], as_json=True) == int(not met)
    assert json.loads(capsys.readouterr().out)[0]["holds"] is met
    assert show([row], as_json=False) == int(not met)
