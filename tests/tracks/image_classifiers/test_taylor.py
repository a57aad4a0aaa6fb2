"""Taylor importance against the slow obvious way, and the descent through several targets."""

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, PruneAuditError
from engine.surgery.filters.graph import filter_graph, gated
from engine.tracks.image_classifiers.methods._learned import (
    START,
    TaylorPruning,
    distance,
    learn_bottlenecks,
    softness,
)
from engine.training.losses import Targets
from tests.classifiers.worlds import (
    SMALL,
    TwoConvs,
    hooks_of,
    lively,
    some_batches,
    some_targets,
    stop_after,
    tiny,
)

N = 24


def pruning(classifier, graph=None, size=8, every=2, count=1, rate=0.01, held=None, **more):
    graph = graph or filter_graph(classifier)
    held = held or some_targets(N, len(classifier.classes))
    batches = some_batches(classifier, N, size, seed=3)
    return TaylorPruning(classifier, graph, batches, held, rate, every, count, **more)


def heard(model, names):
    """What these modules say, filled at the next pass, and the hooks that do it."""
    outputs = {}
    handles = [
        model.get_submodule(name).register_forward_hook(
            lambda _, __, out, name=name: outputs.update({name: out})
        )
        for name in names
    ]
    return outputs, handles


def test_importance_over_several_batches_and_the_training_between_cuts_are_torchs():
    """Batch norm in training mode, SGD with momentum 0.9: weights too are those of the plain
    loop."""
    classifier, slow = tiny(), tiny()
    graph = filter_graph(classifier)
    (stop,) = pruning(classifier, graph, every=3, rate=0.05).run([0.99 * graph.flops()])
    model, held = slow.model.requires_grad_(True).train(), some_targets(N)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    total, seen, stream = np.zeros(7), 0, some_batches(slow, N, 8, seed=3).forever()
    for _ in range(3):
        batch = next(stream)
        outputs, handles = heard(model, ("conv1", "bn2"))
        loss = held.each(batch.rows, model(batch.inputs)).mean()
        for out in outputs.values():
            out.retain_grad()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        parts = [
            (outputs[name] * outputs[name].grad).sum(dim=(2, 3)).abs().sum(dim=0)
            for name in ("conv1", "bn2")
        ]
        total += torch.cat(parts).detach().numpy() * len(batch.rows)
        seen += len(batch.rows)
        for handle in handles:
            handle.remove()
    assert stop.importance == pytest.approx(total / seen, rel=1e-4, abs=1e-8)
    for name, value in model.state_dict().items():
        assert torch.allclose(stop.weights[name].float(), value.float(), atol=1e-6), name


def test_normalised_importance_has_norm_one_in_every_layer():
    graph = filter_graph(tiny())
    goal = [0.99 * graph.flops()]
    (plain,), (stop,) = (
        list(pruning(tiny(), graph, normalise=one).run(goal)) for one in (False, True)
    )
    for group in graph.groups:
        span = slice(group.start, group.start + group.width)
        assert np.linalg.norm(stop.importance[span]) == pytest.approx(1.0)
        expected = plain.importance[span] / np.linalg.norm(plain.importance[span])
        assert stop.importance[span] == pytest.approx(expected)


def test_one_run_descends_through_several_targets():
    classifier = lively(SMALL, 16, 2)
    graph = filter_graph(classifier)
    goals = [graph.flops() / speedup for speedup in (1.5, 3, 6)]
    work = pruning(classifier, graph, every=1, count=30)
    stops = list(work.run(goals))
    assert [stop.goal for stop in stops] == goals and all(stop.met.holds for stop in stops)
    for wider, narrower in zip(stops, stops[1:], strict=False):
        assert not (narrower.met.keep & ~wider.met.keep).any()  # what is cut stays cut
        assert (
            len(narrower.curve) > len(wider.curve)
            and narrower.curve[: len(wider.curve)] == wider.curve
        )
        assert not torch.equal(wider.weights["conv1.weight"], narrower.weights["conv1.weight"])
    for stop in stops:
        assert np.bincount(graph.group_of[stop.met.keep], minlength=len(graph.groups)).min() >= 1
        assert abs(graph.flops(stop.met.keep) - stop.goal) <= 1e-3 * stop.goal
    flops = [row["flops"] for row in stops[-1].curve]
    assert flops == sorted(flops, reverse=True) and flops[0] == graph.flops()
    assert hooks_of(classifier.model) == 0 and not classifier.model.training
    assert not any(one.requires_grad for one in classifier.model.parameters())


