"""Captum's layer attributions of a text classifier: the one place that calls Captum.

Attributed is the logit of one class per text; inputs are word embeddings, the baseline's at the
start of the path (`conductance.baseline_embeddings`). Captum works layer by layer and repeats its
passes for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import torch
from captum.attr import (
    IntegratedGradients,
    LayerConductance,
    LayerDeepLift,
    LayerGradientXActivation,
    LayerIntegratedGradients,
)
from torch import Tensor, nn

from engine.core.errors import PruneAuditError
from engine.core.types import Values
from engine.models.load_text_classifier import TextClassifier
from engine.tracks.text_classifiers.conductance import baseline_embeddings, conductance
from engine.tracks.text_classifiers.scores.base import kept_units
from engine.training.losses import log_odds

STEPS = 20
STEPS_OF_WORDS = 64
"""Of integrated gradients of words: enough that they add up to the change of the log-odds to about
a hundredth."""
AT_ONCE = 16
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Largest difference that passes, as a share of the layer's largest attribution."""
COARSE = 3e-2
"""The same in formats of half the width, which round at about 1e-2."""


class _Logits(nn.Module):
    """The classifier from word embeddings to logits [texts, classes], as a module of the shape
    Captum asks for."""

    def __init__(self, clf: TextClassifier, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = clf.model, names

    def forward(self, embedded: Tensor, *values: Tensor) -> Tensor:
        # Some families hand on what their layers attended to only where asked for it.
        given = dict(zip(self.names, values, strict=True))
        return self.model(inputs_embeds=embedded, output_attentions=True, **given).logits


class _LogOdds(_Logits):
    """The classifier from word embeddings to the log-odds of every class, [texts, classes]."""

    def forward(self, embedded: Tensor, *values: Tensor) -> Tensor:
        return log_odds(super().forward(embedded, *values))


def _parts(
    clf: TextClassifier, batch: Mapping[str, Tensor], baseline: str = "pad"
) -> tuple[_Logits, Tensor, Values]:
    """The model, the texts' embeddings, and what else every attribution is given."""
    end, start = baseline_embeddings(clf, batch, baseline)
    rest = {name: values for name, values in batch.items() if name != "input_ids"}
    more = {"baselines": start, "additional_forward_args": tuple(rest.values())}
    return _Logits(clf, tuple(rest)), end, more


def layer_conductance(
    clf: TextClassifier,
    batch: Mapping[str, Tensor],
    target: Tensor,
    steps: int = STEPS,
    check: Callable[[], None] = lambda: None,
) -> list[Tensor]:
    """Conductance of every layer's attention probabilities, [texts, heads, tokens, tokens] each;
    target [texts] int.

    Layers without heads get a map without heads.
    """
    model, end, more = _parts(clf, batch)
    found = []
    for layer, units in enumerate(kept_units(clf)):
        check()
        if not len(units):
            found.append(end.new_zeros(len(end), 0, end.shape[1], end.shape[1]))
            continue
        module = clf.adapter.attention_probabilities(clf.model, layer)
        parts = LayerConductance(model, module).attribute(
            end, target=target, n_steps=steps, method="riemann_trapezoid", **more
        )
        found.append(parts[1].detach())
    return found


def word_attributions(
    clf: TextClassifier, batch: Mapping[str, Tensor], target: int
) -> tuple[list[float], float]:
    """What each token of one text adds to the log-odds of a class, [tokens], and by how much their
    sum misses the change of these. By integrated gradients of the word embeddings (Sundararajan et
    al. 2017) from padding in place of the words, summed over the embedding's width.
    """
    logits, end, more = _parts(clf, batch)
    model = _LogOdds(clf, logits.names)
    found, missed = IntegratedGradients(model).attribute(
        end,
        target=target,
        n_steps=STEPS_OF_WORDS,
        internal_batch_size=AT_ONCE,
        return_convergence_delta=True,
        **more,
    )
    return found[0].detach().double().sum(-1).tolist(), float(missed[0].abs())


ATTRIBUTIONS: dict[str, tuple[Any, Values]] = {
    "layer_integrated_gradients": (LayerIntegratedGradients, {"n_steps": STEPS}),
    "gradient_x_activation": (LayerGradientXActivation, {}),
    "deep_lift": (LayerDeepLift, {}),
}
"""Captum's layer attributions by name of the score, each with what it is given besides.

Integrated gradients follow the straight path of the layer's own activations (Sundararajan et al.
2017), at Gauss-Legendre points: Captum's weights of the trapezoid rule sum to 1 − 1/steps. Gradient
times activation is of first order at the text itself; it needs no baseline. DeepLift (Shrikumar et
al. 2017) has Captum's rules: for tanh and ReLU modules. Softmax, GELU and LayerNorm have none and
pass plain gradients, so its attributions do not add up to the change of the logit.
"""


def attributed(
    name: str, model: nn.Module, layer: nn.Module, end: Tensor, baselines: Tensor, **more: Any
) -> Tensor:
    """One of ATTRIBUTIONS of what the layer is given, in its shape."""
    kind, own = ATTRIBUTIONS[name]
    if name != "gradient_x_activation":
        own = {**own, "baselines": baselines}
    given = kind(model, layer).attribute(end, attribute_to_layer_input=True, **own, **more)
    return (given[0] if isinstance(given, tuple) else given).detach()


def head_outputs(
    clf: TextClassifier,
    batch: Mapping[str, Tensor],
    target: Tensor,
    name: str,
    baseline: str,
) -> list[Tensor]:
    """Attribution by one of ATTRIBUTIONS of what every head hands to the output projection, summed
    over tokens and width: [texts, heads].

    One tensor per layer, signed, in logits. The map of attention probabilities is no module's only
    output, so of Captum's layer attributions only conductance can be had of it; the head's output
    is where the head acts.
    """
    model, end, more = _parts(clf, batch, baseline)
    valid, found = batch["attention_mask"].bool()[:, :, None], []
    for layer, units in enumerate(kept_units(clf)):
        if not len(units):
            found.append(end.new_zeros(len(end), 0))
            continue
        module = clf.adapter.output_projection(clf.model, layer)
        given = attributed(name, model, module, end, target=target, **more)
        if not bool(torch.isfinite(given).all()):
            raise PruneAuditError(
                f"{clf.name} gives attributions that are not finite: its weights are damaged."
            )
        found.append(
            given.masked_fill(~valid, 0.0).double().sum(1).unflatten(1, (len(units), -1)).sum(2)
        )
    return found


def prove_conductance(
    clf: TextClassifier,
    text: str,
    second: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> Values:
    """Show on this model and a text of its own that our conductance of all layers is Captum's,
    layer by layer.

    JSON-able: the largest difference as a share of a layer's largest attribution, the tolerance,
    Captum's version, and how it was measured. PruneAuditError where it is larger.
    """
    batch = clf.encode([text], None if second is None else [second])
    ours = conductance(clf, batch, steps=STEPS, check=check)
    theirs = layer_conductance(clf, batch, ours.predicted, check=check)
    shares = [
        (one - other).abs().max() / other.abs().max()
        for one, other in zip(ours.attribution, theirs, strict=True)
        if one.numel() and (one.any() or other.any())
    ]
    apart = float(torch.stack(shares).max()) if shares else 0.0
    tolerance = TOLERANCE.get(clf.dtype, COARSE)
    if not apart <= tolerance:
        raise PruneAuditError(
            f"{clf.name}: conductance of all layers at once differs from Captum's "
            f"LayerConductance by {apart:.3g} of the largest attribution (allowed {tolerance:g}). "
            "So no attribution of this model would mean anything."
        )
    return {
        "largest_relative_difference": apart,
        "tolerance": tolerance,
        "captum": version("captum"),
        "steps": STEPS,
        "tokens": int(batch["input_ids"].shape[1]),
        "layers": clf.n_layers,
    }
