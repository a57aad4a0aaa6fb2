"""The parts of a fair training's measurement: planes between models, batch norm again, shares cut,
levelling down."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.optim.swa_utils import update_bn

from engine.core.errors import MaskError, RequestError
from engine.tracks.fair_training import run as warned
from engine.tracks.fair_training.context import FairShard, Look
from engine.tracks.fair_training.masked import masked_weights_of
from engine.tracks.fair_training.measurements.trained import (
    SIDE,
    Plane,
    job_of,
    must_be_zero,
    recompute,
    trained_shard,
    zeros_of,
)
from engine.tracks.fair_training.methods import NONE, WEIGHTS, fair_method
from engine.tracks.fair_training.run import (
    refuse_target,
    targets_of,
)
from engine.tracks.fair_training.tables import cut_said, first_reached, met_at, weight_layers
from tests.classifiers.worlds import lively
from tests.tracks.fair_training.worlds import fair_context, fair_request


def listed(name):
    return lambda *given: list(getattr(warned, name)(*given))


_degenerate, _effort, _levelled = map(listed, ("_degenerate", "_effort", "_levelled"))
_looks, _masks, _target = map(listed, ("_looks", "_masks", "_target"))


@pytest.fixture(scope="module")
def context():
    return fair_context()


def test_a_plane_gives_its_corners_back():
    draw = np.random.default_rng(0)
    points = [draw.standard_normal(50) for _ in range(3)]
    plane = Plane.through(*points)
    for place, corner in enumerate(plane.corners):
        assert np.allclose(plane.shares(*corner), np.eye(3)[place])
    first, second, third = plane.corners
    assert first == (0.0, 0.0) and second == pytest.approx(
        (np.linalg.norm(points[1] - points[0]), 0.0)
    )
    assert np.hypot(*third) == pytest.approx(
        np.linalg.norm(points[2] - points[0])
    )  # distances are kept
    assert np.hypot(third[0] - second[0], third[1]) == pytest.approx(
        np.linalg.norm(points[2] - points[1])
    )
    x, y = 1.3, -0.4
    mixed = sum(share * point for share, point in zip(plane.shares(x, y), points, strict=True))
    assert (
        np.linalg.norm(mixed - points[0]) == pytest.approx(np.hypot(x, y))
        and sum(plane.shares(x, y)) == 1.0
    )


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
    assert all(
        module.momentum == 0.1
        for module in model.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    )


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


def test_what_is_cut_is_said_by_layer(context):
    layers = weight_layers(context)
    total = sum(size for _, size in layers)
    keep = np.ones(total, dtype=bool)
    keep[[0, 1, total - 1]] = False
    cut, digest = cut_said(context, WEIGHTS, keep)
    assert cut[layers[0][0]] == 2 and cut[layers[-1][0]] == 1 and sum(cut.values()) == 3
    other = keep.copy()
    other[[2, 1]] = other[[1, 2]]
    assert (
        cut_said(context, WEIGHTS, other)[0] == cut
        and cut_said(context, WEIGHTS, other)[1] != digest
    )
    assert cut_said(context, NONE, np.zeros(0, dtype=bool)) == ({}, "")


def test_a_job_is_what_the_request_says(context):
    shard = FairShard("trained", "bifp-str", 0.5, 1.0, 1)
    job = job_of(context, fair_method("bifp-str"), shard, (0.5,), "key")
    assert (job.strength, job.iterations, job.check_every, job.notion) == (1.0, 6, 3, "accuracy")
    assert (
        job.batches.size == 16 and len(job.groups) == len(job.original) == len(context.tuned) == 200
    )
    assert job.settings["rho"] == 1.0 and job.classifier.model is not context.dense.model
    rows = np.arange(5)
    assert torch.equal(
        job.targets.labels[rows].argmax(1), torch.as_tensor(context.labels("train")[:5])
    )
    first = trained_shard(FairShard("surface", "bifp-str", 0.5, 1.0))
    assert job.seed != job_of(context, fair_method("bifp-str"), first, (0.5,), "key").seed
    context.dense.model.train()
    found = job.look(context.dense.model)
    assert (
        set(found) == {"accuracy", "gap", "degradation", "val_loss"}
        and context.dense.model.training
    )
    context.dense.model.eval()
    assert job.look(context.dense.model) == found  # always in eval mode


def results(before: float = 0.3, **ends: tuple[float, float, float]) -> pd.DataFrame:
    """Rows of one variant on one axis: (delta, low, high) of its gap and of its two ends; the dense
    model's gap, whose null band reaches up to .1."""
    dense = {
        "variant": "dense",
        "axis": "skin",
        "metric": "accuracy_gap",
        "value": before,
        "null_high": 0.1,
    }
    rows = [dense] + [
        {
            "variant": "pf-50%",
            "axis": "skin",
            "metric": metric,
            "delta": delta,
            "delta_low": low,
            "delta_high": high,
            "delta_p": 0.01,
            "n": 100.0,
        }
        for metric, (delta, low, high) in ends.items()
    ]
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
    within = results(0.09, accuracy_gap=gap, worst_accuracy=worst, best_accuracy=best)
    assert _levelled(variants, within) == [], "a gap inside its null band did not become smaller"