def test_a_stop_keeps_what_was_when_it_was_reached():
    """Weights and curve are copies: the descent goes on with the same model."""
    classifier = tiny()
    whole = filter_graph(classifier).flops()
    stream = pruning(classifier).run([0.8 * whole, 0.4 * whole])
    first = next(stream)
    weights, rows = first.weights["fc.weight"].clone(), len(first.curve)
    importance = first.importance.copy()
    next(stream)
    assert torch.equal(first.weights["fc.weight"], weights) and len(first.curve) == rows
    assert np.array_equal(first.importance, importance)
    assert not torch.equal(classifier.model.fc.weight, weights)


def test_the_least_important_filter_goes_first_and_never_the_last_of_its_group():
    classifier = tiny()
    graph = filter_graph(classifier)
    (stop,) = pruning(classifier, graph, every=1).run([graph.least_flops])
    assert stop.met.holds and np.bincount(graph.group_of[stop.met.keep]).tolist() == [1, 1]
    classifier = tiny()
    classifier.model.fc.weight[:, 1] = 0.0  # conv2's filter 1 says nothing: its importance is 0
    work = pruning(classifier, graph, every=1, rate=1e-9)
    goal = graph.flops(np.array([1, 1, 1, 1, 0, 1, 1.0]))
    (stop,) = work.run([goal])
    assert stop.met.keep.tolist() == [True, True, True, True, False, True, True]


def test_a_goal_that_cannot_be_reached_ends_with_the_least_there_is():
    """A speedup right at the largest reachable one may come out a rounding below it."""
    graph = filter_graph(tiny())
    work = pruning(tiny(), graph, every=1, check=stop_after(200))
    (stop,) = work.run([graph.least_flops * (1 - 1e-12)])
    assert np.bincount(graph.group_of[stop.met.keep]).tolist() == [1, 1]


def test_what_is_cut_is_silent_in_training():
    """The gates that measure are the gates that mask: with conv2's filters cut but one, the others
    get no gradient."""
    classifier = tiny()
    graph = filter_graph(classifier)
    work = pruning(classifier, graph, every=1)
    work.alive = np.array([True, True, True, False, True, False, False])
    before = classifier.model.conv2.weight.clone()
    list(work.run([graph.flops(work.alive)]))
    changed = (classifier.model.conv2.weight != before).flatten(1).any(dim=1)
    assert changed.tolist() == [False, True, False, False]


def test_a_loss_that_is_no_number_names_the_iteration_and_leaves_no_hooks():
    classifier, held = tiny(), some_targets(N)
    held.weights[:] = float("nan")
    with pytest.raises(PruneAuditError, match="nan at iteration 1 of Taylor pruning"):
        list(pruning(classifier, held=held).run([1.0]))
    assert hooks_of(classifier.model) == 0


def test_it_stops_between_batches_and_leaves_no_hooks():
    classifier = tiny()
    graph = filter_graph(classifier)
    work = pruning(classifier, graph, check=stop_after(3))
    with pytest.raises(Cancelled):
        list(work.run([graph.least_flops]))
    assert len(work.curve) == 3 and hooks_of(classifier.model) == 0
    stream = pruning(classifier, graph).run([0.8 * graph.flops(), 0.4 * graph.flops()])
    next(stream)
    stream.close()  # a consumer that wants no more
    assert hooks_of(classifier.model) == 0


def test_dropout_is_seeded():
    graph = filter_graph(tiny())
    found = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        (stop,) = pruning(tiny(TwoConvs(2, 0.5)), graph).run([0.5 * graph.flops()])
        found.append(stop.importance)
    assert np.array_equal(*found)


# AutoBot's loss by hand, and that it finds the filters that matter under a target.


def learned(classifier=None, share=0.5, iterations=60, beta=3.0, rate=0.3, **more):
    classifier = classifier or tiny()
    graph = filter_graph(classifier)
    held = more.pop("targets", None) or some_targets(N)
    found = learn_bottlenecks(
        classifier,
        graph,
        some_batches(classifier, N, 8),
        held,
        share * graph.flops(),
        rate,
        beta,
        iterations,
        **more,
    )
    return found, graph


def test_distance_by_hand():
    """g is 1 for the whole model, 0 at the goal, 1 for nothing left; straight in between."""
    for flops, expected in ((100, 1.0), (70, 0.5), (40, 0.0), (30, 0.25), (0, 1.0)):
        assert float(distance(torch.tensor(float(flops)), 40.0, 100.0)) == pytest.approx(expected)
    flops = torch.tensor([70.0, 20.0], requires_grad=True)
    (distance(flops[0], 40.0, 100.0) + distance(flops[1], 40.0, 100.0)).backward()
    assert flops.grad.tolist() == pytest.approx([1 / 60, -1 / 40])


