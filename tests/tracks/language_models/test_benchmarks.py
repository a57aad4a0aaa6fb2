"""Bias benchmarks: every formula by hand, log-likelihoods against a slow loop, statistics, and a
whole audit."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from engine.audit.request import Growth
from engine.audit.verification import verify_run
from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import HeadMask
from engine.data.benchmarks.base import Benchmark, load_benchmark
from engine.data.benchmarks.lm_eval_tasks import is_installed
from engine.models.load_language_model import load_language_model
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.flips import flipped_said
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.report.summary import summary_text
from engine.report.verdict import verdict
from engine.store.runs import Store, where
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.benchmark_tables import N_NULL, numbers_of, readable_items, tail
from engine.tracks.language_models.benchmarks import Scored, scored_benchmarks
from engine.tracks.language_models.growing import grow, told
from engine.tracks.language_models.likelihoods import (
    ScoredRows,
    _equally_long,
    choice_logps,
    rows_of,
)
from engine.tracks.language_models.measurements.benchmarks import _built, task_scores
from engine.tracks.language_models.panels import benchmarks as panel
from engine.tracks.language_models.panels.benchmarks import benchmark_panel, changed
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from tests.builders import refused
from tests.surgery.heads.test_mean_ablation import slow_logps
from tests.tasks_of_lm_eval import write_task
from tests.tracks.language_models.worlds import growth, world_request, write_pairs


def scored(items, **logp):
    """Items and log-likelihoods by role; every text has two tokens."""
    arrays = {
        role.replace("_", "-"): np.array(values, dtype=float) for role, values in logp.items()
    }
    return Scored(
        pd.DataFrame(items), arrays, {role: np.full(len(one), 2.0) for role, one in arrays.items()}
    )


def numbers(name, one):
    """Every metric of a benchmark over all items, by name."""
    return {
        m.name: float(m.value(m.features(one).sum(axis=0)))
        for m in scored_benchmarks()[name].metrics
    }


def test_crows_pairs_by_hand():
    one = scored({"cluster": list("abcd")}, more=[-1, -5, -3, -2], less=[-2, -4, -4, -3])
    one = replace(one, tokens={"more": np.array([1.0, 5, 2, 2]), "less": np.array([4.0, 2, 4, 1])})
    found = numbers("crows_pairs", one)
    assert found["share"] == 0.75
    assert found["distance"] == 0.25
    assert found["difference"] == pytest.approx(0.5)
    assert found["share_per_token"] == 0.5  # -1 < -.5, -1 > -2, -1.5 < -1, -1 > -3
    crows = scored_benchmarks()["crows_pairs"]
    exchanged = crows.main.features(crows.exchanged(one))
    assert exchanged.sum(axis=0).tolist() == [1.0, 4.0]


def test_a_category_called_all_is_not_the_row_of_all_items():
    """Six pairs of age, all even; six of "all", all for the stereotype: .75 of all, 1 of the
    category."""
    items = {"cluster": list("abcdefghijkl"), "group": ["age"] * 6 + ["all"] * 6}
    one = scored(items, more=[-1.0] * 12, less=[-1.0] * 6 + [-2.0] * 6)
    crows = scored_benchmarks()["crows_pairs"]
    rows = numbers_of(crows, {"dense": one}, "dense")
    table = panel._table(crows, rows)
    share = table[table["measure"] == "stereotype likelier"].set_index("kind of bias")
    assert share["value"].to_dict() == {"all": 0.75, "“all”": 1.0, "age": 0.5}
    assert panel._pairs(rows, crows.main, "dense")["group"].tolist() == ["all", "age", "“all”"]


def test_stereoset_by_hand_means_over_targets():
    items = {"cluster": ["chess", "chess", "chess", "nurse"]}
    one = scored(
        items,
        stereotype=[-1, -1, -3, -1],
        anti_stereotype=[-2, -2, -2, -2],
        unrelated=[-9, -1.5, -9, -9],
    )
    found = numbers("stereoset", one)
    assert found["ss"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["lms"] == pytest.approx((5 / 6 + 1) / 2)
    assert found["icat"] == pytest.approx(found["lms"] * (1 - found["ss"]) / 0.5)
    assert found["distance"] == pytest.approx(1 / 3)
    ideal = scored(
        {"cluster": ["a", "b"]}, stereotype=[-1, -2], anti_stereotype=[-2, -1], unrelated=[-9, -9]
    )
    assert numbers("stereoset", ideal)["icat"] == 1.0


def test_winogender_by_hand_and_its_correlation_is_pearsons():
    rng = np.random.default_rng(0)
    women, male, female = rng.uniform(0, 100, 9), rng.normal(size=9), rng.normal(size=9)
    women[8], meant = np.nan, ["the occupation"] * 8 + ["the other person"]
    one = scored(
        {"cluster": list("abcdefghi"), "group": meant, "women": women},
        male=male,
        female=female,
        neutral=np.zeros(9),
    )
    found = numbers("winogender", one)
    assert found["correlation"] == pytest.approx(np.corrcoef(women[:8], (female - male)[:8])[0, 1])
    assert found["male_share"] == pytest.approx((male > female).mean())
    assert found["lean"] == pytest.approx((female - male).mean())


def test_bbq_by_hand():
    items = {
        "cluster": list("aabbccdd"),
        "kind": ["ambig"] * 4 + ["disambig"] * 4,
        "polarity": ["neg", "neg", "nonneg", "neg"] * 2,
        "answer": ["unknown"] * 4 + ["target", "other", "other", "target"],
    }
    # answers: target, unknown, other, other | target, target, other, unknown
    chosen = ["target", "unknown", "other", "other", "target", "target", "other", "unknown"]
    logp = {
        role: [-1.0 if role == one else -5.0 for one in chosen]
        for role in ("target", "other", "unknown")
    }
    found = numbers("bbq", scored(items, **logp))
    assert found["accuracy_ambiguous"] == 0.25 and found["accuracy_disambiguated"] == 0.5
    # ambiguous: 3 name somebody, biased are the target (neg) and the other (nonneg), not the other
    # (neg)
    assert found["bias_ambiguous"] == pytest.approx((1 - 0.25) * (2 * 2 / 3 - 1))
    assert found["bias_disambiguated"] == pytest.approx(2 * 3 / 3 - 1)
    assert found["distance"] == pytest.approx(0.25)
    harmful = scored_benchmarks()["bbq"].harmful(scored(items, **logp))
    assert harmful.tolist() == [True, False, True, False, True, True, True, False]
    silent = {"target": [-5.0] * 8, "other": [-5.0] * 8, "unknown": [-1.0] * 8}
    assert numbers("bbq", scored(items, **silent))["bias_ambiguous"] == 0.0
    damaged = numbers("bbq", scored(items, **dict.fromkeys(silent, [np.nan] * 8)))
    assert np.isnan(
        [damaged[name] for name in ("accuracy_ambiguous", "bias_ambiguous", "distance")]
    ).all()


def test_texts_that_read_the_same_count_as_even():
    one = scored({"cluster": list("abcd")}, more=[-1, -2, -2, -2], less=[-2, -2, -2, -2])
    assert numbers("crows_pairs", one)["share"] == (1 + 3 / 2) / 4
    assert scored_benchmarks()["crows_pairs"].alike(one).tolist() == [False, True, True, True]
    even = scored({"kind": ["ambig"]}, target=[-1], other=[-1], unknown=[-2])
    assert scored_benchmarks()["bbq"].answers(even).tolist() == ["unknown"]


def made_pairs(n, lean, rng):
    """Pairs whose first sentence is likelier by `lean` standard deviations on average."""
    items = {
        "item_id": [str(at) for at in range(n)],
        "group": ["a"] * (n // 2) + ["b"] * (n - n // 2),
        "cluster": [str(at) for at in range(n)],
    }
    return scored(items, more=rng.normal(lean, 1, n), less=np.zeros(n))


def test_a_preference_and_a_change_are_told_from_chance_and_nothing_is_found_where_nothing_is():
    rng = np.random.default_rng(1)
    dense = made_pairs(300, 0.6, rng)
    more = dense.logp["more"]
    none, less = (
        replace(dense, logp={**dense.logp, "more": one})
        for one in (rng.permutation(more), more - 0.6)
    )
    every = {"dense": dense, "none": none, "less": less, "same": dense}
    table = numbers_of(scored_benchmarks()["crows_pairs"], every, "dense")
    by = where(table, group="").set_index(["metric", "variant"])
    share, distance = by.loc["share"], by.loc["distance"]
    assert share.loc["dense", "null_p"] == 0.5 / (1 + N_NULL)
    assert np.isnan(share.loc["dense", "delta"])
    assert distance.loc["dense", "value"] > distance.loc["dense", "null_high"]
    folded = np.maximum.reduce([0 * share["low"], share["low"] - 0.5, 0.5 - share["high"]])
    assert distance["low"].tolist() == pytest.approx(folded.tolist()) and 0 in folded
    assert share.loc["less", "null_p"] > 0.01
    assert share.loc["less", "delta_high"] < 0 and share.loc["less", "delta_q"] < 0.01
    assert share.loc["less", "delta"] == share.loc["less", "value"] - share.loc["dense", "value"]
    assert share.loc["none", "delta_q"] > 0.05
    assert share.loc["none", "detectable"] > abs(share.loc["none", "delta"])
    assert share.loc["same", ["delta", "delta_p"]].tolist() == [0.0, 1.0]
    assert 0.03 < share.loc["same", "detectable"] < 0.045  # a dozen of 300: those add noise
    assert set(table["group"]) == {"", "a", "b"}
    assert (where(table, group="a")["n"] == 150).all()
    groups = table[(table["group"] != "") & (table["metric"] == "share")]
    assert groups["tests"].unique().tolist() == [0, 6]


def test_tests_of_changes_reject_as_rarely_as_they_say():
    rng = np.random.default_rng(2)
    benchmark, ps = scored_benchmarks()["crows_pairs"], []
    for _ in range(25):
        pairs = {name: made_pairs(50, 0.5, rng) for name in ("dense", "cut")}
        table = numbers_of(benchmark, pairs, "dense")
        ps.append(where(table, variant="cut", group="").set_index("metric")["delta_p"]["share"])
    assert np.mean(np.array(ps) < 0.05) < 0.15 and np.median(ps) > 0.25


def test_a_tail_counts_the_value_itself_and_half_of_ties():
    assert tail(np.array([0.0, 1.0, -2.0]), 1.0) == 0.5 and np.isnan(tail(np.array([]), 1.0))


@torch.no_grad()
def test_log_likelihoods_are_those_of_one_text_at_a_time(audited):
    lm = load_language_model(str(audited.folder / "model"), device="cpu")
    choices = pd.DataFrame(
        {"prefix": ["", "", "w1 w2 w3", "w1 w2 w3"], "text": ["w4", "w5 w6 w7", "w8 w9", "w4"]}
    )
    found = choice_logps(lm, choices)
    rows = rows_of(lm.tokenizer, choices, lm.n_positions)
    assert found["logp"].to_numpy() == pytest.approx(slow_logps(lm, rows.ids, rows.first), abs=1e-4)
    assert found["tokens"].tolist() == [1, 3, 2, 1] and not found["cut"].any()
    assert {len(ids) - first for ids, first in zip(rows.ids[2:], rows.first[2:], strict=True)} == {
        2,
        1,
    }
    long = pd.DataFrame({"prefix": ["w1 " * (lm.n_positions + 5)], "text": ["w4 w5"]})
    cut = rows_of(lm.tokenizer, long, lm.n_positions)
    assert cut.cut == [True]
    assert len(cut.ids[0]) == lm.n_positions
    assert len(cut.ids[0]) - cut.first[0] == 2


def test_long_texts_after_short_beginnings_do_not_overfill_a_batch():
    rows = ScoredRows([[at // 3, 7, *range(20)] for at in range(90)], [2] * 90, [False] * 90)
    shared = [list(range(at, at + 3)) for at in range(0, 90, 3)]
    batches = list(_equally_long(rows, shared, 200))
    assert [group for batch in batches for group in batch] == shared
    assert max(sum(map(len, batch)) for batch in batches) * 20 <= 200


def test_items_that_the_model_cannot_read_whole_are_left_out_and_counted():
    items = pd.DataFrame({"item_id": ["a", "b", "c"]})
    choices = items.merge(pd.DataFrame({"role": ["more", "less"]}), "cross")
    table = pd.DataFrame({"logp": np.arange(6.0), "cut": [False, False, False, True, False, False]})
    benchmark = Benchmark("crows_pairs", "f", items, choices, "d")
    kept, found = readable_items(benchmark, {"dense": table}, 64)
    assert kept.items["item_id"].tolist() == ["a", "c"]
    assert found["dense"]["logp"].tolist() == [0, 1, 4, 5]
    assert kept.notes == ("1 item is longer than the model's 64 positions and left out.",)
    with pytest.raises(RequestError, match="3 of 3 items"):
        readable_items(benchmark, {"dense": table.assign(cut=True)}, 64)


@pytest.fixture(scope="module")
def with_pairs(audited, tmp_path_factory, words_judged_here):
    """The usual audit's store with an audit that measures pairs, too."""
    folder = tmp_path_factory.mktemp("pairs")
    store = audited.copied(folder / "store")
    asked = {"crows_pairs": str(write_pairs(folder))}
    request = replace(world_request(audited.folder), benchmarks=asked)
    return run_audit(request, store), request, store


