"""A gap between groups that can be differentiated (BiFP Eqs. 6 to 8), for any number of groups and
classes.

BiFP, equation 6: F = E[1(Y f(X) > 0) | S = 1] − E[1(Y f(X) > 0) | S = −1]. Its indicator becomes
a smooth u. BiFP, equation 8: F = 1/N Σ_i u(y_i f(x_i)) / P(S_i) − 1.

With more groups and classes the signs of equation 8 become a difference between two of the
groups' levels. The level of a group is a_s = 1/N Σ_{i in s} u(margin_i) / P(s). There u is the
logistic function, and the margin the logit of the truth minus the logsumexp of the others. So
u(margin) is the probability the model gives to the true class (with sharpness k: logistic(k
margin)). The gap is that of the groups with the highest and the lowest a_s; for performance
degradation, of a_s minus what the original model has. The penalty is the batch's gap minus τ,
which may be below zero, where the running gap exceeds τ, and 0 where it does not. A batch holds
few images of a small group. So the sign, the two groups and whether the gap exceeds τ are read
off a running mean over batches; the gradient is the batch's.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """A gap between groups that can be differentiated; `of` gives a batch's penalty.

    labels, groups: of every training image, int64 [n]; group -1 belongs to none. before: what each
    group had under the original model [groups], or None for plain accuracy. momentum 0: every batch
    stands for itself.
    """

    labels: Tensor
    groups: Tensor
    before: Tensor | None = None
    tolerance: float = 0.0
    momentum: float = 0.9
    sharpness: float = 1.0
    running: Tensor | None = None
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
        known = self.groups[rows] >= 0
        u = torch.sigmoid(self.sharpness * margins(logits.float(), self.labels[rows])[known])
        sums, counts = _by_group(u, self.groups[rows][known], self.count)
        # a_s of the batch (BiFP Eq. 8) [groups], with its gradient.
        means = sums / self.shares.clamp(min=1e-9) / max(len(u), 1)
        fresh = torch.stack([sums.detach(), counts])
        if self.running is None:
            self.running = fresh
        else:
            self.running = self.momentum * self.running + (1 - self.momentum) * fresh
        level = self.running[0] / self.running[1].clamp(min=1e-9)
        drop = -level if self.before is None else self.before - level
        # A group not met so far has no level.
        drop = torch.where(self.running[1] > 1e-6, drop, torch.nan)
        worst, best = (int(place) for place in (_nan_argmax(drop), _nan_argmax(-drop)))
        gap = float(drop[worst] - drop[best])
        penalty = means[best] - means[worst]
        if self.before is not None:
            penalty = penalty + self.before[worst] - self.before[best]
        penalty = penalty - self.tolerance
        # Times zero: the gradient is zero, and there is one.
        return (penalty if gap > self.tolerance else penalty * 0.0), gap


def _nan_argmax(values: Tensor) -> Tensor:
    """Place of the largest of values [groups], a scalar; NaN counts as the lowest."""
    return torch.nan_to_num(values, nan=-torch.inf).argmax()


def levels_of(
    probabilities: Tensor, labels: Tensor, groups: Tensor, sharpness: float = 1.0
) -> Tensor:
    """Mean u(margin) of each group under a model's probabilities [n, classes]: [groups]."""
    logits = probabilities.float().clamp(min=1e-12).log()
    u, known = torch.sigmoid(sharpness * margins(logits, labels)), groups >= 0
    sums, counts = _by_group(u[known], groups[known], int(groups.max()) + 1)
    return sums / counts.clamp(min=1)


def _by_group(u: Tensor, groups: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Σ u of each group's images, and how many they are, [count] each; u, groups [images]."""
    sums = torch.zeros(count, device=u.device).index_add(0, groups, u)
    return sums, torch.bincount(groups, minlength=count).float()
