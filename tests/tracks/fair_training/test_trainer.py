"""Fair training: stops between batches, resumes bit for bit, says where a number is lost, counts
what it spends."""

import copy
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, PruneAuditError
from engine.core.types import key_of
from engine.surgery.filters.graph import cut_filters, filter_graph
from engine.tracks.fair_training import trainer as module
from engine.tracks.fair_training.masked import (
    MaskOptimizer,
    best,
    masked_filters_of,
    masked_weights_of,
    unmasked,
)
from engine.tracks.fair_training.methods import LOOKS, PHASE_POINT, Trained, fair_method
from engine.tracks.fair_training.trainer import MaskLearning, Surrogate, Trainer
from engine.training.losses import Targets
from tests.classifiers.worlds import TwoConvs, lively, stop_after, tiny
from tests.tracks.fair_training.jobs import (
    BATCH,
    ITERATIONS,
    Keeps,
    N,
    each,
    fair_job,
    same_numbers,
    small_graph,
    small_model,
    trained,
    world,
)

EACH = pytest.mark.parametrize("name", each())


@pytest.fixture
def save_always(monkeypatch):
    monkeypatch.setattr(module, "SAVE_EVERY", -1.0)


def scoring_batches(name: str) -> int:
    """Batches that SNIP reads for its scores, as fair_job sets them."""
    return 2 if name in ("snip", "pf-snip") else 0


def job_of_trainer(classifier=None, **more):
    """For trainings that are put together by hand."""
    return fair_job("dense-fair", classifier=classifier, **more)