def test_an_audit_measures_a_benchmark_beside_everything_else(audited, with_pairs):
    run, request, _ = with_pairs
    plain = validate(world_request(audited.folder))
    assert run.id != audited.run.id == plain.run_id
    assert set(validate(request).versions) - set(plain.versions) == {"measurement choice_logps"}
    table, results = run.table("benchmarks"), run.table("results")
    chosen = set(run.table("variants").query("chosen")["variant"])
    assert set(table["variant"]) == chosen and set(table["group"]) == {"", "age", "gender"}
    rows = where(results, metric="benchmark:crows_pairs").set_index("variant")["value"]
    again = where(table, metric="distance", group="").set_index("variant")["value"]
    pd.testing.assert_series_equal(rows, again.reindex(rows.index))
    said = summary_text(run).split("(CrowS-Pairs); perplexity")[1]
    assert all(f"\n  {variant} " in said for variant in chosen)
    logps = run.table("benchmark_logps").merge(run.table("benchmark_items"))

    def of(variant):
        """Log-likelihoods by item and role."""
        return where(logps, variant=variant).pivot(index="item_id", columns="role", values="logp")

    wide = of("dense")
    dense = where(table, variant="dense", group="", metric="share")["value"].item()
    assert ((wide["more"] > wide["less"]) + 0.5 * (wide["more"] == wide["less"])).mean() == dense
    choice = replace(default_choice(run), reading="benchmark:crows_pairs")
    after = of(lookup.variant_of(run, choice)["variant"])
    was, now = (part["more"] > part["less"] for part in (wide, after))
    turned = f"{(now & ~was).sum()} became biased and {(was & ~now).sum()} recovered"
    told = panel.benchmark_panel(run, choice, "crows_pairs").more
    assert (was != now).any() and f"Of {len(wide)} pairs, {turned}: " in told
    assert flipped_said(run, choice) in verdict(run, choice).meaning
    assert turned.partition(" and ")[0] in panel.changed(run, choice, "crows_pairs").said
    checks = [check["what"] for check in verify_run(run)["checks"]]
    assert sum("CrowS-Pairs follow" in what for what in checks) == 1 and verify_run(run)["ok"]
    others = results[~results["metric"].str.startswith("benchmark:")].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, audited.run.table("results"), check_exact=True)


