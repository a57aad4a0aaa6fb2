"""The parts of a fair training's measurement: planes between models, batch norm again, shares cut, levelling down."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from torch.optim.swa_utils import update_bn

from engine.audit.fair_tables import cut_said, weight_layers
from engine.audit.fair_warnings import _degenerate, _levelled, _target
from engine.errors import MaskError
from engine.metrics.fair_bench import FairShard
from engine.scores.fair_base import NONE, WEIGHTS, fair_method
from engine.scores.fair_kinds import fair_kinds
from engine.scores.fair_kinds._between import recompute
from engine.scores.fair_kinds._work import (
    _stepper,
    curve_arrays,
    job_of,
    must_be_zero,
    trained_shard,
    zeros_of,
)
from engine.scores.fair_kinds.surface import SIDE, Plane
from engine.scores.image_kinds import image_kinds
from engine.training.fair.masked import masked_weights_of
from tests.fair_worlds import fair_bench
from tests.image_worlds import lively


@pytest.fixture(scope="module")
def bench():
    return fair_bench()


def test_kinds_of_the_dense_model_are_those_of_an_audit_of_filters():
    assert set(image_kinds()) < set(fair_kinds()) and {"trained", "fair_cost", "surface", "path"} <= set(fair_kinds())
    assert all(fair_kinds()[name] is kind for name, kind in image_kinds().items())


def test_a_plane_gives_its_corners_back():
    draw = np.random.default_rng(0)
    points = [draw.standard_normal(50) for _ in range(3)]
    plane = Plane.through(*points)
    for place, corner in enumerate(plane.corners):
        assert np.allclose(plane.shares(*corner), np.eye(3)[place])
    first, second, third = plane.corners
    assert first == (0.0, 0.0) and second == pytest.approx((np.linalg.norm(points[1] - points[0]), 0.0))
    assert np.hypot(*third) == pytest.approx(np.linalg.norm(points[2] - points[0]))  # distances are kept
    assert np.hypot(third[0] - second[0], third[1]) == pytest.approx(np.linalg.norm(points[2] - points[1]))
    x, y = 1.3, -0.4
    mixed = sum(share * point for share, point in zip(plane.shares(x, y), points, strict=True))
    assert np.linalg.norm(mixed - points[0]) == pytest.approx(np.hypot(x, y)) and sum(plane.shares(x, y)) == 1.0


def test_the_grid_reaches_beyond_the_corners():
    plane = Plane(4.0, -1.0, 2.0)
    grid = np.array(plane.grid())
    ends = grid.min(axis=0), grid.max(axis=0)
    assert grid.shape == (SIDE**2, 2) and np.allclose(ends, [(-2.0, -0.4), (5.0, 2.4)])


@pytest.mark.parametrize("third", [[0.0, 0.0], [2.0, 4.0], [-1.0, -2.0]])
def test_points_on_a_line_span_no_plane(third):
    assert Plane.through(np.zeros(2), np.array([1.0, 2.0]), np.array(third)) is None
    assert Plane.through(np.zeros(2), np.zeros(2), np.array([1.0, 0.0])) is None


def test_batch_norm_is_recomputed_as_torch_does():
    model = lively("resnet10-w16", 32).model
    other, images = copy.deepcopy(model), torch.randn(3, 4, 3, 32, 32)
    recompute(model, iter(images))
    update_bn(images, other)
    for name, value in other.state_dict().items():
        assert torch.allclose(model.state_dict()[name].float(), value.float(), atol=1e-6), name
    assert not any(module.training for module in model.modules())
    assert all(module.momentum == 0.1 for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d))


def test_weights_that_are_not_zero_where_the_mask_cuts_are_refused():
    model = lively("resnet10-w16", 32).model
    masked = masked_weights_of(model)
    keep = np.random.default_rng(0).random(masked.total) < 0.3
    with masked.baked(torch.as_tensor(keep, dtype=torch.float32)) as baked:
        weights = {name: value.clone() for name, value in baked.state_dict().items()}
    assert must_be_zero(weights, model, keep, "x") == (~keep).sum()
    weights["conv1.weight"][:] = 1.0
    with pytest.raises(MaskError, match="a training: the mask"):
        must_be_zero(weights, model, keep, "a training")
    assert zeros_of({**weights, "bn1.running_mean": torch.zeros(16)}, model) < (~keep).sum()


def test_what_is_cut_is_said_by_layer(bench):
    layers = weight_layers(bench)
    total = sum(size for _, size in layers)
    keep = np.ones(total, dtype=bool)
    keep[[0, 1, total - 1]] = False
    cut, digest = cut_said(bench, WEIGHTS, keep)
    assert cut[layers[0][0]] == 2 and cut[layers[-1][0]] == 1 and sum(cut.values()) == 3
    other = keep.copy()
    other[[2, 1]] = other[[1, 2]]
    assert cut_said(bench, WEIGHTS, other)[0] == cut and cut_said(bench, WEIGHTS, other)[1] != digest
    assert cut_said(bench, NONE, np.zeros(0, dtype=bool)) == ({}, "")


def test_a_job_is_what_the_request_says(bench):
    shard = FairShard("trained", "bifp-str", 0.5, 1.0, 1)
    job = job_of(bench, fair_method("bifp-str"), shard, (0.5,), "key")
    assert (job.strength, job.iterations, job.check_every, job.notion) == (1.0, 6, 3, "accuracy")
    assert job.batches.size == 16 and len(job.groups) == len(job.original) == len(bench.tuned) == 200
    assert job.settings["rho"] == 1.0 and job.classifier.model is not bench.dense.model
    rows = np.arange(5)
    assert torch.equal(job.targets.labels[rows].argmax(1), torch.as_tensor(bench.labels("train")[:5]))
    first = trained_shard(FairShard("surface", "bifp-str", 0.5, 1.0))
    assert job.seed != job_of(bench, fair_method("bifp-str"), first, (0.5,), "key").seed
    bench.dense.model.train()
    found = job.look(bench.dense.model)
    assert set(found) == {"accuracy", "gap", "degradation", "val_loss"} and bench.dense.model.training
    bench.dense.model.eval()
    assert job.look(bench.dense.model) == found  # always in eval mode


def test_phases_of_one_training_are_one_progress(bench):
    told = []
    bench.inside = told.append
    step = _stepper(bench, fair_method("pf"), (0.5,))
    for total in (2, 4):
        for done in range(1, total + 1):
            step(done, total)
    bench.inside = lambda share: None
    assert told == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0])


def test_rows_of_a_curve_are_arrays_also_where_some_were_not_looked_at():
    arrays = curve_arrays([{"phase": "a", "step": 1}, {"phase": "bcd", "step": 2, "cut": 0.5}])
    assert list(arrays["curve/phase"]) == ["a", "bcd"] and arrays["curve/phase"].dtype.kind == "U"
    assert np.isnan(arrays["curve/cut"][0]) and arrays["curve/cut"][1] == 0.5 and curve_arrays([]) == {}


def results(**ends: tuple[float, float, float]) -> pd.DataFrame:
    """Rows of one variant on one axis: (delta, low, high) of its gap and of its two ends."""
    rows = [
        {"variant": "pf-50%", "axis": "skin", "metric": metric, "delta": delta, "delta_low": low, "delta_high": high,
         "delta_p": 0.01, "n": 100.0}
        for metric, (delta, low, high) in ends.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("gap", "worst", "best", "said"),
    [
        ((-0.1, -0.2, -0.05), (0.0, -0.02, 0.02), (-0.1, -0.15, -0.05), True),  # levelled down
        ((-0.1, -0.2, -0.05), (-0.1, -0.12, -0.08), (-0.2, -0.25, -0.15), True),  # both got worse
        ((-0.1, -0.2, -0.05), (0.1, 0.05, 0.15), (0.0, -0.02, 0.02), False),  # the worst improved
        ((0.1, 0.05, 0.2), (-0.2, -0.25, -0.15), (-0.1, -0.15, -0.05), False),  # the gap grew
    ],
)
def test_gaps_that_shrank_by_levelling_down_are_named(gap, worst, best, said):
    variants = pd.DataFrame({"variant": ["dense", "pf-50%"], "chosen": True})
    found = _levelled(variants, results(accuracy_gap=gap, worst_accuracy=worst, best_accuracy=best))
    assert bool(found) == said and all("pf-50%" in one and "skin" in one for one in found)


def test_models_of_one_class_are_counted():
    variants = pd.DataFrame({"seed": [-1, 0, 1], "degenerate": [1, 0, 1]})
    assert "1 of 2 trained models" in _degenerate(variants)[0] and _degenerate(variants.assign(degenerate=0)) == []


def test_a_target_inside_the_noise_is_said(bench):
    noise = 1.96 * bench.look.gap_error()
    assert "within the noise" in _target(bench, {"gap": 0.9 * noise})[0] and _target(bench, {"gap": 1.1 * noise}) == []
