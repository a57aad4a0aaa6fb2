"""What an image classifier is, before an audit of its filters, heads or weights is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.core.errors import Fault, MaskError, RequestError


def inspected(
    given: Mapping[str, Any], check: Callable[[Any, Any], Any] = lambda model, graph: None
) -> list[str]:
    """Sentences; given: model, weights, size and device as a request has them. RequestError with
    every fault.

    The model is loaded and its units are read and proved as an audit does it before it computes.
    check: what a track asks besides, of the network and its graph of filters or heads.
    """
    name, weights, size = str(given.get("model") or ""), given.get("weights"), given.get("size")
    if not name:
        raise RequestError(
            Fault("model", "is missing.", "Give an architecture, a model folder or a weight file.")
        )
    from engine.models.load_image_classifier import (
        fresh_classifier,
        is_architecture,
        load_classifier,
    )  # loads torch

    new, device = is_architecture(name) and weights is None, str(given.get("device") or "auto")
    model = (
        fresh_classifier(name, 2, size, device=device)
        if new
        else load_classifier(name, weights, size=size, device=device)
    )
    return [*_what(model, new), _units(model, new, check)]


def _what(model: Any, new: bool) -> list[str]:
    """What it is, whatever is asked of it."""
    from engine.models.checkpoint import size_said

    own = "a new " if new else "" if model.name == model.arch else f"{model.name}, "
    known = f" that tells {len(model.classes)} classes apart" if model.classes and not new else ""
    side = f"images of {model.size} × {model.size} pixels"
    what = f"This is {own}{model.arch}{known}: {size_said(model.n_parameters)}, {side}."
    if new:
        return [
            what,
            (
                "Its weights are random. The audit trains it on its training images before "
                "anything is cut."
            ),
        ]
    return [
        what,
        *model.notes,
        *([f"Classes: {', '.join(model.classes[:20])}."] if model.classes else []),
    ]


def _units(model: Any, new: bool, check: Callable[[Any, Any], Any]) -> str:
    """What of it can be cut, proved on the model unless its weights are new."""
    from engine.surgery.filters.graph import filter_graph, prove_filter_mask_works

    graph = filter_graph(model)
    check(model.model, graph)
    try:
        if not new:
            prove_filter_mask_works(model, graph)
    except MaskError as error:
        raise RequestError(Fault("model", str(error), "Give another model.")) from error
    proved = "" if new else ", proved on the model"
    if graph.groups[0].is_heads:
        return (
            f"What can be cut: {graph.total:,} attention heads in {len(graph.groups)}"
            f" layers{proved}."
        )
    whole = f"; {len(graph.whole)} convolutions stay whole" if graph.whole else ""
    return f"What can be cut: {graph.total:,} filters in {len(graph.groups)} groups{proved}{whole}."
