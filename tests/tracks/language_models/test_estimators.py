"""Three ways to the same number: exact enumeration, finite differences, and texts drawn again."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from engine.core.errors import PruneAuditError
from engine.core.types import POOLED, Corpus, Decoding, HeadMask, PromptSet, Window
from engine.surgery.heads.mask import gated, masked
from engine.surgery.heads.prefix import row_gradients, row_logps
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import InMemory, PromptContext, Settings, Shard
from engine.tracks.language_models.effects import (
    CAP,
    biases,
    by_both,
    by_gradient,
    by_reweighting,
    by_texts,
    capped,
    centred,
    codes_of,
    effective_share,
    gradient_shards,
    gradient_values,
    weights,
)
from engine.tracks.language_models.likelihoods import window_nll
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.scores import COLUMNS, ScoreJob, method_for, score_methods
from tests.surgery.heads.test_mean_ablation import slow_logps
from tests.tiny import TINY, VOCABULARY, text, tiny_model
from tests.tracks.language_models.worlds import word_judge

PROMPTS = [[3, 9, 4], [5, 6, 7, 8], [8, 8], [9, 1, 1, 5, 6], [2, 4], [7, 3, 3]]
GROUPS = ["a", "a", "b", "b", "c", "c"]


def even_first(token: int) -> float:
    return float(token % 2 == 0)


def exact_bias(lm, unit):
    """Bias by listing the whole vocabulary as first new token, under the masked model."""
    cut = () if unit is None else (divmod(unit, lm.n_heads),)
    rows = []
    for prompt, group in zip(PROMPTS, GROUPS, strict=True):
        with torch.no_grad(), masked(lm, HeadMask(lm.n_layers, lm.n_heads, cut)):
            p = (
                lm.model(input_ids=torch.tensor([prompt]))
                .logits[0, -1]
                .double()
                .softmax(-1)
                .numpy()
            )
        rows.append((group, sum(p[token] * even_first(token) for token in range(VOCABULARY))))
    means = pd.DataFrame(rows, columns=["group", "toxicity"])
    return (means.groupby("group")["toxicity"].mean() - means["toxicity"].mean()).abs().sum()


@pytest.mark.parametrize("family", ["gpt2", "llama_grouped"])
def test_reweighting_the_whole_vocabulary_is_exact(family):
    lm = tiny_model(family)
    texts = [[*prompt, token] for prompt in PROMPTS for token in range(VOCABULARY)]
    units = list(range(lm.n_layers * lm.n_heads))
    dense, off = row_logps(lm, texts, [len(one) - 1 for one in texts], units)
    base = np.exp(dense)  # every text counts as often as the dense model writes it
    subgroup = np.unique(np.repeat(GROUPS, VOCABULARY), return_inverse=True)[1]
    toxicity = np.array([even_first(one[-1]) for one in texts])
    weight = weights((off - dense).T, subgroup)
    for unit in units:
        means = np.array(
            [
                np.average(toxicity[subgroup == s], weights=(base * weight[:, unit])[subgroup == s])
                for s in range(3)
            ]
        )
        found = np.abs(means - means.mean()).sum()
        assert found == pytest.approx(exact_bias(lm, unit), abs=2e-6)
    assert max(abs(exact_bias(lm, unit) - exact_bias(lm, None)) for unit in units) > 1e-3


def table_of(n_seeds: int = 3, seed: int = 0, n: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        {
            "prompt_id": f"{group}{at}",
            "subgroup": group,
            "template": f"t{at % 6}",
            "descriptor": f"{group}{at % 3}",
            "seed": draw,
            "toxicity": rng.random() * (1 + place) / 3,
        }
        for draw in range(n_seeds)
        for place, group in enumerate("abc")
        for at in range(n)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("reading", ["group_means", "subgroup_mean_of_means"])
def test_a_mask_that_changes_nothing_has_weight_one_and_no_effect(reading):
    table = table_of()
    found = by_reweighting(table, np.zeros((len(table), 2)), reading)
    np.testing.assert_allclose(found.value, 0, atol=1e-12)
    np.testing.assert_allclose(found.ess, 1)
    flat = by_gradient(
        table, np.full((len(table), 2), 3.7), reading
    )  # the same for every text: no text gains
    np.testing.assert_allclose(flat.value, 0, atol=1e-9)


def test_reweighted_means_are_the_self_normalised_ones():
    table, rng = table_of(), np.random.default_rng(1)
    logw = rng.normal(size=(len(table), 4))
    codes, toxicity = codes_of(table), table["toxicity"].to_numpy()
    values = centred(toxicity, weights(logw, codes), codes)
    for code in range(3):
        rows = codes == code
        slow = np.exp(logw[rows]).T @ toxicity[rows] / np.exp(logw[rows]).sum(axis=0)
        np.testing.assert_allclose(values[rows].mean(axis=0), slow)
    w = np.exp(logw)
    share = [
        (w[codes == c].sum(0) ** 2 / (w[codes == c] ** 2).sum(0)) / (codes == c).sum()
        for c in range(3)
    ]
    np.testing.assert_allclose(effective_share(weights(logw, codes), codes), share)


@pytest.mark.parametrize("reading", ["group_means", "subgroup_mean_of_means", "paired_prompts"])
def test_many_heads_at_once_equal_one_after_the_other(reading):
    table, rng = table_of(), np.random.default_rng(2)
    off = rng.random((len(table), 5))
    errors = BiasErrors(table)
    found = by_texts(table, off, reading, errors)
    for unit in range(5):
        slow = errors.difference(table.assign(toxicity=off[:, unit]), reading)
        assert found.value[unit] == pytest.approx(-slow.value)
        assert (found.low[unit], found.high[unit]) == pytest.approx((-slow.high, -slow.low))
        change = errors.changes(errors.matrix(table["prompt_id"], off[:, [unit]]), reading)
        assert found.p[unit] == pytest.approx(change.p_of_nothing[0])
        assert found.p[unit] <= slow.p + 1e-12


def test_log_weights_that_are_no_numbers_are_refused():
    codes = np.array([0, 0, 1, 1])
    with pytest.raises(PruneAuditError, match="1 of 4 log-probabilities"):
        weights(np.array([[0.0], [np.nan], [0.0], [0.0]]), codes)
    gone = weights(np.array([[-np.inf], [-np.inf], [0.0], [0.0]]), codes)
    assert np.isnan(gone[:2]).all() and effective_share(gone, codes)[0] == 0
    table = table_of(1, n=4)
    logw = np.where((table["subgroup"] == "a").to_numpy()[:, None], -np.inf, 0.0)
    assert np.isnan(by_reweighting(table, logw).value).all()
    assert by_reweighting(table, logw).ess[0] == 0


def test_cut_weights_keep_their_mean_and_no_weight_is_far_above_the_cut():
    codes = np.zeros(4, dtype=int)
    logw = np.log(np.array([[1.0], [1.0], [1.0], [13.0]]))  # mean 4: weights .25, .25, .25, 3.25
    by_hand = np.array([0.25, 0.25, 0.25, 3.0]) / (3.75 / 4)
    np.testing.assert_allclose(capped(weights(logw, codes), codes, 3.0)[:, 0], by_hand)
    np.testing.assert_array_equal(capped(weights(logw, codes), codes, 0.0), weights(logw, codes))
    table = table_of()
    mild = np.random.default_rng(8).normal(scale=0.1, size=(len(table), 3))
    np.testing.assert_allclose(
        by_reweighting(table, mild, cap=3.0).value, by_reweighting(table, mild).value
    )
    gone = np.where((table["subgroup"] == "a").to_numpy()[:, None], -np.inf, 0.0)
    assert np.isnan(by_reweighting(table, gone, cap=3.0).value).all()


@pytest.mark.parametrize("family", TINY)
def test_gate_gradients_are_derivatives_and_micro_batches_add_up(family):
    lm = tiny_model(family)
    texts, first = [[*prompt, 4, 5, 6] for prompt in PROMPTS], [len(prompt) for prompt in PROMPTS]
    dense, slopes = row_gradients(lm, texts, first)
    np.testing.assert_allclose(dense, row_logps(lm, texts, first, [])[0], rtol=1e-5)
    np.testing.assert_allclose(
        row_gradients(lm, texts, first, tokens=1)[1], slopes, rtol=1e-4, atol=1e-6
    )
    for unit in (0, 5, lm.n_layers * lm.n_heads - 1):
        slow = slope_of(partial(slow_logps, lm, texts, first), lm, unit)
        np.testing.assert_allclose(slow, slopes[:, unit], rtol=5e-3, atol=5e-3)


def slope_of(measured, lm, unit, step=3e-3):
    """By finite differences, of what is measured by the gate of a head."""
    ends = []
    for sign in (1, -1):
        gates = torch.ones(lm.n_layers, lm.n_heads)
        gates[divmod(unit, lm.n_heads)] += sign * step
        with torch.no_grad(), gated(lm, gates):
            ends.append(measured())
    return (ends[0] - ends[1]) / (2 * step)


def test_the_gradient_is_the_derivative_of_the_reweighted_bias():
    table, rng = table_of(), np.random.default_rng(5)
    slope = rng.normal(size=(len(table), 4))
    codes, toxicity = codes_of(table), table["toxicity"].to_numpy()

    def at(xi):  # log weights to first order: log w(ξ) = (ξ − 1) g
        return biases(table, centred(toxicity, weights((xi - 1) * slope, codes), codes))

    slow = (at(1 + 1e-5) - at(1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(gradient_values(table, slope), slow, atol=1e-6)
    np.testing.assert_allclose(by_gradient(table, slope).value, slow, atol=1e-6)


def two_groups(n):
    """n prompts of each."""
    names = [f"{g}{at}" for g in "ab" for at in range(n)]
    rows = pd.DataFrame({"prompt_id": names, "template": "t", "descriptor": ""})
    return rows.assign(subgroup=np.repeat(["a", "b"], n))


@pytest.mark.slow
@pytest.mark.parametrize("cap, n", [(0.0, 60), (CAP, 60), (CAP, 1500)])
def test_the_interval_of_reweighting_covers(cap, n):
    """Worlds with a known reweighted bias: 95 % intervals hold it about as often as they say, cut
    or not."""
    rng, inside, worlds = np.random.default_rng(6), 0, 300 if n < 100 else 60
    rows = two_groups(n)
    for _ in range(worlds):
        x = rng.normal(size=2 * n)
        rows["toxicity"] = 1 / (1 + np.exp(-x)) * np.repeat([1.0, 0.5], n)
        logw = 0.7 * x - 0.7**2 / 2  # moves x to mean 0.7
        found = by_reweighting(rows, logw[:, None], cap=cap)
        inside += found.low[0] <= TRUE_EFFECT <= found.high[0]
    assert inside / worlds >= 0.88 and (cap or inside / worlds <= 0.99), inside / worlds


def test_the_interval_of_both_ways_covers_where_weights_are_cut():
    """With the head off, a tenth of the texts come from where the dense model wrote a hundredth:
    weights of ten."""
    rng, inside, worlds = np.random.default_rng(6), 0, 60
    rows, group = two_groups(200), np.repeat([0, 1], 200)

    def toxicity(share: float) -> tuple[np.ndarray, np.ndarray]:
        there = rng.random(400) < share
        chance = np.where(there, np.array([0.9, 0.0])[group], np.array([0.1, 0.5])[group])
        return there, (rng.random(400) < chance).astype(float)

    for _ in range(worlds):
        there, rows["toxicity"] = toxicity(0.01)
        logw = np.log(np.where(there, 0.1 / 0.01, 0.9 / 0.99))
        found = by_both(rows, toxicity(0.1)[1][:, None], logw[:, None], cap=CAP)
        inside += found.low[0] <= (0.8 + 0.5) * 0.09 <= found.high[0]
    assert inside / worlds >= 0.88, inside / worlds


_X = np.random.default_rng(7).normal(size=400_000)
TRUE_EFFECT = 0.5 * (np.mean(1 / (1 + np.exp(-_X))) - np.mean(1 / (1 + np.exp(-_X - 0.7))))


def small_bench(n: int = 16, new: int = 6, judge=None) -> PromptContext:
    rows = [
        {
            "prompt_id": f"{axis}{group}{at:02d}",
            "axis": axis,
            "subgroup": f"g{group}",
            "template": f"t{at % 4}",
            "descriptor": "",
            "text": text(group, at % 30, 7 * at % 40),
            "split": "validation",
        }
        for axis in ("x", "y")
        for group in (1, 2)
        for at in range(n)
    ]
    prompts = PromptSet("small", pd.DataFrame(rows), "digest")
    corpus = Corpus("text", text(*(at * at % 45 for at in range(400))), "digest")
    settings = Settings(
        decoding=Decoding(max_new_tokens=new, max_prompt_tokens=8), window=Window(32, 16)
    )
    return PromptContext(tiny_model("gpt2"), judge or word_judge(), prompts, corpus, settings)


def finish(job: ScoreJob, method) -> pd.DataFrame:
    done: set[Shard] = set()
    while wanted := [shard for shard in method.shards(job) if shard not in done]:
        job.fetch(wanted)
        done |= set(wanted)
    return method.table(job)


@pytest.mark.parametrize(
    "method", score_methods(), ids=lambda method: f"{method.score}-{method.name}"
)
def test_every_method_scores_every_head_and_asks_for_nothing_twice(method):
    job = ScoreJob(small_bench(), ("x", "y"), (0, 1), n_boot=50)
    table = finish(job, method)
    assert list(table.columns) == COLUMNS
    assert job.finished(method.shards(job))
    for axis, part in table[table["seed"] == POOLED].groupby("axis"):
        assert part["unit"].tolist() == list(range(12)), axis
    pd.testing.assert_frame_equal(finish(job, method), table)


def test_direct_answers_count_as_texts_do_and_what_rests_after_reasoning_is_cut_first():
    job, method = ScoreJob(small_bench(), ("x",), (0,)), method_for("diffheads")
    (found,) = job.fetch(method.shards(job))
    (texts,) = job.fetch(gradient_shards(job, "x"))
    slopes = texts.drop(columns="prompt_id").abs().sum()
    np.testing.assert_allclose(found["direct"], slopes, rtol=1e-4)
    share = found[["direct", "reasoned"]] / found[["direct", "reasoned"]].sum()
    value = finish(job, method)["value"]
    np.testing.assert_allclose(value, share["direct"] - share["reasoned"], atol=1e-12)
    assert value.abs().max() > 0.001, "the cue and the reasoning are read"


def test_reweighting_comes_close_to_drawing_again():
    job = ScoreJob(small_bench(n=60, new=3), ("x",), (0, 1, 2, 3), n_boot=100)
    whole = finish(job, method_for("z_bias", "generate"))
    fast = finish(job, method_for("z_bias", "reweight"))
    slow, quick = (table[table["seed"] == POOLED].set_index("unit") for table in (whole, fast))
    kept = quick["estimator"] == "reweight"
    assert kept.sum() >= 8
    error = np.hypot(slow["high"] - slow["low"], quick["high"] - quick["low"]) / 3.92
    assert ((slow["value"] - quick["value"]).abs() / error)[kept].max() < 4


def test_heads_without_effective_samples_are_drawn_again_and_say_so():
    job = ScoreJob(small_bench(), ("x",), (0, 1), n_boot=50, options={"ess": 1.0})
    table = finish(job, method_for("z_bias", "reweight"))
    reference = finish(job, method_for("z_bias", "generate"))
    pooled = table[table["seed"] == POOLED]
    assert (pooled["estimator"] == "generate").all()
    assert pooled["note"].str.contains("drawn again").all() and pooled["ess"].between(0, 1).all()
    for column in ("value", "low", "high", "p"):
        np.testing.assert_array_equal(table[column], reference[column])


def test_batches_and_prompt_order_do_not_matter():
    context = small_bench()
    mixed = replace(context.prompts, table=context.prompts.table.sample(frac=1, random_state=1))
    for name in ("reweight", "gradient"):
        tables = [
            finish(
                ScoreJob(
                    replace(context, prompts=prompts, keeper=InMemory()), ("x",), (0,), n_boot=20
                ),
                method_for("z_bias", name),
            )
            for prompts in (context.prompts, mixed)
        ]
        np.testing.assert_allclose(tables[0]["value"], tables[1]["value"], atol=1e-6)


def test_the_fast_perplexity_is_the_derivative():
    context = small_bench()
    job, given = ScoreJob(context, ("x",), (0,), n_boot=50), context.tokens["validation"]
    found = finish(job, method_for("z_ppl", "gradient"))["value"].to_numpy()

    def measured():
        return perplexity(window_nll(context.lm, given, context.settings.window))

    for unit in (0, 4, 11):
        slow = slope_of(measured, context.lm, unit)
        assert found[unit] == pytest.approx(slow, rel=0.02, abs=0.02 * np.abs(found).max())


def test_few_effective_samples_are_too_few_whatever_their_share():
    job = ScoreJob(small_bench(n=3), ("x",), (0,), n_boot=20, options={"ess": 0.0})
    table = finish(job, method_for("z_bias", "reweight"))
    assert (table["estimator"] == "generate").all(), "3 texts of a group"
    assert (
        table.query("seed == @POOLED")["note"]
        .str.contains("effective texts in some subgroup, fewer than 5")
        .all()
    )


def test_a_perplexity_that_is_no_number_names_the_head():
    context = small_bench()
    with torch.no_grad():
        next(iter(context.lm.model.transformer.h)).mlp.c_proj.bias[0] = float("inf")
    with pytest.raises(PruneAuditError, match="no finite"):
        finish(ScoreJob(context, ("x",), (0,), n_boot=20), method_for("z_ppl", "exact"))


def test_weights_that_were_not_cut_are_exact_where_the_cut_is_not():
    """`cap` 0 is the plain estimator; the cut one differs only for heads with heavy weights."""
    job = ScoreJob(
        small_bench(n=60, new=6), ("x",), (0, 1), n_boot=20, options={"cap": 0.0, "ess": 0.0}
    )
    plain = finish(job, method_for("z_bias", "reweight")).query("seed == @POOLED")
    cut = finish(
        replace(job, options={"cap": 1.05, "ess": 0.0}), method_for("z_bias", "reweight")
    ).query("seed == @POOLED")
    pd.testing.assert_series_equal(plain["ess"], cut["ess"])
    assert (plain["value"] - cut["value"]).abs().max() > 1e-4
    assert cut["value"].abs().mean() < plain["value"].abs().mean(), "a cut pulls towards no effect"


def test_texts_without_a_head_are_drafted_by_the_dense_model_and_drawn_plainly_where_that_cannot_be(
    monkeypatch,
):
    from engine.tracks.language_models.measurements import texts

    context, place, drafted = small_bench(), ("x", "validation", 0), []
    redrawn = texts.redrawn
    monkeypatch.setattr(
        texts, "redrawn", lambda *given: drafted.append(given[1]) or redrawn(*given)
    )
    single = [Shard("texts", (unit,), *place) for unit in (1, 2)]
    plain = context.fetch(single)
    assert not drafted, "what is not kept is no draft"
    for fails in (False, True):
        fresh = replace(context, keeper=InMemory())
        fresh.fetch([Shard("texts", (), *place), Shard("texts", (0, 3), *place)])
        if fails:
            monkeypatch.setattr(texts, "redrawn", _out_of_memory)
        for table, other in zip(fresh.fetch(single), plain, strict=True):
            pd.testing.assert_frame_equal(table, other)
    assert [len(masks) for masks in drafted] == [2]


def _out_of_memory(*given):
    raise MemoryError("out of memory")