def test_models_of_one_class_are_counted():
    variants = pd.DataFrame({"seed": [-1, 0, 1], "degenerate": [1, 0, 1]})
    assert (
        "1 of 2 trained models" in _degenerate(variants)[0]
        and _degenerate(variants.assign(degenerate=0)) == []
    )


def test_a_target_inside_the_noise_is_said(context):
    noise = 1.96 * context.look.gap_error()
    assert "within the noise" in _target(context, {"gap": 0.9 * noise}, None)[0]
    assert _target(context, {"gap": 1.1 * noise}, None) == []


def test_a_target_without_groups_to_compare_is_said(context):
    few = fair_context(fair_request(tune_on="validation"))
    (said,) = _target(few, {"gap": float("nan")}, 0.1)
    assert "No gap can be compared" in said and "is unknown" in said


def test_a_gap_inside_its_null_band_is_no_target(context):
    """Nothing is looked for where there is nothing to mend, and a stated gap is refused with the
    reason."""
    band, gap = context.look.null_band(), context.look.of(context.look.dense)["gap"]
    assert gap <= band.high and np.isnan(targets_of(context, fair_request())["gap"])
    (said,) = _target(context, targets_of(context, fair_request()), None)
    assert "no gap to mend" in said and f"{band.high:.3f}" in said
    with pytest.raises(RequestError, match=r"met at the start.*\n*.*no gap to mend"):
        refuse_target(context.look, fair_request(fair_gap=0.2))
    with pytest.raises(RequestError, match="inside the null band"):
        refuse_target(context.look, fair_request(fair_gap=gap / 2))
    refuse_target(context.look, fair_request(fair_gap=0.2, notion="degradation"))