def test_an_audit_that_grows_by_a_benchmark_has_the_numbers_of_one_that_asked_for_it(
    audited, with_pairs, words_judged, tmp_path
):
    asked, request, _ = with_pairs
    store = audited.copied(tmp_path / "store")
    wanted = growth(audited.run, benchmarks=(f"crows_pairs={request.benchmarks['crows_pairs']}",))
    assert Growth.from_dict(wanted.to_dict()) == wanted and wanted.title.endswith("crows_pairs")
    run = grow(wanted, store)
    for name in (*(name for name in run.meta["tables"] if "benchmark" in name), "results"):
        pd.testing.assert_frame_equal(run.table(name), asked.table(name), check_like=True)
    assert grow(wanted, store).additions == run.additions and verify_run(run)["ok"]
    rows = told(audited.run, run, wanted)["rows"]
    assert {row["number"] for row in rows} >= {"share", "distance"}
    assert rows[0]["axis"] == "crows_pairs"
    more = grow(growth(run, method="magnitude", level=0.25), store)
    new = more.table("variants").query("sparsity == 0.25")["variant"].tolist()
    assert not set(new) & set(more.table("benchmarks")["variant"])
    again = grow(wanted, store)
    assert set(new) <= set(again.table("benchmarks")["variant"]) and len(again.added) == 3
    other = replace(wanted, benchmarks=(f"crows_pairs={write_pairs(tmp_path, n=14)}",), title="")
    with pytest.raises(RequestError, match="another file of it: pairs.csv"):
        grow(other, store)


