"""What every way to a sparse and fair model promises, found by itself; and the simple ones by
hand."""

import inspect
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from engine.core.types import rng
from engine.surgery.filters.graph import cut_filters, filter_graph, places_of, with_weights
from engine.surgery.ranking import shares_within
from engine.tracks.fair_training.masked import (
    best,
    kept_of,
    masked_filters_of,
    masked_weights_of,
)
from engine.tracks.fair_training.methods import (
    FILTERS,
    FLOPS,
    NONE,
    NOTIONS,
    WEIGHTS,
    fair_method,
    fair_methods,
)
from engine.tracks.fair_training.methods import bifp as _shared
from engine.tracks.fair_training.methods.bifp import (
    by_chance,
    geometric_median,
    magnitudes,
    sensitivity,
    trainer_of,
)
from engine.tracks.fair_training.trainer import Trainer
from tests.classifiers.worlds import TwoConvs, tiny
from tests.tracks.fair_training.jobs import (
    ITERATIONS,
    SPARSITIES,
    each,
    fair_job,
    same_numbers,
    same_weights,
    small_graph,
    small_model,
    trained,
    widths,
    world,
)

EACH = pytest.mark.parametrize("name", each())


def cutting(*units: str):
    """Methods that cut these units as much as is asked, not in another's widths."""
    every = {name for name, one in fair_methods().items() if not one.widths_of}
    cut = [one for one in each() if fair_methods()[one.values[0]].units in units]
    return pytest.mark.parametrize("name", [one for one in cut if one.values[0] in every])


@cache
def once(name: str, strength: float = 1.0):
    return trained(name, strength=strength)


def held(name: str):
    """The units of a method."""
    model = small_model().model
    return (
        masked_filters_of(model, small_graph())
        if fair_method(name).units == FILTERS
        else masked_weights_of(model)
    )


@EACH
def test_one_result_per_sparsity_ascending_and_exactly_as_much_cut_as_asked(name):
    method, found = fair_methods()[name], once(name)
    expected = (
        (0.0,) if method.units == NONE else SPARSITIES if method.one_descent else SPARSITIES[1:]
    )
    assert tuple(one.sparsity for one in found) == expected
    for one in found:
        if method.units == NONE:
            assert one.keep.shape == one.scores.shape == (0,)
            continue
        blocks = held(name).blocks
        assert one.keep.shape == one.scores.shape == blocks.shape and one.keep.dtype == bool
        assert one.keep.sum() == (
            sum(widths()) if method.widths_of else kept_of(len(blocks), one.sparsity)
        )
        assert set(blocks[one.keep]) == set(blocks)  # one of every layer stays
        assert np.isfinite(one.scores).all()
        assert np.array_equal(
            one.keep, best(one.scores, one.keep.sum(), blocks)
        )  # what stays scores highest


@cutting(FILTERS, WEIGHTS)
def test_any_sparsity_is_met_exactly(name):
    settings = {"share": 0.6} if name == "lottery" else {}
    (one,) = trained(name, sparsities=(0.95,), iterations=1, settings=settings)
    assert one.keep.sum() == kept_of(len(one.keep), 0.95)
    if fair_method(name).units == WEIGHTS:
        zero = sum(int((one.weights[part.name] == 0).sum()) for part in held(name).parts)
        assert zero == (~one.keep).sum()


@pytest.mark.parametrize("name", ["bifp-widths-random", "bifp-widths-fpgm"])
def test_a_control_has_the_other_method_s_widths_and_its_own_filters(name):
    groups = small_graph().group_of
    (one,), (other,) = once(name), trained(name, seed=1, draw=1)
    assert np.array_equal(np.bincount(groups[one.keep]), widths())
    assert np.array_equal(np.bincount(groups[other.keep]), widths())
    random = name.endswith("random")
    assert np.array_equal(one.keep, other.keep) != random
    again = trained(name, draw=2)[0]
    assert np.array_equal(again.keep, one.keep) != random, "draws of one seed are other filters"
    assert {row["phase"] for row in one.curve} == {"fair"}, "then it is trained as P&F"


@cutting(FILTERS)
def test_at_equal_flops_every_method_leaves_the_same(name):
    (one,) = trained(name, sparsities=(0.75,), iterations=3, equal=FLOPS, check_every=1)
    left = small_graph().flops(one.keep) / small_graph().flops()
    assert left == pytest.approx(0.25, abs=0.01)
    assert one.curve[-1]["cut"] == pytest.approx(1 - left, abs=1e-9)
    assert one.keep.sum() != kept_of(len(one.keep), 0.75), "filters differ in cost"