def test_a_gap_above_its_null_band_is_halved_in_its_excess():
    """One group is always right and the other half the time: the target lies between the gap and
    what chance gives."""
    labels, groups = np.arange(400) % 2, np.arange(400) // 200
    right = (groups == 0) | (np.arange(400) // 2 % 2 == 0)
    answers = np.eye(2)[np.where(right, labels, 1 - labels)]
    look = Look(labels, groups, 2, answers)
    band = look.null_band()
    assert look.of(answers)["gap"] == 0.5 and 0.05 < band.high < 0.15 and band.p < 0.01
    world = SimpleNamespace(look=look)
    assert targets_of(world, fair_request())["gap"] == pytest.approx((0.5 + band.high) / 2)
    refuse_target(look, fair_request(fair_gap=0.3))
    with pytest.raises(RequestError, match=f"between {band.high:.3f} and 0.500"):
        refuse_target(look, fair_request(fair_gap=0.5))


def test_looks_too_few_for_the_paper_s_saving_are_said(context):
    """6 updates, a look every 3: at most half can show."""
    (said,) = _looks(context)
    assert "more than 50% cannot show" in said and "94%" in said
    assert _looks(fair_context(fair_request(iterations=100, check_every=6))) == []


def test_the_notion_degradation_takes_half_of_the_gap_of_accuracy_and_says_so():
    request = fair_request(notion="degradation")
    other, stated = fair_context(request), replace(request, fair_gap=0.03)
    dense = other.look.of(other.look.dense)
    targets = targets_of(other, request)
    assert dense["degradation"] == 0.0 and targets["gap"] == pytest.approx(dense["gap"] / 2)
    assert "half of the dense model's gap of accuracy" in _target(other, targets, None)[0]
    assert (
        targets_of(other, stated)["gap"] == 0.03
        and _target(other, targets_of(other, stated), 0.03) == []
    )


def test_targets_are_unknown_where_no_gap_may_be_compared():
    """Of the 40 validation images looked at, one group has two classes of enough images at most."""
    request = fair_request(tune_on="validation", fair_gap=0.1)
    other = fair_context(request)
    assert other.look.compared.sum() < 2 and np.isnan(targets_of(other, request)["gap"])
    assert np.isfinite(targets_of(other, request)["accuracy"])


LOOKED = pd.DataFrame(
    {
        "step": range(1, 7),
        "gap": [0.0, 0.2, np.nan, 0.0, 0.0, 0.2],
        "degradation": [0.2, 0.2, np.nan, 0.2, 0.2, 0.0],
        "accuracy": [0.9, 0.9, np.nan, 0.9, 0.9, 0.9],
        "cut": [0.5, 0.5, np.nan, 0.5, 0.5, 0.5],
    }
)


@pytest.mark.parametrize(
    ("curve", "notion", "step", "held"),
    [
        (LOOKED, "accuracy", 4, False),  # the first look was luck; steps 4 and 5 are two in a row
        (LOOKED, "degradation", 6, True),  # the last look counts alone
        (LOOKED.iloc[:2], "accuracy", None, False),
        (LOOKED.iloc[:1], "accuracy", 1, True),
        (
            LOOKED.assign(cut=[0.5, 0.5, np.nan, 0.4, 0.5, 0.5]),
            "accuracy",
            None,
            False,
        ),  # not sparse yet
        (LOOKED.assign(gap=np.nan), "accuracy", None, False),
        (LOOKED.iloc[2:3], "accuracy", None, False),  # never looked at
        (LOOKED.assign(accuracy=0.4), "accuracy", None, False),
    ],
)
def test_reached_takes_two_looks_in_a_row(curve, notion, step, held):
    looks = met_at(curve, {"gap": 0.05, "accuracy": 0.5}, 0.5, notion)
    first = first_reached(looks)
    assert (None if first is None else first["step"]) == step and bool(
        looks["met"].tail(1).any()
    ) == held


def test_bifp_is_said_to_see_more_images_and_to_have_been_tuned(context):
    """3 of 4 updates of the mask's default settle: 1 + 0.75; with two inner updates half of it
    more."""
    variants = pd.DataFrame({"method": ["dense", "bifp-str", "bifp-str", "pf"]})
    (said,) = _effort(context, variants)
    assert "1.75 times the images" in said and "chosen on avatars" in said
    assert _effort(context, variants[variants["method"] != "bifp-str"]) == []
    twice = fair_context(fair_request(method_settings={"bifp-str": {"inner": 2}}))
    assert "1.38 times" in _effort(twice, variants)[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, False),
        ({"mask_rate": 0.0}, True),
        ({"settle": 1.0}, True),
        ({"inner": 7}, True),
        ({"inner": 4}, False),
        ({"inner": 4, "settle": 0.5}, True),
    ],
)
def test_a_mask_that_never_learns_is_said(settings, said):
    request = fair_request(method_settings={"bifp-str": settings})
    found = _masks(request, pd.DataFrame({"method": ["dense", "bifp-str", "bifp-uns"]}))
    assert bool(found) == said and all("mask of bifp-str is never" in one for one in found)
