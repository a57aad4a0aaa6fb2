"""Which filters of a CNN must be cut together, where a cut filter is silenced, and what every layer
costs.

Of a vision transformer: the heads of each attention layer.
"""

from __future__ import annotations

from engine.core.errors import Fault, RequestError
from engine.models.load_image_classifier import Classifier
from engine.models.runtime import is_out_of_memory
from engine.surgery.filters.heads import head_graph
from engine.surgery.filters.reading import (
    COUNTED,
    SERVES,
    FilterGraph,
    FilterGroup,
    SmoothFlops,
    candidate_graph,
)
from engine.surgery.filters.safe import heads_can_be_cut, unsafe_roots

__all__ = ["COUNTED", "FilterGraph", "FilterGroup", "SmoothFlops", "filter_graph"]


def filter_graph(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier. The model itself is left as it is. RequestError where nothing can
    be cut.

    Groups whose cut does not equal their mask are left whole (safe.py), unless tests prove the
    whole architecture.
    """
    if classifier.architecture.is_proved:
        return candidate_graph(classifier)
    try:
        if classifier.architecture.has_heads:
            return _proved_heads(classifier)
        return candidate_graph(classifier, unsafe_roots(classifier))
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        if is_out_of_memory(error):
            raise
        what = (
            f"cannot be followed through its layers on images of {classifier.size} pixels"
            f" ({_first(error)})."
        )
        raise RequestError(
            Fault(classifier.name, what, "Give the size it was made for, or another model.")
        ) from error


def _proved_heads(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier with heads. RequestError where heads that are cut do not answer as
    silenced ones."""
    graph = head_graph(classifier)
    if not heads_can_be_cut(classifier, graph):
        what = (
            "is a transformer with heads that cannot be cut one by one: cut and silenced, they give"
            " other answers."
        )
        why = "Windows or biases by relative position count its heads too."
        raise RequestError(Fault(classifier.name, f"{what} {why}", SERVES))
    return graph


def _first(error: Exception) -> str:
    """The first words of what a model or Torch-Pruning raised."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
