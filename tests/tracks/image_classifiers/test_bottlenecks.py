"""AutoBot's loss by hand, and that it finds the filters that matter under a target."""

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled, PruneAuditError
from engine.surgery.filters.graph import filter_graph, gated
from engine.tracks.image_classifiers.methods._learned import (
    START,
    distance,
    learn_bottlenecks,
    softness,
)
from engine.training.losses import Targets
from tests.classifiers.worlds import hooks_of, some_batches, some_targets, stop_after, tiny

N = 24


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


def test_a_loss_that_is_no_number_names_the_iteration_and_leaves_no_hooks():
    classifier, held = tiny(), some_targets(N)

    def poison(done, total):
        if done == 4:
            held.weights[:] = float("inf")

    with pytest.raises(PruneAuditError, match="inf at iteration 5. Lower its learning rate"):
        learned(classifier, targets=held, step=poison)
    assert hooks_of(classifier.model) == 0


def test_it_stops_between_batches_and_leaves_no_hooks():
    classifier, steps = tiny(), []
    with pytest.raises(Cancelled):
        learned(
            classifier, check=stop_after(3), step=lambda done, total: steps.append((done, total))
        )
    assert steps == [(1, 60), (2, 60), (3, 60)] and hooks_of(classifier.model) == 0