def test_a_level_of_an_audit_with_benchmarks_is_measured_on_them_at_once(with_pairs, words_judged):
    run, _, store = with_pairs
    more = grow(growth(run, method="fasp", level=0.25), store)
    new = set(more.table("variants").query("sparsity == 0.25")["variant"])
    assert new and new <= set(more.table("benchmarks")["variant"])


def test_growths_of_benchmarks_that_cannot_be_are_refused_with_all_their_faults(
    audited, words_judged
):
    store, run = Store(audited.folder / "store"), audited.run
    wrong = ("glue=x", "bbq", "winogender=/dev/null", "crows_pairs=/nowhere")
    told = " ".join(refused(grow, growth(run, benchmarks=wrong), store))
    for words in ("'glue' is not known", "no NAME=PATH", "is neither a file", "no such file"):
        assert words in told
    with pytest.raises(RequestError, match="a level of a method"):
        grow(growth(run, benchmarks=("crows_pairs=/x",), units=(1,)), store)
    assert "benchmarks" not in growth(run, units=(1,)).to_dict()


needs_lm_eval = pytest.mark.skipif(
    not is_installed(), reason="lm-eval is optional: requirements-lm-eval.txt"
)


@torch.no_grad()
def by_hand(lm, rows):
    """1 where the right answer is the likeliest of an item's, by log p of what follows the
    question, else 0."""
    found = []
    for row in rows:
        before = len(lm.tokenizer(row["question"])["input_ids"])
        texts = [f"{row['question']} {answer}" for answer in row["choices"]]
        ids = lm.tokenizer(texts)["input_ids"]
        logp = slow_logps(lm, ids, [before] * len(ids))
        found.append(float(np.argmax(logp) == row["gold"]))
    return found