def test_softness_by_hand():
    """h: 0.9 is 0.1 away from 1, 0.3 is 0.3 away from 0."""
    gates = torch.tensor([0.9, 0.3, 0.0, 1.0], requires_grad=True)
    assert softness(gates).item() == pytest.approx(0.1)
    softness(gates[:2]).backward()
    assert gates.grad[:2].tolist() == pytest.approx([-0.5, 0.5])  # towards the nearer end


def test_the_first_loss_by_hand():
    """All gates are 0.9: cross-entropy of the gated model + beta g + 0.001 x 0.1."""
    classifier = tiny()
    found, graph = learned(classifier, beta=2.0, iterations=10)
    assert (
        pytest.approx(0.9) == 1 / (1 + np.exp(-START)) and pytest.approx(2.1972, abs=1e-4) == START
    )
    batch = next(some_batches(classifier, N, 8).forever())
    with gated(classifier.model, graph, torch.full((7,), 0.9)):
        cross = float(some_targets(N).loss(batch.rows, classifier.model(batch.inputs)))
    flops = graph.flops(np.full(7, 0.9))
    g = (flops - 0.5 * graph.flops()) / (0.5 * graph.flops())
    first = found.curve[0]
    assert first["cross_entropy"] == pytest.approx(cross, rel=1e-5)
    assert first["flops"] == pytest.approx(flops, rel=1e-5)
    assert first["loss"] == pytest.approx(cross + 2.0 * g + 1e-3 * 0.1, rel=1e-5)


@pytest.mark.parametrize("share", [0.7, 0.4, 0.2])
def test_it_learns_to_hit_the_target(share):
    found, graph = learned(share=share, iterations=150, beta=8.0)
    assert graph.flops(found.gates) == pytest.approx(share * graph.flops(), rel=0.05)
    assert found.gates.shape == (7,) and ((found.gates > 0) & (found.gates < 1)).all()
    assert [row["step"] for row in found.curve] == list(range(150))


def test_the_best_state_of_the_last_40_percent_is_kept():
    """Rate far too high, so that states jump about and the last one is not the best."""
    found, graph = learned(iterations=50, rate=3.0)
    last = found.curve[30:]
    best = min(last, key=lambda row: row["loss"])
    assert best is not last[-1] and graph.flops(found.gates) == pytest.approx(
        best["flops"], rel=1e-5
    )
    assert min(row["loss"] for row in found.curve[:30]) < max(row["loss"] for row in last)


def test_a_filter_nobody_listens_to_is_closed():
    classifier = tiny()
    classifier.model.bn2.bias[:] = 1.0  # every filter speaks
    classifier.model.fc.weight[:] = torch.tensor([[4.0, 6.0, 0.0, 8.0], [-8.0, -4.0, 0.0, -6.0]])
    with torch.no_grad():
        images = next(some_batches(classifier, N, N).epoch(0))
        spread = classifier.model(images.inputs)
        classifier.model.fc.weight *= (
            2.0 / spread.std(dim=0, keepdim=True).T
        )  # so that answers differ by image
        classifier.model.fc.bias -= classifier.model(images.inputs).mean(dim=0)
        answers = torch.zeros(N, 2)
        answers[images.rows] = torch.softmax(classifier.model(images.inputs), dim=1)
    found, _ = learned(
        classifier, share=0.75, iterations=120, targets=Targets(answers, torch.ones(N)), beta=1.0
    )
    assert (
        found.gates[3:].argmin() == 2 and found.gates[5] < 0.5 < np.delete(found.gates[3:], 2).min()
    )


def test_autobot_names_the_iteration_whose_loss_is_no_number_and_leaves_no_hooks():
    classifier, held = tiny(), some_targets(N)

    def poison(done, total):
        if done == 4:
            held.weights[:] = float("inf")

    with pytest.raises(PruneAuditError, match="inf at iteration 5. Lower its learning rate"):
        learned(classifier, targets=held, step=poison)
    assert hooks_of(classifier.model) == 0


def test_autobot_stops_between_batches_and_leaves_no_hooks():
    classifier, steps = tiny(), []
    with pytest.raises(Cancelled):
        learned(
            classifier, check=stop_after(3), step=lambda done, total: steps.append((done, total))
        )
    assert steps == [(1, 60), (2, 60), (3, 60)] and hooks_of(classifier.model) == 0
