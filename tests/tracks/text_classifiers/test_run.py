"""A whole audit of a tiny text classifier: complete, repeatable, resumable, checked again from its
stored answers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.audit.verification import verify_run
from engine.core.errors import Cancelled, RequestError
from engine.core.types import Hooks
from engine.store.runs import Store, where
from engine.surgery import agreement as equivalence
from engine.surgery.heads.mask import masked
from engine.tracks.text_classifiers.context import TextShard
from engine.tracks.text_classifiers.measurements import tuned
from engine.tracks.text_classifiers.measurements import tuned as cost
from engine.tracks.text_classifiers.measurements.importance import answers_of, scored_texts
from engine.tracks.text_classifiers.procedures import forecast
from engine.tracks.text_classifiers.request import validate_text
from engine.tracks.text_classifiers.run import (
    arms_of,
    context_of,
    importance_only,
    run_text_audit,
)
from tests.classifiers.whole_runs import COLUMNS as SHARED
from tests.classifiers.whole_runs import WholeRun, models_of
from tests.classifiers.worlds import stop_after
from tests.tracks.text_classifiers.worlds import METHODS, colour_csv, text_request

COLUMNS = {
    "variants": (
        "variant method base score sparsity realised n_cut seed pooled chosen degenerate retrained"
        " cut mask_digest parameters ticket"
    ),
    **{name: SHARED[name] for name in ("results", "groups", "weights")},
    "texts": "text_id split label side text text_b",
    "predictions": "variant text_id p_0 p_1 p_2",
    "importance": "stage score seed axis group unit layer head value low high n n_constant",
    "iterations": (
        "method seed iteration n_cut sparsity units newly metric delta n_texts parameters retrained"
    ),
    "iteration_scores": "method seed iteration unit value",
    "ticket_levels": (
        "method sparsity axis group metric mean std full_mean full_std n_seeds matching n"
    ),
    "tickets": "method axis group metric sparsity unbroken mean std full_mean full_std n_seeds",
    "random_masks": "sparsity seed mask axis group metric value n_cut units",
    "random_ranks": (
        "method sparsity axis group metric value percentile p q null_mean null_low null_high"
        " n_masks n_seeds n"
    ),
    "head_truth": "metric seed unit layer head cost low high n",
    "truth_agreement": "score metric seed pearson spearman slope slope_low slope_high n_heads",
    "lens": (
        "text_id stage layer head tokens n_tokens attention attribution correlation scale predicted"
        " label"
    ),
    "costs": (
        "variant parameters bytes latency_ms latency_low latency_high dense_latency_ms speedup"
        " speedup_low speedup_high n max_logit_difference agrees"
    ),
    "curves": "variant phase step loss",
    "arm_differences": (
        "base score other sparsity axis metric group value low high p q n n_trials verdict"
    ),
}


@pytest.fixture(scope="module")
def request_(world):
    return text_request(world)


@pytest.fixture(scope="module")
def compared():
    """Every mask that was compared with its cut while the run was made, and what came of it."""
    return []


@pytest.fixture(scope="module")
def run(request_, store, events, compared):
    def noted(classifier, mask, *rest):
        compared.append((mask, equivalence.agree_on_texts(classifier, mask, *rest)))
        return compared[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        for module in (cost, tuned):
            patch.setattr(module, "agree_on_texts", noted)
        return run_text_audit(request_, store, Hooks(report=events.append))


@pytest.fixture
def context(request_, run, store):
    """Of the audit, with what it measured."""
    return context_of(validate_text(request_), store, Hooks())


def trials(run):
    models = models_of(run)
    return models[models["method"] != "dense"]


class TestWhole(WholeRun):
    columns = COLUMNS
    phases = {
        "load",
        "fine-tune the full model",
        "score, cut and fine-tune",
        "attention lens",
        "measure",
    }
    follow = 3
    told = ("one-shot-isp:conductance", "left")

    def test_progress_reaches_its_end(self, run, events):
        """The forecast is an upper end: masks that two arms share count for each."""
        done = [event.done for event in events]
        assert done == sorted(done) and events[-1].done <= events[-1].total
        assert self.phases <= {event.phase for event in events}


def test_every_variant_is_in_every_table_it_belongs_to(run):
    variants = run.table("variants")
    pooled = {f"{arm}-{share}%" for arm in METHODS for share in (25, 75)}
    single = {f"{name}#{trial}" for name in pooled for trial in range(3)}
    dense = {"dense", "dense#0", "dense#1", "dense#2"}
    assert set(variants["variant"]) == dense | pooled | single
    assert set(variants[variants["chosen"]]["variant"]) == {"dense"} | pooled
    assert set(run.table("predictions")["variant"]) == dense | single
    assert set(run.table("costs")["variant"]) == {"dense"} | pooled
    kept = {"dense#0"} | {
        name for name in single if name.endswith("#0") and not name.startswith(("once", "alg61"))
    }
    assert set(run.table("weights")["variant"]) == kept
    counts = trials(run).groupby("sparsity")["n_cut"].unique()
    assert counts.map(list).to_dict() == {0.25: [3], 0.75: [9]}
    levels = run.table("ticket_levels")
    assert set(where(levels, axis="side")["group"]) == {"left", "right"}


def test_masks_are_those_of_the_last_round(run):
    rounds = run.table("iterations")
    for row in trials(run).itertuples():
        mine = where(rounds, method=row.method, seed=row.seed, n_cut=row.n_cut)
        assert mine["units"].item() == row.cut and len(json.loads(row.cut)) == row.n_cut


def test_each_round_cuts_the_heads_with_the_lowest_importance(run):
    rounds, scores = run.table("iterations"), run.table("iteration_scores")
    for row in rounds.itertuples():
        mine = where(scores, method=row.method, seed=row.seed, iteration=row.iteration)
        mine = mine.set_index("unit")["value"]
        newly, cut_now = json.loads(row.newly), json.loads(row.units)
        stay = [unit for unit in mine.index if unit not in cut_now]
        assert newly and mine[newly].max() <= mine[stay].min()


def test_scored_texts_are_balanced_training_texts(context):
    one, other = scored_texts(context, 0), scored_texts(context, 1)
    assert one["label"].value_counts().tolist() == [3, 3, 3] and set(one["split"]) == {"train"}
    assert set(one["text_id"]) != set(other["text_id"])


def test_differences_between_scores_are_differences_of_pooled_values(run):
    results, table = run.table("results"), run.table("arm_differences")
    pairs = set(zip(table["base"], table["score"], table["other"], strict=True))
    assert pairs == {("once", "conductance", "random"), ("one-shot-isp", "conductance", "random")}
    values = where(results, metric="accuracy", axis="").set_index("variant")["value"]
    for row in where(table, axis="", metric="accuracy").itertuples():
        one, other = (
            values[f"{row.base}:{score}-{100 * row.sparsity:g}%"]
            for score in (row.score, row.other)
        )
        assert row.value == pytest.approx(one - other, abs=1e-9)


def test_importance_of_both_stages_and_of_groups(run, context):
    table = run.table("importance")
    read = {one for trial in range(3) for one in scored_texts(context, trial)["text_id"]}
    assert set(table["stage"]) == {"pre-trained", "fine-tuned"}
    assert set(table["seed"]) == {-1, 0, 1, 2}
    scores = {"conductance", "michel", "magnitude"}
    assert set(table["score"]) == scores, "random says nothing about a head"
    pooled = where(table, seed=-1, score="conductance", axis="")
    assert (pooled.groupby("stage").size() == 12).all()
    assert (pooled["n"] == len(read)).all(), "a text counts once"
    assert set(where(table, axis="side")["group"]) <= {"left", "right"}


def test_matrices_of_the_lens(run):
    lens = run.table("lens")
    assert {"pre-trained", "fine-tuned", "one-shot-isp:conductance-75%#0"} <= set(lens["stage"])
    for row in lens.itertuples():
        attention, shares = (
            np.frombuffer(part, dtype=np.float16).astype(float)
            for part in (row.attention, row.attribution)
        )
        assert len(json.loads(row.tokens)) == row.n_tokens and np.abs(shares).max() <= 1.0
        rows = attention.reshape(row.n_tokens, row.n_tokens).sum(axis=1)
        assert np.allclose(rows, 1.0, atol=0.01) and row.scale > 0
    heads = lens.groupby(["stage", "text_id"]).size()
    assert (heads["fine-tuned"] == 12).all()
    assert (heads["one-shot-isp:conductance-75%#0"] == 3).all()


def test_finished_measurements_serve_another_request(run, request_, store, monkeypatch):
    """Fewer arms and more group columns, and only scores: nothing is fitted again."""
    monkeypatch.setattr("engine.tracks.text_classifiers.measurements.tuned.fit", None)
    less = run_text_audit(
        replace(
            request_,
            methods=("isp:magnitude",),
            axes=("side", "length", "class"),
            random_masks=None,
            keep_weights="none",
        ),
        store,
    )
    assert less.id != run.id and not less.has("weights")
    scored = importance_only(replace(request_, methods=("once:conductance",)), store)
    whole = (
        run.table("importance").query("seed == -1 and score == 'conductance'").drop(columns="seed")
    )
    pd.testing.assert_frame_equal(scored, whole.reset_index(drop=True))


def test_going_on_with_other_data_is_refused_and_can_be_asked_for(world, request_, tmp_path):
    shutil.copytree(world, tmp_path / "world")
    mine = replace(
        request_,
        data=str(tmp_path / "world" / "colours.csv"),
        methods=("once:magnitude",),
        trials=1,
        sparsities=(0.5,),
    )
    store = Store(tmp_path / "store")
    with pytest.raises(Cancelled):
        run_text_audit(mine, store, Hooks(check=stop_after(3)))
    colour_csv(tmp_path / "world" / "colours.csv", train=60)
    with pytest.raises(RequestError, match="changed since this audit was begun.*--restart"):
        run_text_audit(mine, store)
    assert run_text_audit(replace(mine, restart=True), store).id != ""


def test_the_model_as_it_was_brought(world, tmp_path):
    """No fine-tuning: one full model for all seeds, procedures that train nothing, no pre-trained
    weights needed."""
    shutil.copytree(world, tmp_path / "world")
    shutil.rmtree(tmp_path / "world" / "model" / "pretrained")
    mine = text_request(
        tmp_path / "world", retune=None, methods=("once:conductance", "alg61:magnitude")
    )
    run = run_text_audit(mine, Store(tmp_path / "store"))
    variants = run.table("variants")
    assert (
        not variants["retrained"].any() and not variants["variant"].str.startswith("dense#").any()
    )
    assert set(run.table("importance")["stage"]) == {"fine-tuned"} and not run.has("weights")
    assert run.table("ticket_levels")["full_std"].isna().all()
    assert any("one fixed model" in one for one in run.meta["warnings"]) and verify_run(run)["ok"]


def test_random_alone_is_an_audit_too_and_has_no_heat_map(request_, store):
    run = run_text_audit(replace(request_, methods=("once:random",)), store)
    assert len(run.table("importance")) == 0 and len(run.table("iteration_scores"))


def test_with_a_fixed_full_model_equal_seeds_and_equal_readings_count_once(world, tmp_path):
    """magnitude draws nothing: three seeds cut the same heads, no ticket to name. And a sample that
    is everything is read alike three times: the interval stays as it is."""
    methods = ("once:magnitude", "isp:magnitude", "once:michel")
    mine = text_request(world, retune=False, methods=methods, sparsities=(0.5,), score_texts=48)
    run = run_text_audit(mine, Store(tmp_path))
    levels = run.table("ticket_levels").query("axis == ''").set_index("method")
    assert levels.loc["once:magnitude", "n_seeds"] == 1
    assert not levels.loc["once:magnitude", "matching"]
    assert levels.loc["isp:magnitude", "n_seeds"] == 3  # these were fine-tuned with three seeds
    said = "once:magnitude, once:michel: several seeds came to the same model"
    assert any(said in one for one in run.meta["warnings"])
    assert verify_run(run)["ok"]
    table = where(run.table("importance"), score="michel", stage="fine-tuned", axis="")
    one, pooled = (where(table, seed=seed) for seed in (0, -1))
    assert (pooled["n"].to_numpy() == one["n"].to_numpy()).all()
    assert np.allclose(pooled["value"], one["value"], atol=1e-6)
    width, alone = ((rows["high"] - rows["low"]).to_numpy() for rows in (pooled, one))
    assert np.allclose(width, alone, rtol=0.15)
    assert np.median(width / alone) == pytest.approx(1.0, abs=0.05)


def test_costs_say_whether_masked_and_cut_agree_because_it_was_tried(run, compared):
    """Of every variant a cut was compared with its mask, where it was trained later before that;
    and this came out."""
    costs = run.table("costs").set_index("variant").drop("dense")
    cuts, tried = trials(run)["mask_digest"], {mask.digest for mask, _ in compared}
    assert len(costs) and all(
        tried & set(cuts[cuts.index.str.startswith(f"{name}#")]) for name in costs.index
    )
    assert all(found.holds for _, found in compared) and costs["agrees"].all()
    assert set(costs["max_logit_difference"]) <= {
        found.max_logit_difference for _, found in compared
    }


def test_random_masks_are_worth_what_a_masked_forward_pass_says(run, context):
    """One mask of each seed, the slow obvious way, and where every arm that trains nothing stands
    among them."""
    masks, ranks = run.table("random_masks"), run.table("random_ranks")
    labels = context.table("test")["label"].to_numpy()
    rows = masks[(masks["axis"] == "") & (masks["mask"] == 7)]
    assert len(rows) == 2 * 3 and set(masks["sparsity"]) == {0.25, 0.75}
    for row in rows.itertuples():
        classifier = context.model_of(context.dense_shard(row.seed))
        with masked(classifier, context.mask(json.loads(row.units))):
            right = answers_of(context, classifier).argmax(axis=1) == labels
        assert row.value == pytest.approx(right.mean()) and row.n_cut == len(json.loads(row.units))
    assert set(ranks["method"]) == {"once:conductance", "once:random", "alg61:michel"}
    levels = run.table("ticket_levels").set_index(["method", "sparsity", "axis", "group"])["mean"]
    for row in ranks.itertuples():
        assert row.value == pytest.approx(levels[row.method, row.sparsity, row.axis, row.group])
        assert (
            0 <= row.percentile <= 1
            and 1 / 21 <= row.p <= 1
            and row.n_masks == 20
            and row.n_seeds == 3
        )


def test_the_cost_of_a_head_is_the_loss_without_it(run, context):
    truth = run.table("head_truth")
    labels = context.table("test")["label"].to_numpy()
    classifier = context.model_of(context.dense_shard(1))
    dense = answers_of(context, classifier)
    with masked(classifier, context.mask([5])):
        without = answers_of(context, classifier)
    rows = truth[(truth["seed"] == 1) & (truth["unit"] == 5)].set_index("metric")["cost"]
    loss = [-np.log(part[np.arange(len(labels)), labels]).mean() for part in (dense, without)]
    right = [(part.argmax(1) == labels).mean() for part in (dense, without)]
    assert rows["loss"] == pytest.approx(loss[1] - loss[0], abs=1e-6)
    assert rows["accuracy"] == pytest.approx(right[0] - right[1])
    agreement = run.table("truth_agreement")
    assert (
        set(agreement["score"]) == {"conductance", "michel", "magnitude"}
        and (agreement["n_heads"] == 12).all()
    )


def test_the_length_filter_by_standard_deviation_is_its_own(request_):
    context = context_of(
        validate_text(replace(request_, length_filter="deviation", score_texts=48))
    )
    lengths = context.table("train")["text"].str.split().str.len()
    usual = scored_texts(context, 0)["text"].str.split().str.len()
    assert usual.between(
        lengths.mean() - 2 * lengths.std(), lengths.mean() + 2 * lengths.std()
    ).all()
    other = context_of(validate_text(replace(request_, score_texts=48)))
    shard = TextShard("importance", score="conductance")
    assert context.key(shard) != other.key(shard)


def test_the_forecast_counts_random_masks_and_single_heads(request_):
    """45 test texts: 20 masks at two sparsities, and 12 heads with the whole model, in each of
    three seeds."""
    plan = validate_text(request_)
    whole = forecast(context_of(plan), arms_of(request_))
    less = replace(request_, random_masks=0, leave_one_out=False)
    assert whole - forecast(context_of(validate_text(less)), arms_of(less)) == pytest.approx(
        45 * 3 * (2 * 20 + 13)
    )
