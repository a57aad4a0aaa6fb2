"""Fair trainings that finish in seconds: few avatars of 32 pixels, a new small model, a handful of
iterations."""

from pathlib import Path
from typing import Any

from engine.classifiers.images.dense import starting_model
from engine.tracks.fair_training.context import FairContext
from engine.tracks.fair_training.measurements import fair_measurements
from engine.tracks.fair_training.request import FairRequest, validate_fair
from tests.classifiers.worlds import SMALL


def fair_request(**changes: object) -> FairRequest:
    """One sparsity, two methods of filters, two of weights, two seeds, six iterations."""
    values: dict[str, Any] = {
        "model": SMALL,
        "data": "avatars",
        "target": "blond",
        "axes": ("skin",),
        "methods": ("bifp-str", "pf", "bifp-uns", "snip"),
        "method_settings": {"snip": {"batches": 2}, "lottery": {"share": 0.4}},
        "sparsities": (0.5,),
        "equal": "filters",
        "iterations": 6,
        "check_every": 3,
        "recipe": {"batch": 16},
        "train": {"epochs": 2, "batch": 32, "rate": 3e-3},
        "max_images": 200,
        "seeds": 2,
        "device": "cpu",
    }
    return FairRequest(**{**values, **changes})


def fair_context(request: FairRequest | None = None, **more: Any) -> FairContext:
    """A context that keeps its measurements in memory."""
    plan = validate_fair(request or fair_request())
    return FairContext(
        starting_model(plan),
        plan.images,
        plan.request.settings(),
        fair_measurements(),
        mirror=plan.request.mirrors,
        **more,
    )


def cluster_world(folder: Path) -> tuple[Any, list[Any]]:
    """A new context that keeps its measurements in memory, and some of its shards."""
    from engine.tracks.fair_training.request import arms_of
    from engine.tracks.fair_training.run import context_of, phases_of

    request = fair_request(seeds=1, methods=("bifp-str", "snip"))
    phases = phases_of(request, arms_of(request))
    context = context_of(validate_fair(request))
    names = ("train the dense model", "ask the dense model", "train and cut")
    return context, [shard for name in names for shard in phases[name]]


def small_audit(folder: Path) -> list[str]:
    """Words of a command that audits in seconds and reads nothing of the user's."""
    asked = (
        f"fairtrain --model {SMALL} --data avatars --target blond --group skin --sparsity k3"
        " --method bifp-str,snip --set snip.batches=1 --seeds 1 --iterations 4 --check-every 2"
        " --recipe batch=16 --train epochs=1 --train batch=32 --max-images 100 --device cpu"
    )
    return asked.split()
