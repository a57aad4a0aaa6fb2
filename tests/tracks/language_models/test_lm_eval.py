"""Tasks of lm-eval in an audit, where the package is installed: its numbers, the mask acting,
paired like others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from engine.audit.verification import verify_run
from engine.core.errors import PruneAuditError
from engine.core.types import HeadMask
from engine.data.benchmarks.base import load_benchmark
from engine.data.benchmarks.lm_eval_tasks import is_installed
from engine.models.load_language_model import load_language_model
from engine.report.charts.panel import Choice
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.measurements.benchmarks import _built, task_scores
from engine.tracks.language_models.panels.benchmarks import benchmark_panel, changed
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from tests.tasks_of_lm_eval import write_task
from tests.tracks.language_models.worlds import growth, world_request

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="lm-eval is optional: requirements-lm-eval.txt"
)


def by_hand(lm, rows):
    """1 where the right answer is the likeliest of an item's, by log p of what follows the
    question, else 0."""
    found = []
    for row in rows:
        logp = []
        for answer in row["choices"]:
            before, whole = (
                lm.tokenizer(text)["input_ids"]
                for text in (row["question"], f"{row['question']} {answer}")
            )
            with torch.no_grad():
                said = lm.model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
            logp.append(
                sum(float(said[at - 1, whole[at]]) for at in range(len(before), len(whole)))
            )
        found.append(float(max(range(len(logp)), key=logp.__getitem__) == row["gold"]))
    return found


def test_the_package_counts_as_by_hand_and_the_mask_acts(audited, tmp_path):
    lm = load_language_model(audited.folder / "model")
    benchmark = load_benchmark("lm_eval", write_task(tmp_path, n=40))
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    mask, found = HeadMask.from_units(lm.n_layers, lm.n_heads, tuple(range(lm.n_heads))), []
    for one in (HeadMask(lm.n_layers, lm.n_heads), mask):
        with masked(lm, one):
            mine = task_scores(lm, benchmark)["logp"][benchmark.choices["role"] == "right"].tolist()
            assert mine == by_hand(lm, rows)
            found.append(mine)
    assert found[0] != found[1]
    write_task(tmp_path, n=39)
    _built.cache_clear()
    with pytest.raises(PruneAuditError, match="not those"):
        task_scores(lm, benchmark)


def test_an_audit_measures_tasks_beside_the_texts_and_a_finished_one_grows_by_them(
    audited, tmp_path, words_judged
):
    place = str(write_task(tmp_path, n=40))
    request, store = (
        replace(world_request(audited.folder), benchmarks={"lm_eval": place}),
        audited.copied(tmp_path / "s"),
    )
    plain = validate(world_request(audited.folder)).versions
    assert set(validate(request).versions) - set(plain) == {"measurement task_scores"}
    run = run_audit(request, store)
    assert run.id != audited.run.id and verify_run(run)["ok"]
    table = run.table("benchmarks")
    assert set(table["variant"]) == set(run.table("variants").query("chosen")["variant"])
    dense = table.query("variant == 'dense' and group == '' and metric == 'right'").iloc[0]
    assert (
        0 < dense["value"] < 1
        and dense["low"] < dense["value"] < dense["high"]
        and dense["n"] == 40
    )
    other = table.query("variant != 'dense' and group == '' and metric == 'right'")
    assert other[["delta", "delta_low", "delta_high", "delta_p"]].notna().all().all()
    choice = Choice(method="fasp", axis="religion", level=0.3)
    panel = benchmark_panel(run, choice, "lm_eval")
    assert "Share answered right" in panel.answer and "stereotype" not in panel.said
    assert "nats" not in changed(run, choice, "lm_eval").table.to_csv()
    more = grow(growth(audited.run, benchmarks=(f"lm_eval={place}",)), store)
    grown = more.table("benchmarks").sort_values(["variant", "metric", "group"], ignore_index=True)
    assert grown.equals(
        table.sort_values(["variant", "metric", "group"], ignore_index=True)[list(grown)]
    )