@EACH
@pytest.mark.parametrize("killed_after", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_resumed_is_uninterrupted_to_the_bit(name, killed_after, save_always):
    """Killed before a batch of the first phase, and later where there is a later; everything but
    the clock is equal to a training of which nothing is kept."""
    whole, checks = once(name)
    keeps, steps, killed_after = Keeps(), [], min(killed_after, checks - 1)
    with pytest.raises(Cancelled):
        trained(
            name, keep=keeps, check=stop_after(killed_after), step=lambda *told: steps.append(told)
        )
    assert len(steps) == killed_after - scoring_batches(name)  # SNIP asks before each of its too
    assert keeps.held or name in ("snip", "pf-snip")  # their first two batches are for the scores
    torch.manual_seed(123)  # whatever happened in between
    torch.rand(7)
    resumed = trained(name, keep=keeps)
    assert len(resumed) == len(whole)
    assert all(same_numbers(one, other) for one, other in zip(whole, resumed, strict=True))
    assert keeps.held == []  # nothing will be resumed any more


@cache
def once(name: str) -> tuple[list[Trained], int]:
    """A training that nobody stopped, and how often it asked whether to stop."""
    asked = []
    return trained(name, check=lambda: asked.append(1)), len(asked)


def test_resumed_with_dropout_and_mirrored_images(save_always):
    def again(**more):
        classifier = tiny(TwoConvs(2, 0.5), 16)
        job = job_of_trainer(classifier, **more)
        trainer = Trainer(job, masked_filters_of(classifier.model, filter_graph(classifier)))
        trainer.keep_best(np.linspace(0.1, 1, 7), 5)
        trainer.run("one", 5, 1.0, MaskLearning(5, 1.0, 0.1))
        trainer.run("two", 4, 0.5)
        return trainer.result(0.3, zeros=False)

    whole, keeps = again(), Keeps()
    for killed_after in (3, 4):
        with pytest.raises(Cancelled):
            again(keep=keeps, check=stop_after(killed_after))
    assert keeps.held == ["one", "two"]
    assert same_numbers(whole, again(keep=keeps))


def test_a_finished_phase_is_found_and_not_repeated(save_always):
    """A descent that was killed in its third phase trains only from there on."""
    keeps, asked = Keeps(), []
    with pytest.raises(Cancelled):
        trained("lottery", keep=keeps, check=stop_after(2 * ITERATIONS + 2))
    trained("lottery", keep=keeps, check=lambda: asked.append(1))
    assert len(asked) == once("lottery")[1] - 2 * ITERATIONS - 2


def test_what_the_rarely_kept_state_repeats_is_the_same(monkeypatch):
    """Killed two steps after the last state was kept: those steps are taken again."""
    monkeypatch.setattr(module, "SAVE_EVERY", -1.0)
    keeps, whole = Keeps(), trained("bifp-uns")
    steps = []

    def step(done: int, total: int) -> None:
        steps.append(done)
        if done == 2:
            monkeypatch.setattr(module, "SAVE_EVERY", 1e9)

    with pytest.raises(Cancelled):
        trained("bifp-uns", keep=keeps, check=stop_after(4), step=step)
    assert steps == [1, 2, 3, 4] and keeps.phases["both"].state["step"] in (1, 2)
    assert same_numbers(whole[0], trained("bifp-uns", keep=keeps)[0])


@pytest.mark.parametrize(
    ("name", "at", "where"),
    [
        ("fpgm", 2, "step 3 of phase 'plain'"),
        ("bifp-str", 2, "step 3 of phase 'both'"),
        ("fp", ITERATIONS // 2, "step 1 of phase 'plain'"),
    ],
)
def test_a_loss_that_is_no_number_names_phase_and_step_and_keeps_what_was_kept(
    name, at, where, save_always
):
    """Of F&P the earlier phase, which is finished."""
    keeps, job = Keeps(), None

    def poison(done: int, total: int) -> None:
        if done == at:
            job.targets.weights[:] = float("nan")

    job = fair_job(name, keep=keeps, step=poison)
    with pytest.raises(PruneAuditError, match=f"The loss became nan at {where}.*still there"):
        list(fair_method(name).train(job))
    state = keeps.phases[keeps.held[0]].state
    assert state["step"] == len(state["rows"]) == at and state["done"] == (name == "fp")
    assert len(keeps.held) == 1 and all(one.isfinite().all() for one in state["model"].values())
    assert same_numbers(trained(name)[0], trained(name, keep=keeps)[0])  # and goes on from there


def test_a_loss_that_is_no_number_in_the_mask_update_names_its_step():
    """The batch of the mask comes after the third of the weights."""
    job = fair_job("bifp-str")
    seen = []

    class Poisoned(Targets):
        def loss(self, rows, logits):
            seen.append(1)
            return super().loss(rows, logits) * (float("inf") if len(seen) == 6 else 1.0)

    job = replace(job, targets=Poisoned(job.targets.labels, job.targets.weights))
    with pytest.raises(PruneAuditError, match=r"The loss became inf at step 3 of phase 'both'"):
        list(fair_method("bifp-str").train(job))


def test_a_gradient_of_the_mask_that_is_no_number_stops(save_always):
    """Squared in the implicit term, a large gradient can overflow where the loss does not."""
    keeps = Keeps()
    job = fair_job("bifp-uns", keep=keeps, settings={"implicit": "published", "rho": 1e-6})
    job = replace(job, targets=Targets(job.targets.labels, torch.full((N,), 1e25)))
    with pytest.raises(
        PruneAuditError, match=r"gradient of the mask became nan at step 1 of phase 'both'"
    ):
        list(fair_method("bifp-uns").train(job))
    assert keeps.held == []


@EACH
def test_the_curve_has_its_columns_counts_over_all_phases_and_looks_every_so_often(name):
    points = []
    for one in trained(name, point=points.append):
        rows = one.curve
        assert all(tuple(row) == (*PHASE_POINT, *LOOKS) for row in rows)
        assert all(type(row[key]) in (str, int, float) for row in rows for key in row)
        assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
        assert all(math.isfinite(row["surrogate_gap"]) for row in rows), "of plain methods too"
        spent = one.spent
        assert (
            rows[-1]["step"] == spent["iterations"]
            and rows[-1]["mask_updates"] == spent["mask_updates"]
        )
        read = spent["iterations"] + spent["mask_updates"] + scoring_batches(name)
        assert rows[-1]["examples"] == spent["examples"] == BATCH * read
        seconds = [row["seconds"] for row in rows]
        assert (
            seconds == sorted(seconds)
            and seconds[0] > 0
            and seconds[-1] == pytest.approx(spent["seconds"])
        )
        ends = [
            row
            for row, after in zip(rows, [*rows[1:], {}], strict=True)
            if row["phase"] != after.get("phase")
        ]
        looked = [row for row in rows if not math.isnan(row["accuracy"])]
        assert all(row in looked for row in ends)
        assert all(math.isfinite(row[key]) for row in looked for key in LOOKS)
    noted = {id(row) for row in points}
    assert all(id(row) in noted for row in rows) and len(rows) <= len(points)


def test_looks_are_every_so_many_steps_of_a_phase_and_at_its_end():
    looked = []
    trained(
        "pf", iterations=7, check_every=3, look=lambda model: looked.append(model.training) or {}
    )
    assert looked == [False] * 3  # 3, 6 and 7, in eval mode
    rows = trained("fp", iterations=8, check_every=3)[0].curve
    assert [row["step"] for row in rows if not math.isnan(row["gap"])] == [3, 4, 7, 8]
    assert [row["phase"] for row in rows] == ["fair"] * 4 + ["plain"] * 4


class Clock:
    """Every question takes a second; a look takes what it adds."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now

    monotonic = perf_counter


def test_looking_changes_nothing_and_costs_no_seconds(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("engine.tracks.fair_training.trainer.time", clock)

    def slow(model):
        clock.now += 1000.0
        model(torch.zeros(2, 3, 16, 16))
        torch.rand(3)
        return {}

    one, other = (
        trained("bifp-str", check_every=1, look=slow)[0],
        trained("bifp-str", check_every=100)[0],
    )
    assert np.array_equal(one.keep, other.keep)
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
    assert ITERATIONS <= one.spent["seconds"] < 1000.0


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_schedules_by_hand(schedule, monkeypatch):
    rates = []
    step = torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW,
        "step",
        lambda self: (rates.append(self.param_groups[0]["lr"]), step(self))[1],
    )
    job = fair_job("fpgm", iterations=4)
    list(
        fair_method("fpgm").train(
            replace(job, recipe=replace(job.recipe, rate=0.1, schedule=schedule))
        )
    )
    expected = {
        "constant": [0.1] * 4,
        "linear": [0.1, 0.075, 0.05, 0.025],
        "cosine": [0.1, 0.1 * (1 + 0.5**0.5) / 2, 0.05, 0.1 * (1 - 0.5**0.5) / 2],
    }
    assert rates == pytest.approx(expected[schedule])


def test_one_step_is_adamw_by_torch_on_loss_plus_strength_times_penalty():
    """The penalty is that of test_surrogate.py."""
    classifier, other = tiny(TwoConvs(), 16), tiny(TwoConvs(), 16)
    job = job_of_trainer(classifier, strength=2.0)
    trainer = Trainer(job, unmasked(classifier.model))
    trainer.run("fair", 1, 2.0)
    batch = _batch_of(job, "weights")
    other.model.requires_grad_(True).train()
    optimizer = torch.optim.AdamW(
        other.model.parameters(), lr=job.recipe.rate, weight_decay=job.recipe.weight_decay
    )
    logits = other.model(batch.inputs)
    penalty, gap = Surrogate(*map(torch.as_tensor, world()[1:])).of(batch.rows, logits)
    loss = job.targets.loss(batch.rows, logits)
    (loss + 2.0 * penalty).backward()
    optimizer.step()
    told = [trainer.rows[0][name] for name in ("loss", "penalty", "surrogate_gap")]
    assert told == pytest.approx([loss.item(), penalty.item(), gap], abs=1e-5)
    for name, value in other.model.state_dict().items():
        assert torch.allclose(
            classifier.model.state_dict()[name].float(), value.float(), atol=1e-6
        ), name


def _batch_of(job, stream: str):
    """The first batch of the weights or of the mask."""
    seed = key_of("fair", stream, job.batches.seed) % 2**31
    return next(replace(job.batches, seed=seed).forever())


def test_one_update_of_the_mask_by_hand():
    """No weight moves; the first step is MaskOptimizer's (its own tests), along the gradient at
    almost 0 and 1."""
    classifier, other = small_model(), small_model()
    job = replace(
        job_of_trainer(classifier),
        recipe=replace(fair_job("pf").recipe, rate=1e-12, weight_decay=0.0),
    )
    held = masked_filters_of(classifier.model, small_graph())
    trainer = Trainer(job, held)
    start = np.random.default_rng(0).uniform(0.2, 0.8, held.total)
    trainer.keep_best(start, 60)
    first = torch.as_tensor(trainer.keep).float()
    trainer.run("both", 2, 0.0, MaskLearning(60, 0.0, 0.1, form="none", settle=0.0))
    batch, mask = _batch_of(job, "mask"), first.clamp(min=module.ALMOST).requires_grad_(True)
    other.model.train()
    logits, _ = masked_filters_of(other.model, small_graph()).forward(batch.inputs, mask)
    job.targets.loss(batch.rows, logits).backward()
    expected = torch.as_tensor(start).float()
    MaskOptimizer(expected, 60).step(
        mask.grad, 0.05
    )  # half of .1: a cosine over two steps, the second of which has rate 0
    assert mask.grad.abs().max() > 1e-3
    assert trainer.scores == pytest.approx(expected.numpy(), abs=1e-4)
    assert np.array_equal(trainer.keep, best(trainer.scores, 60, held.blocks))
    assert trainer.spent["mask_updates"] == 2 and trainer.spent["examples"] == 4 * BATCH


@pytest.mark.parametrize("make", [TwoConvs, "resnet20"])
def test_training_the_cut_model_is_training_the_masked_one(make):
    """Filters that are fixed are cut before training: the same loss at every step and the same
    answers, to rounding."""
    ends, images = {}, torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for small in (False, True):
        classifier = lively(make, 16, 2) if isinstance(make, str) else tiny(make(), 16)
        graph = filter_graph(classifier)
        job = replace(job_of_trainer(classifier, look=lambda model: {}), graph=graph)
        job = replace(job, recipe=replace(job.recipe, rate=1e-4))
        trainer = Trainer(job, masked_filters_of(classifier.model, graph))
        trainer.keep_best(np.random.default_rng(0).random(graph.total), round(0.6 * graph.total))
        if small:
            trainer.make_small()
            assert sum(one.numel() for one in trainer.model.parameters()) < classifier.n_parameters
        trainer.run("fair", 6, 1.0)
        one = trainer.result(0.4, zeros=False)
        other = replace(classifier, model=copy.deepcopy(classifier.model))
        other.model.load_state_dict(one.weights)
        cut, _ = cut_filters(other, graph.mask(one.keep))
        with torch.no_grad():
            ends[small] = one, cut.model.eval()(images)
    (masked, answers), (cut, same) = ends[False], ends[True]
    assert np.array_equal(masked.keep, cut.keep)
    assert [row["loss"] for row in masked.curve] == pytest.approx(
        [row["loss"] for row in cut.curve], abs=1e-3
    )
    assert [row["surrogate_gap"] for row in masked.curve] == pytest.approx(
        [row["surrogate_gap"] for row in cut.curve], abs=1e-3
    )
    assert (answers - same).abs().max() < 1e-2 * answers.abs().max()


@pytest.mark.parametrize("units", ["filters", "weights"])
def test_a_unit_that_was_cut_can_come_back(units):
    """Scores of cut units move too, and some are taken back in."""
    classifier = small_model()
    job = job_of_trainer(classifier, iterations=12)
    make = masked_filters_of if units == "filters" else lambda model, _: masked_weights_of(model)
    held = make(classifier.model, small_graph())
    trainer = Trainer(job, held)
    count = held.total // 2
    trainer.keep_best(np.linspace(0.4, 0.6, held.total), count)
    cut, start = ~trainer.keep, trainer.scores.copy()
    trainer.run("both", 12, 1.0, MaskLearning(count, 1.0, 0.05, settle=0.0))
    assert trainer.keep.sum() == count and (trainer.scores[cut] != start[cut]).mean() > 0.5
    assert trainer.keep[cut].any() and trainer.scores.min() >= 0.0 and trainer.scores.max() <= 1.0


def test_the_mask_learns_every_so_many_steps_and_settles():
    def updates(inner: int, settle: float) -> list[int]:
        one = trained("bifp-str", iterations=8, settings={"inner": inner, "settle": settle})[0]
        return [row["mask_updates"] for row in one.curve]

    assert updates(1, 0.0) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert updates(1, 0.25) == [1, 2, 3, 4, 5, 6, 6, 6]
    assert updates(3, 0.0) == [0, 0, 1, 1, 1, 2, 2, 2]
    assert updates(2, 0.5) == [0, 1, 1, 2, 2, 2, 2, 2]
    assert updates(1, 1.0) == [0] * 8