@EACH
def test_the_weights_belong_to_the_last_look(name):
    """What is handed over answers as what was measured last: really cut for filters, with zeros for
    weights."""
    whole = small_model()
    for one in once(name):
        small = with_weights(whole, {key: value.numpy() for key, value in one.weights.items()})
        if fair_methods()[name].units == FILTERS:
            small, _ = cut_filters(small, small_graph().mask(one.keep))
        with torch.no_grad():
            answers = small.model(small.prepared(world()[0][:6])).softmax(dim=1)
        assert one.curve[-1]["accuracy"] == pytest.approx(float(answers[0, 0]), abs=1e-5)
        assert one.curve[-1]["val_loss"] == pytest.approx(float(answers[1, 0]), abs=1e-5)


@EACH
def test_it_changes_its_own_model_alone_and_depends_on_its_seed_alone(name):
    """The job's own copy, whole and with nothing left on it; images, labels, groups and the start's
    answers stay as they are. Random numbers of the outside world do not matter."""
    torch.manual_seed(99)
    np.random.seed(99)
    job = fair_job(name)
    model, targets = job.classifier.model, job.targets
    given = [*world(), job.original, targets.labels.numpy(), targets.weights.numpy()]
    before = [part.copy() for part in given]
    rates = job.recipe, dict(job.settings)
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    found = list(fair_method(name).train(job))
    assert all(map(np.array_equal, before, given)) and rates == (job.recipe, dict(job.settings))
    assert {key: value.shape for key, value in found[-1].weights.items()} == shapes
    own = {value.data_ptr() for value in model.state_dict().values()}
    for value in found[-1].weights.values():
        assert bool(value.isfinite().all()) and value.data_ptr() not in own
    assert not model.training and not any(part.requires_grad for part in model.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert all(same_numbers(one, two) for one, two in zip(once(name), found, strict=True))
    other = trained(name, seed=1)[-1]
    assert not torch.equal(found[-1].weights["fc.weight"], other.weights["fc.weight"])


@EACH
def test_it_spends_what_it_says(name):
    """Every method but the descent takes as many weight updates as it was given, both stages
    together."""
    spent = once(name)[-1].spent
    assert (
        set(spent) == {"iterations", "mask_updates", "examples", "seconds"} and spent["seconds"] > 0
    )
    if not fair_methods()[name].one_descent:
        assert spent["iterations"] == ITERATIONS
    assert (spent["mask_updates"] > 0) == (
        name.startswith("bifp") and not fair_methods()[name].widths_of
    )


@pytest.mark.parametrize(
    ("fair", "plain"),
    [
        ("dense-fair", "dense-tuned"),
        ("pf", "fpgm"),
        ("pf-snip", "snip"),
        ("bifp-str", "bifp-str-no-both"),
        ("bifp-str-no-m", "bifp-str-no-both"),
        ("bifp-str-no-w", "bifp-str-no-both"),
    ],
)
def test_without_strength_a_fair_method_is_its_plain_twin_to_the_bit(fair, plain):
    """λ 0: the same filters, the same images in the same order, the same weights."""
    assert same_weights(once(fair, 0.0)[0], once(plain)[0])


@pytest.mark.parametrize("name", ["bifp-str", "bifp-uns", "dense-fair", "fp", "pf"])
def test_strength_does_something_but_where_the_tolerance_is_above_every_gap(name):
    plain = once(name, 0.0)[0]
    assert not same_weights(plain, trained(name, strength=5.0)[0])
    assert same_weights(plain, trained(name, strength=5.0, tolerance=1.0)[0])


@pytest.mark.parametrize("name", ["dense-fair", "bifp-str"])
def test_what_was_there_before_matters_to_degradation_only(name):
    """A start that was right about group 0 only: now group 0 is what fell, whichever group is
    ahead."""
    method, found = fair_methods()[name], {}
    _, labels, groups = world()
    for notion in NOTIONS:
        for right in (0, 1):
            start = np.where(
                groups[:, None] == right, np.eye(2)[labels], 1 - np.eye(2)[labels]
            ).astype(np.float32)
            job = replace(fair_job(name, strength=5.0, notion=notion), original=start)
            (found[notion, right],) = method.train(job)
    assert same_weights(found["accuracy", 0], found["accuracy", 1])
    assert not same_weights(found["degradation", 0], found["degradation", 1])


def test_ablations_lack_what_their_names_say():
    """λ acts on the weights only, on the mask only, or on both: what does not matter is the same to
    the bit."""
    both, no_m, no_w = (
        fair_method(name) for name in ("bifp-str", "bifp-str-no-m", "bifp-str-no-w")
    )
    assert (both.fair_weights, both.fair_mask) == (True, True)
    assert (no_m.fair_weights, no_m.fair_mask) == (True, False)
    assert (no_w.fair_weights, no_w.fair_mask) == (False, True)
    fixed = {
        "settings": {"settle": 1.0},
        "strength": 5.0,
    }  # the mask never learns, so only the weights' term is left
    assert same_weights(trained("bifp-str", **fixed)[0], trained("bifp-str-no-m", **fixed)[0])
    assert same_weights(
        trained("bifp-str-no-w", **fixed)[0],
        trained("bifp-str-no-both", settings={"settle": 1.0})[0],
    )
    assert not same_weights(trained("bifp-str", **fixed)[0], trained("bifp-str-no-w", **fixed)[0])


def test_a_mask_that_never_learns_is_pf():
    """BiFP with a fixed first mask is prune, then train fairly; pf cuts before it trains, so up to
    rounding."""
    found = {}
    for name, settings in (("bifp-str", {"settle": 1.0}), ("pf", {})):
        classifier = tiny(TwoConvs(), 16)
        job = replace(
            fair_job(
                name, classifier=classifier, strength=2.0, sparsities=(0.3,), settings=settings
            ),
            graph=filter_graph(classifier),
            look=lambda model: {},
        )
        (found[name],) = fair_method(name).train(job)
    one, two = found["bifp-str"], found["pf"]
    places = places_of(tiny(TwoConvs(), 16), filter_graph(tiny(TwoConvs(), 16)).mask(one.keep))
    assert np.array_equal(one.keep, two.keep) and not one.keep.all()
    for key, place in places.items():
        mine, other = (each.weights[key].flatten()[place.flatten()] for each in (one, two))
        assert torch.allclose(mine, other, atol=1e-4), key
    assert [row["loss"] for row in one.curve] == pytest.approx(
        [row["loss"] for row in two.curve], abs=1e-4
    )


@pytest.mark.parametrize(
    "setting",
    [
        {"implicit": "none"},
        {"implicit": "published"},
        {"rho": 0.01},
        {"mask_rate": 0.2},
        {"own": 0.4},
        {"ridge": True},
        {"update": "plain"},
        {"inner": 2},
        {"settle": 0.8},
        {"start": "random"},
        {"sharpness": 5.0},
    ],
    ids=lambda one: "-".join(map(str, *one.items())),
)
def test_every_setting_of_bifp_does_something(setting):
    other = trained("bifp-str", settings=setting, iterations=10, strength=5.0)[0]
    plain = _longer()
    assert not np.array_equal(other.scores, plain.scores)
    assert other.keep.sum() == plain.keep.sum()


@cache
def _longer():
    return trained("bifp-str", iterations=10, strength=5.0)[0]


def test_every_declared_setting_is_read():
    """A setting that nobody reads would be a promise on the screen that is not kept."""
    for name, method in fair_methods().items():
        sources = "".join(
            inspect.getsource(inspect.getmodule(kind)) for kind in type(method).__mro__[:-2]
        )
        for setting in method.settings:
            assert f'"{setting.name}"' in sources + inspect.getsource(_shared), (name, setting.name)


def test_geometric_median_random_and_magnitude_by_hand():
    classifier = tiny(TwoConvs())
    model = classifier.model
    model.conv1.weight[:] = torch.tensor([0.0, 1, 5]).view(3, 1, 1, 1) * _first_only((3, 3, 3, 3))
    job = fair_job("fpgm", classifier=classifier)
    job = replace(job, graph=filter_graph(classifier))
    assert geometric_median(job)[:3].tolist() == pytest.approx(
        [2 / 3, 1 / 3, 1]
    )  # distances 6, 5, 9
    drawn = by_chance(job)
    assert np.array_equal(drawn, shares_within(job.graph, rng("random filters", 0).random(7)))
    assert sorted(drawn[:3]) == pytest.approx([1 / 3, 2 / 3, 1]) and sorted(drawn[3:]) == [
        0.25,
        0.5,
        0.75,
        1,
    ]
    trainer = trainer_of(fair_method("snip"), job)
    weights = [
        model.get_parameter(name).flatten()
        for name in ("conv1.weight", "conv2.weight", "fc.weight")
    ]
    assert magnitudes(trainer) == pytest.approx(torch.cat(weights).abs().numpy(), abs=1e-7)


def _first_only(shape: tuple[int, ...]) -> torch.Tensor:
    found = torch.zeros(shape)
    found[:, 0, 0, 0] = 1.0
    return found


def test_snip_by_hand():
    """|theta dL/dtheta|, the gradient of two batches summed before the absolute value; batch norm
    as it was trained."""
    classifier, other = small_model(), small_model()
    job = fair_job("snip", classifier=classifier)
    statistics = classifier.model.get_buffer("bn1.running_mean").clone()
    found = sensitivity(job, trainer_of(fair_method("snip"), job), 2)
    batches = job.batches.forever()
    model = other.model.requires_grad_(True).eval()
    total = sum(
        job.targets.loss(batch.rows, model(batch.inputs))
        for batch in (next(batches), next(batches))
    )
    total.backward()
    names = [part.name for part in masked_weights_of(model).parts]
    by_hand = torch.cat(
        [(value * value.grad).abs().flatten() for value in map(model.get_parameter, names)]
    )
    assert found == pytest.approx(by_hand.detach().numpy(), rel=1e-3, abs=1e-5)
    assert torch.equal(statistics, classifier.model.get_buffer("bn1.running_mean"))
    one = once("snip")[0]
    assert np.array_equal(one.scores, found) and np.array_equal(
        one.keep, best(found, one.keep.sum(), held("snip").blocks)
    )


def test_fpgm_pf_and_pf_random_cut_what_they_say():
    job = fair_job("fpgm")
    ranks, drawn = geometric_median(job), by_chance(job)
    assert all(np.array_equal(once(name)[0].scores, ranks) for name in ("fpgm", "pf", "pf-late"))
    assert np.array_equal(once("pf-random")[0].scores, drawn)
    other = trained("pf-random", seed=1)[0]
    assert not np.array_equal(other.keep, once("pf-random")[0].keep)
    assert not np.array_equal(
        once("fp")[0].scores, ranks
    )  # fp looks at the filters after fair training


def test_two_stages_take_as_long_as_one_and_are_told_apart():
    for name, stages in (("fp", ("fair", "plain")), ("pf-late", ("plain", "fair"))):
        phases = [row["phase"] for row in trained(name, iterations=8)[0].curve]
        assert phases == [stages[0]] * 4 + [stages[1]] * 4
        shifted = [
            row["phase"] for row in trained(name, iterations=8, settings={"first": 0.25})[0].curve
        ]
        assert shifted == [stages[0]] * 2 + [stages[1]] * 6


def test_fp_trains_the_whole_model_first():
    """Before the cut every filter acts: the first stage is dense-fair's beginning."""
    one = trained("fp", iterations=4, settings={"first": 1.0}, strength=2.0)[0]
    dense = trained("dense-fair", iterations=4, strength=2.0)[0]
    assert all(torch.equal(one.weights[name], dense.weights[name]) for name in one.weights)
    assert one.keep.sum() == kept_of(small_graph().total, SPARSITIES[1])


def test_the_lottery_cuts_a_share_per_round_and_rewinds(monkeypatch):
    """Every phase starts from the first weights, cut ones at 0; what is cut stays cut."""
    classifier, seen = small_model(), []
    start = {name: value.clone() for name, value in classifier.model.state_dict().items()}
    run = Trainer.run

    def watched(self, phase, *args, **more):
        rewound = all(
            torch.equal(value, start[name]) for name, value in self.model.state_dict().items()
        )
        seen.append((phase, 1.0 if self.keep is None else self.keep.mean(), rewound, self.keep))
        run(self, phase, *args, **more)

    monkeypatch.setattr(Trainer, "run", watched)
    job = fair_job("lottery", classifier=classifier, sparsities=(0.3, 0.7), settings={"share": 0.2})
    one, two = fair_method("lottery").train(job)
    assert [phase for phase, *_ in seen] == [
        "round-1",
        "round-2",
        "final-2",
        "round-3",
        "round-4",
        "round-5",
        "round-6",
        "final-6",
    ]
    assert [share for _, share, *_ in seen] == pytest.approx(
        [1, 0.8, 0.7, 0.7, 0.56, 0.448, 0.3584, 0.3], abs=1e-3
    )
    assert all(rewound for *_, rewound, _ in seen)
    for (*_, before), (*_, after) in zip(seen[1:], seen[2:], strict=False):
        assert not (after & ~before).any()  # nothing comes back
    assert not (two.keep & ~one.keep).any()
    assert (
        two.spent["iterations"] == 7 * ITERATIONS
    )  # the last training of the first leads nowhere else
    assert one.spent["iterations"] == 3 * ITERATIONS


def test_the_lottery_cuts_the_smallest_weights_of_what_was_trained(monkeypatch):
    """One round: the weights that are smallest after it go, over all layers, ties and all."""
    ends = []
    run = Trainer.run

    def watched(self, *args, **more):
        run(self, *args, **more)
        ends.append(magnitudes(self))

    monkeypatch.setattr(Trainer, "run", watched)
    (one,) = trained("lottery", sparsities=(0.4,), settings={"share": 0.5})
    assert np.array_equal(one.keep, best(ends[0], one.keep.sum(), held("lottery").blocks))
