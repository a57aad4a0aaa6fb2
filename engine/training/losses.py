"""The performance-weighted (PW) loss (Meyer and Wong 2023): cross-entropy with a weight and a soft
label per image.

Weights and labels depend on the original model and the image only, so they are computed once,
before pruning.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.training.recipe import ADDED, MIXED, LossPlan


@dataclass(frozen=True)
class Targets:
    """What each training image is compared with: soft labels [n, classes] and weights [n],
    float32."""

    labels: Tensor
    weights: Tensor

    def loss(self, rows: Tensor, logits: Tensor) -> Tensor:
        """PW loss Eq. 3, as a mean so that it does not grow with the batch: L = 1/N Σ_i w_i
        CE(y*_i, y'_i), in nats.

        rows: the images of the batch, [batch]; logits: the pruned model's, [batch, classes], y'
        their softmax.
        """
        return self.each(rows, logits).mean()

    def each(self, rows: Tensor, logits: Tensor) -> Tensor:
        """Weighted cross-entropy of every image, [batch]."""
        return self.weights[rows] * soft_cross_entropy(logits, self.labels[rows])


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-Σ_c y_c log softmax(logits)_c in nats, [batch] float32; logits and labels [batch,
    classes]."""
    return -(labels * functional.log_softmax(logits.float(), dim=-1)).sum(dim=-1)


def pw_weights(
    probabilities: Tensor, truth: Tensor, theta: float, gamma: float, weighting: str = ADDED
) -> Tensor:
    """w_i = theta + (1 - p_i)^gamma (Meyer and Wong 2023, Eq. 1), [n]: badly classified images
    weigh more.

    weighting MIXED: theta + (1 - theta)(1 - p_i)^gamma, as their published code has it. p_i is
    taken from the original model's probabilities [n, classes] at the true classes `truth` [n]
    int64.
    """
    right = probabilities.gather(1, truth[:, None]).squeeze(1)
    missed = (1.0 - right).clamp(min=0.0) ** gamma
    return theta + ((1.0 - theta) * missed if weighting == MIXED else missed)


def corrected_labels(probabilities: Tensor, truth: Tensor) -> Tensor:
    """y*_i (Meyer and Wong 2023, Eq. 2), [n, classes]: the original model's probabilities where it
    is right, else one-hot.

    probabilities [n, classes] are the original model's, truth [n] int64.
    """
    hot = functional.one_hot(truth, probabilities.shape[1]).to(probabilities.dtype)
    right = probabilities.argmax(dim=1) == truth
    return torch.where(right[:, None], probabilities, hot)


def targets(
    plan: LossPlan, probabilities: Tensor, truth: Tensor, place: str, plain: str = "truth"
) -> Targets:
    """What images are compared with in one place ("prune" or "retrain").

    probabilities [n, classes] are the original model's, truth [n] int64. plain: what labels are
    where the corrected ones are off: "truth", or "original" (the original model's own
    probabilities, right or wrong: what AutoBot imitates).
    """
    use_weights = plan.weights_in_pruning if place == "prune" else plan.weights_in_retraining
    use_labels = plan.labels_in_pruning if place == "prune" else plan.labels_in_retraining
    if use_labels:
        labels = corrected_labels(probabilities, truth)
    elif plain == "original":
        labels = probabilities
    else:
        labels = functional.one_hot(truth, probabilities.shape[1]).to(probabilities.dtype)
    weights = torch.ones(len(truth))
    if use_weights:
        weights = pw_weights(probabilities, truth, plan.theta, plan.gamma, plan.weighting)
    return Targets(labels.float(), weights.float().to(labels.device))


# Log-odds of classes: what attributions are of, for two logits that rise together decide
# nothing.


def log_odds(logits: Tensor) -> Tensor:
    """Of every class against all others, from logits [n, classes]."""
    sure = logits.log_softmax(-1)
    rest = [
        torch.cat([sure[:, :at], sure[:, at + 1 :]], 1).logsumexp(-1) for at in range(sure.shape[1])
    ]
    return sure - torch.stack(rest, dim=1)
