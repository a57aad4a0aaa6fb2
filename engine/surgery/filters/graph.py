"""Which filters of a CNN must be cut together, where a cut filter is silenced, and what every layer costs.

Of a vision transformer: the heads of each attention layer.
"""

from __future__ import annotations

from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.heads import head_graph
from engine.surgery.filters.reading import COUNTED, FilterGraph, FilterGroup, SmoothFlops, candidate_graph
from engine.surgery.filters.safe import unsafe_roots

__all__ = ["COUNTED", "FilterGraph", "FilterGroup", "SmoothFlops", "filter_graph"]


def filter_graph(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier. The model itself is left as it is. RequestError where nothing can be cut.

    Groups whose cut does not equal their mask are left whole (safe.py), unless tests prove the whole architecture.
    """
    if classifier.architecture.has_heads:
        return head_graph(classifier)
    if classifier.architecture.is_proved:
        return candidate_graph(classifier)
    return candidate_graph(classifier, unsafe_roots(classifier))