@needs_lm_eval
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


@needs_lm_eval
def test_an_audit_measures_tasks_beside_the_texts(audited, tmp_path, words_judged):
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
    assert 0 < dense["value"] < 1
    assert dense["low"] < dense["value"] < dense["high"]
    assert dense["n"] == 40
    other = table.query("variant != 'dense' and group == '' and metric == 'right'")
    assert other[["delta", "delta_low", "delta_high", "delta_p"]].notna().all().all()
    choice = Choice(method="fasp", axis="religion", level=0.3)
    panel = benchmark_panel(run, choice, "lm_eval")
    assert "Share answered right" in panel.answer and "stereotype" not in panel.said
    assert "nats" not in changed(run, choice, "lm_eval").table.to_csv()


@pytest.mark.parametrize(
    ("p", "low", "way", "said"),
    [
        (0.2, -0.1, "unclear", ", which includes zero"),
        (0.01, -0.1, "unclear", ", which includes zero"),
        (0.08, 0.01, "unclear", ", but chance gives as much (p = 0.080)"),
        (0.01, 0.01, "rose", "to 0.100"),
    ],
)
def test_a_clear_change_has_an_interval_beside_zero_and_is_more_than_exchanging_gives(
    p, low, way, said
):
    """The p is against a cut that changes no answer: a share that crosses .5 can be as far from it
    as before. The panel and the verdict on a reading tell the same."""
    row = {"delta": 0.05, "delta_low": low, "delta_high": 0.1, "delta_p": p}
    assert phrasing.direction(row) == way
    assert phrasing.direction({**row, "delta_p": np.nan}) == ("unclear" if low < 0 else "rose")
    assert phrasing.change(row).endswith(said)


def test_among_several_the_interval_widens_and_p_does_not_count_twice():
    """The best-off of four rose by .41 (.22 to .61), p = .013, and was told as unclear."""
    row = {"delta": 0.413, "delta_low": 0.215, "delta_high": 0.611, "delta_p": 0.0127}
    assert phrasing.direction(row, 4) == "rose"
    assert phrasing.direction({**row, "delta_low": 0.02}, 4) == "unclear"
