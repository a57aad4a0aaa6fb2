"""A classifier cut for real, and the proof that it is the masked one."""

from __future__ import annotations

from engine.classifiers.images.context import TEST, ImageContext
from engine.core.errors import MaskError
from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.cut import FilterAgreement, History, agree_filters, cut_filters

PROBES = 16
"""Images on which the masked model and the cut one are compared."""


def cut_and_proved(
    context: ImageContext, base: Classifier, mask: FilterMask, what: str
) -> tuple[Classifier, History, FilterAgreement]:
    """`base` cut for real, the history that replays the cut, and the comparison with the masked
    model.

    MaskError, which begins with `what`, where the two differ.
    """
    small, history = cut_filters(base, mask)
    agreement = agree_filters(
        base, context.graph, mask, small, context.images.read(context.rows(TEST)[:PROBES])
    )
    if not agreement.holds:
        raise MaskError(
            f"{what}: the masked model and the cut one differ by"
            f" {agreement.max_logit_difference:.3g} in a logit (allowed {agreement.tolerance:.3g})."
            " Nothing was kept of this trial."
        )
    return small, history, agreement
