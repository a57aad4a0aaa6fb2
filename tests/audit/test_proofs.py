"""Whoever measures under a mask proves first, on the very model that is loaded, that masks act:
counted by way."""

import pytest

from engine.audit.tracks import tracks
from engine.cli import main
from engine.core.errors import MaskError
from engine.store.runs import Store
from engine.surgery.filters import graph
from engine.surgery.heads import mask
from tests.audit.run_checks import small_audit
from tests.places import demo_of

MEASURED = {"language_models": ["--sparsity", "0.13"]}
"""How more is asked of an embedded run, by track; of others a set by hand, where they have a bench.
"""


@pytest.fixture
def asked(monkeypatch):
    """How often a proof began; each fails, so that nothing is measured after it."""
    found = []

    def fails(*_):
        found.append(1)
        raise MaskError("masks do not act")

    monkeypatch.setattr(mask, "_logits", fails)
    monkeypatch.setattr(graph, "_probes", fails)
    monkeypatch.setenv("PRUNEAUDIT_ENGINE", "off")
    return found


@pytest.mark.parametrize("track", list(tracks()))
def test_an_audit_proves_its_masks(track, tmp_path, asked):
    words = small_audit(track, tmp_path)
    assert main([*words, "--store", str(tmp_path / "store")]) == 1
    assert len(asked) == 1
    assert Store(tmp_path / "store").list() == []


@pytest.mark.parametrize("track", [name for name, entry in tracks().items() if entry.grow])
def test_more_of_a_run_proves_its_masks(track, tmp_path, asked):
    run = demo_of(track)
    words = MEASURED.get(track) or ["--mask", str(some_mask(run, tmp_path))]
    assert main(["measure", run, *words, "--store", str(tmp_path / "store")]) == 1
    assert len(asked) == 1


def some_mask(run, folder):
    """A mask that the run exports, with one unit less."""
    assert main(["export", run, "--to", str(folder / "out"), "--what", "masks"]) == 0
    return next((folder / "out").rglob("*mask*.json"))


def test_a_worker_of_a_cluster_proves_its_masks(monkeypatch):
    from engine.audit.ray_executor import Worker

    class Context:
        def prove(self):
            raise MaskError("masks do not act")

    monkeypatch.setattr("engine.audit.ray_executor.made_up", lambda given: Context(), raising=False)
    with pytest.raises(MaskError):
        Worker(("engine.audit.ray_executor:made_up", None))
