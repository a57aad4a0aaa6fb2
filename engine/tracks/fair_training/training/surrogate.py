"""A gap between groups that can be differentiated (BiFP Eqs. 6 to 8), for any number of groups and
classes.

The paper's gap of two groups, and what replaces its indicator by a smooth u:

    F = E[1(Y f(X) > 0) | S = 1] − E[1(Y f(X) > 0) | S = −1]                       (BiFP Eqs. 6 and 7)
    F = 1/N Σ_i u(y_i f(x_i)) / P(S_i) − 1                                         (BiFP Eq. 8)

With more groups and classes the signs of BiFP Eq. 8 become a difference between two of the groups'
levels

    a_s = 1/N Σ_{i in s} u(margin_i) / P(s)        u = logistic,  margin = logit of the truth − logsumexp of the others

so that u(margin) is the probability the model gives to the true class (with sharpness k: logistic(k
margin)). The gap is that of the groups with the highest and the lowest a_s; for performance
degradation, of a_s minus what the original model has. The penalty is the batch's gap minus τ, which
may be below zero, where the running gap exceeds τ, and 0 where it does not. A batch holds few
images of a small group: the sign, the two groups and whether the gap exceeds τ are read off a
running mean over batches, the gradient is the batch's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the truth minus the logsumexp of all others: [batch] of [batch, classes] and
    [batch]."""
    truth = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return truth - torch.logsumexp(others, dim=1)


@dataclass(eq=False)
class Surrogate:
    """labels, groups: of every training image, int64 [n]; group -1 belongs to none. before: what
    each group had under the original model [groups], or None for plain accuracy. momentum 0: every
    batch stands for itself.
    """

    labels: Tensor
    groups: Tensor
    before: Tensor | None = None
    tolerance: float = 0.0
    momentum: float = 0.9
    sharpness: float = 1.0
    running: Tensor | None = field(default=None)
    """[2, groups]: sums of u and numbers of images, fading."""

    def __post_init__(self) -> None:
        known = self.groups[self.groups >= 0]
        if not len(known):
            raise ValueError("no training image has a group")
        self.count = int(known.max()) + 1
        self.shares = torch.bincount(known, minlength=self.count).float() / len(known)
        """P(s)"""

    def of(self, rows: Tensor, logits: Tensor) -> tuple[Tensor, float]:
        """The penalty of a batch, a differentiable scalar, and the running gap F that switches it
        on and signs it.

        rows: places of the batch among the training images, [batch]; logits [batch, classes].
        """
        means, fresh = self._groups(rows, logits)
        self.running = (
            fresh
            if self.running is None
            else self.momentum * self.running + (1 - self.momentum) * fresh
        )
        level = self.running[0] / self.running[1].clamp(min=1e-9)
        drop = -level if self.before is None else self.before - level
        drop = torch.where(
            self.running[1] > 1e-6, drop, torch.nan
        )  # a group not met so far has no level
        worst, least = (int(place) for place in (_nan_argmax(drop), _nan_argmax(-drop)))
        gap = float(drop[worst] - drop[least])
        penalty = means[least] - means[worst]
        if self.before is not None:
            penalty = penalty + self.before[worst] - self.before[least]
        penalty = penalty - self.tolerance
        return (penalty if gap > self.tolerance else penalty * 0.0), gap

    def _groups(self, rows: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """a_s of the batch (BiFP Eq. 8) [groups], with gradient; sums and counts [2, groups],
        without."""
        groups = self.groups[rows]
        known = groups >= 0
        groups = groups[known]
        u = torch.sigmoid(self.sharpness * margins(logits.float(), self.labels[rows])[known])
        sums = torch.zeros(self.count, device=u.device).index_add(0, groups, u)
        counts = torch.bincount(groups, minlength=self.count).float()
        return sums / self.shares.clamp(min=1e-9) / max(len(groups), 1), torch.stack(
            [sums.detach(), counts]
        )


def _nan_argmax(values: Tensor) -> Tensor:
    """Place of the largest of values [groups], a scalar; NaN counts as the lowest."""
    return torch.nan_to_num(values, nan=-torch.inf).argmax()


def levels_of(
    probabilities: Tensor, labels: Tensor, groups: Tensor, sharpness: float = 1.0
) -> Tensor:
    """Mean u(margin) of each group under a model's probabilities [n, classes]: [groups]."""
    logits = probabilities.float().clamp(min=1e-12).log()
    u = torch.sigmoid(sharpness * margins(logits, labels))
    known = groups >= 0
    sums = torch.zeros(int(groups.max()) + 1, device=u.device).index_add(0, groups[known], u[known])
    return sums / torch.bincount(groups[known], minlength=len(sums)).clamp(min=1)
