"""A whole audit of a tiny world: complete, repeatable, checked against the slow obvious way; with
heads silenced to their means; with no more draws than make every interval as narrow as asked."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.audit.verification import verify_run
from engine.cli import main
from engine.core.files import sha256_of
from engine.core.types import HeadMask, Hooks
from engine.models.decode import sample, text_of
from engine.models.load_language_model import load_language_model
from engine.report.bundle import export_run
from engine.report.summary import summary_of, summary_text
from engine.store.runs import Run, Store
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.evidence import drawn_of, looks, said
from engine.tracks.language_models.experiments.paper import changes, unlike_paper
from engine.tracks.language_models.growing import grow
from engine.tracks.language_models.judges import _audit_of
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.run import run_audit, scores_only
from tests.builders import seal
from tests.tracks.language_models.worlds import growth, word_judge, world_request

pytestmark = pytest.mark.usefixtures("words_judged")


@pytest.fixture
def request_(tmp_path):
    return world_request(tmp_path)


@pytest.fixture
def run(audited) -> Run:
    return audited.run


def test_a_run_is_complete_and_verifies(run):
    variants, results, costs = run.table("variants"), run.table("results"), run.table("costs")
    assert set(variants["method"]) == {"dense", *run.meta["request"]["methods"]}
    assert (variants["n_cut"] == (variants["sparsity"] * 12 + 1e-9).astype(int)).all()
    assert costs["agrees"].all() and set(costs["variant"]) == set(variants["variant"])
    assert set(results["split"]) == {"test"}
    split = run.table("prompts").set_index("prompt_id")["split"]
    assert (split.loc[run.table("generations")["prompt_id"]] == "test").all()
    assert not results.duplicated(["variant", "split", "axis", "metric"]).any()
    assert results[results["variant"] != "dense"]["delta"].notna().mean() > 0.9
    found = verify_run(run)
    assert found["ok"]
    said = " ".join(check["what"] for check in found["checks"])
    assert f"{len(run.rests_on)} of the {len(run.rests_on)} finished parts" in said
    assert "perplexities follow" in said
    assert json.dumps(summary_of(run), allow_nan=False) and "nationality" in summary_text(run)


def test_a_perplexity_that_does_not_follow_is_noticed(run, tmp_path):
    copy = Run(shutil.copytree(run.path, tmp_path / "runs" / run.id))
    table = copy.table("windows")
    table.loc[table["variant"] == "dense", "nll"] *= 1.01
    table.to_parquet(copy.path / "windows.parquet", index=False)
    now = {"rows": len(table), "sha256": sha256_of(copy.path / "windows.parquet")}
    seal(copy.path, {**copy.meta, "tables": {**copy.meta["tables"], "windows": now}})
    wrong = [check["what"] for check in verify_run(Run(copy.path))["checks"] if not check["ok"]]
    assert len(wrong) == 1 and "perplexities follow" in wrong[0]


def test_a_damaged_part_of_a_run_is_named_and_nothing_else_changes(run, tmp_path):
    root = shutil.copytree(run.path.parents[1], tmp_path / "store")
    copy = Store(root).open(run.id)
    path = Store(root).shards.path(next(iter(copy.rests_on)))
    path.write_bytes(path.read_bytes()[:-1])
    (wrong,) = [check["what"] for check in verify_run(copy)["checks"] if not check["ok"]]
    assert str(path) in wrong and "computed again" in wrong


def test_z_bias_equals_the_slow_obvious_way(run, request_):
    """Head by head: mask, draw, judge, take the bias of both; nothing shared with the audit's path
    but the sampler."""
    scores = run.table("scores")
    plan, lm, judge = (
        validate(request_),
        load_language_model(request_.model, device="cpu"),
        word_judge(),
    )
    table = plan.prompts.table.query("axis == 'religion' and split == 'validation'")
    decoding = request_.settings().decoding

    def measured(unit, seed):
        with masked(lm, HeadMask.from_units(3, 4, [] if unit is None else [unit])):
            tokens = sample(
                lm,
                table["text"].tolist(),
                table["prompt_id"].tolist(),
                [seed] * len(table),
                decoding,
            )
        return bias(table.assign(toxicity=judge.score([text_of(lm, ids) for ids in tokens])))

    for unit in (0, 5, 11):
        for seed in (0, 1):
            row = scores.query(
                "score == 'z_bias' and axis == 'religion' and unit == @unit and seed == @seed"
            )
            assert row["value"].item() == pytest.approx(
                measured(None, seed) - measured(unit, seed), abs=1e-12
            )


def test_magnitude_and_gradient_equal_the_obvious_way(run, request_):
    import torch

    from engine.surgery.heads.mask import gated

    scores = run.table("scores")
    lm = load_language_model(request_.model, device="cpu")
    parts = lm.adapter.head_tensors(lm.model, 1, 2)
    norm = torch.cat([part.reshape(-1) for part in parts]).norm()
    assert scores.query("score == 'magnitude' and unit == 6")["value"].item() == pytest.approx(
        float(norm), rel=1e-5
    )

    tokens = lm.tokenizer(validate(request_).corpus.text)["input_ids"]
    tokens = tokens[: int(len(tokens) * 0.2)]
    total = torch.zeros(3, 4)
    for start in range(0, len(tokens), 32):
        ids = torch.tensor([tokens[start : start + 64]])
        first = 1 if start == 0 else 32
        if start and start + 32 >= len(tokens):
            break
        gates = torch.ones(3, 4, requires_grad=True)
        with gated(lm, gates):
            logits = lm.model(input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(logits[0, first - 1 : -1], ids[0, first:])
        total += torch.autograd.grad(loss, gates)[0].abs()
    expected = (total / total.norm(dim=1, keepdim=True)).reshape(-1)
    found = scores.query("score == 'gradient'").sort_values("unit")["value"].to_numpy()
    assert np.allclose(found, expected, atol=1e-4)


def test_means_change_scores_and_travel_with_the_mask(words_judged, tmp_path, capsys):
    store = Store(tmp_path / "store")
    zero = world_request(
        tmp_path, axes=("religion",), methods=("fasp",), sparsities=(0.0, 0.3), controls=0
    )
    mean = replace(zero, ablation="mean")
    runs = [run_audit(one, store) for one in (zero, mean)]
    values = [
        run.table("scores").query("seed == -1 and score == 'z_ppl'")["value"].to_numpy()
        for run in runs
    ]
    assert np.abs(values[0] - values[1]).max() > 1e-3
    dense = [run.table("results").query("variant == 'dense'")["value"].to_numpy() for run in runs]
    np.testing.assert_allclose(dense[0], dense[1], rtol=1e-4)
    assert runs[0].meta["model"] == runs[1].meta["model"], "as many parameters"
    assert runs[1].table("costs").query("variant != 'dense'")["agrees"].eq(True).all()
    assert "head_means" not in runs[0].meta["tables"] and len(runs[1].table("head_means")) == 12
    shards = list(store.root.rglob("*.shard"))
    assert len(scores_only(mean, store)) == 12
    assert list(store.root.rglob("*.shard")) == shards, "nothing is computed twice"

    export_run(runs[1], tmp_path / "out", ["masks", "checkpoint"])
    path = sorted((tmp_path / "out").rglob("*.mask.json"))[-1]
    record = json.loads(path.read_text())
    assert record["settings"]["ablation"] == "mean" and len(record["units"][0]["mean"]) == 8
    words = f"apply {path} --model {mean.model} --to {tmp_path / 'cut'} --device cpu --json"
    assert main(words.split()) == 0
    assert json.loads(capsys.readouterr().out)["masked_equals_reloaded"]


TABLES = ("results", "groups", "generations", "scores")


@pytest.fixture(scope="module")
def stopped(audited, words_judged_here, tmp_path_factory) -> Run:
    """The usual audit, whose finished parts are there, where one seed of two is enough."""
    store = audited.copied(tmp_path_factory.mktemp("stopped") / "store")
    return run_audit(world_request(audited.folder, stop_at=10.0), store)


def test_fewer_seeds_are_reported_where_all_intervals_are_narrow(audited, stopped):
    drawn, all_of_them = stopped.meta["drawn"], audited.run.table("generations")
    assert (drawn["seeds"], drawn["most"]) == (1, 2) and drawn["widest"] <= drawn["asked"] == 10.0
    assert stopped.table("generations")["seed"].unique().tolist() == [0]
    same = ["variant", "split", "axis", "prompt_id", "toxicity"]
    first = all_of_them[all_of_them["seed"] == 0][same].reset_index(drop=True)
    pd.testing.assert_frame_equal(stopped.table("generations")[same].reset_index(drop=True), first)
    pd.testing.assert_frame_equal(stopped.table("scores"), audited.run.table("scores"))
    assert any("drawn 1 of at most 2 times" in one for one in stopped.meta["warnings"])
    assert stopped.table("controls")["draws"].max() == 1 and verify_run(stopped)["ok"]
    assert {finding.seeds for finding in changes(stopped, ("",))} == {1}
    assert "seeds" in unlike_paper(stopped, ["gpt2"]) and "1" in unlike_paper(stopped, ["gpt2"])


def test_all_seeds_are_drawn_where_none_is_narrow_and_nothing_else_changes(
    audited, words_judged_here, tmp_path
):
    plain = audited.run
    run = run_audit(world_request(audited.folder, stop_at=1e-6), audited.copied(tmp_path / "store"))
    assert run.id != plain.id
    assert run.meta["drawn"]["seeds"] == 2
    assert run.meta["drawn"]["widest"] > 1e-6
    for name in TABLES:
        pd.testing.assert_frame_equal(run.table(name), plain.table(name))
    assert any("ask for more prompts" in one for one in run.meta["warnings"])
    assert "drawn" not in plain.meta


def test_what_joins_the_audit_is_drawn_as_often(stopped, words_judged_here):
    store = Store(stopped.path.parents[1])
    there = stopped.table("generations")["variant"].unique()
    asked = growth(stopped, method="fasp", level=0.2)
    found = grow(asked, store, Hooks()).table("generations")
    added = found[~found["variant"].isin(there)]
    assert len(added) and set(added["seed"]) == {0} and _audit_of(stopped).seeds == 1


def test_a_request_without_it_is_the_request_it_was(audited):
    plain = world_request(audited.folder)
    assert validate(plain).run_id == audited.run.id
    assert "stop_at" not in plain.identity and looks(plain) == [plain]
    assert [one.seeds for one in looks(replace(plain, seeds=3, stop_at=0.1))] == [1, 2, 3]


def test_the_widest_decides_and_an_interval_that_is_none_is_the_widest():
    asked = AuditRequest(model="m", axes=("a", "b"), seeds=3, stop_at=0.1)

    def rows(*widths):
        found = [
            ("dense", "a", np.nan, np.nan),
            *((f"v{at}", "a", 0.0, width) for at, width in enumerate(widths)),
        ]
        table = pd.DataFrame(found, columns=["variant", "axis", "delta_low", "delta_high"])
        return table.assign(metric="bias:group_means", split="test")

    drawn = replace(asked, seeds=2)
    assert drawn_of(rows(0.05, 0.1), drawn, asked).is_narrow
    assert drawn_of(rows(0.05, 0.1), drawn, asked).variant == "v1"
    assert not drawn_of(rows(0.05, 0.11), drawn, asked).is_narrow
    none = drawn_of(rows(0.05, np.nan, 0.2), drawn, asked)
    assert not none.is_narrow
    assert none.variant == "v1"
    assert "could not be given" in said({"drawn": none.to_dict()}, "a")
    alone = drawn_of(rows().assign(low=0.0, high=0.3), drawn, asked)
    assert not alone.is_narrow and "the dense model's bias, on a, was 0.3 wide" in said(
        {"drawn": alone.to_dict()}, "a"
    )
