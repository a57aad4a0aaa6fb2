"""A gap between groups that can be differentiated (BiFP Eqs. 6 to 8), for any number of groups and
classes.

The paper's gap of two groups, and what replaces its indicator by a smooth u.

BiFP, equations 6 and 7: F = E[1(Y f(X) > 0) | S = 1] − E[1(Y f(X) > 0) | S = −1].
BiFP, equation 8: F = 1/N Σ_i u(y_i f(x_i)) / P(S_i) − 1.

With more groups and classes the signs of equation 8 become a difference between two of the groups'
levels. The level of a group is a_s = 1/N Σ_{i in s} u(margin_i) / P(s). There u is the logistic
function, and the margin the logit of the truth minus the logsumexp of the others. So u(margin) is
the probability the model gives to the true class (with sharpness k: logistic(k margin)). The gap is
that of the groups with the highest and the lowest a_s; for performance degradation, of a_s minus
what the original model has. The penalty is the batch's gap minus τ, which may be below zero, where
the running gap exceeds τ, and 0 where it does not. A batch holds few images of a small group. So
the sign, the two groups and whether the gap exceeds τ are read off a running mean over batches; the
gradient is the batch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from engine.core.ids import rng
from engine.tracks.fair_training.methods.base import FairJob
from engine.training.batches import Batch, Batches


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


# The gradient of the mask when the weights answer to it (BiFP Eqs. 5 and 9; Zhang et al. 2022).
#
# Lower level: theta*(m) = argmin over theta of l(m * theta) + rho/2 |theta|^2.
# Upper level: F(m) = u(m * theta*(m)).
# With z = m * theta, g = the gradient of u at z, g_lower that of l, and H the Hessian of l at z,
#
#     dF/dm = theta * g + (d theta*/dm)^T (m * g)
#     (d theta*/dm)^T = -(diag(g_lower) + diag(theta) H diag(m)) (diag(m) H diag(m) + rho I)^-1
#
# `exact` is that, for small problems. Training uses the closed form,
# (theta - m * g_lower / rho) * g, which takes H as 0 and needs first derivatives only. Where both
# levels have one loss and one set of images the term says nothing: by the envelope theorem it is 0
# as rho goes to 0, and at a solved lower level the closed form is twice the first order. It is
# worth its name where the levels differ: another loss (BiFP's ablations), or images of the upper
# level's own. The ridge must then be part of what the weights are trained by; under AdamW's decay
# rho is a setting and nothing that is measured.
#
# Zhang et al. print the form as (theta - g / rho) * g, without the m that the chain rule puts
# there; both agree where m is 1. Where m is 0 the printed form is not the derivative, but it lets
# units grow back whose gradient is large: it is a choice, not a default.


CROSS = "cross"
FORMS = (CROSS, "derived", "published", "none")
"""cross: with m and the gradients of both levels; derived: that of the upper level for both;
published: as printed, without m; none: first order only."""


def closed_form(
    theta: Tensor,
    g: Tensor,
    mask: Tensor,
    rho: float,
    form: str = CROSS,
    lower: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The gradient of BiFP Eq. 9, m ← m − β dF/dm, of every masked entry under H = 0; all tensors
    of one shape.

    dF/dm = (θ − m g_lower / ρ) g for "cross". With g_lower = g for "derived", without m for
    "published", θ g for "none".

    theta: θ. g: the gradient of the upper level's loss at z = m θ. lower: of the lower level's
    (None: the same). mask: m. rho: ρ. out: where it is written, in place of a new tensor.
    """
    if form == "none":
        return torch.mul(theta, g, out=out)
    if form == "published":
        return torch.sub(theta, g / rho, out=out).mul_(g)
    other = g if lower is None or form != CROSS else lower
    return torch.addcmul(theta, mask, other, value=-1 / rho, out=out).mul_(g)


def exact(
    loss: Callable[[Tensor], Tensor],
    theta: Tensor,
    mask: Tensor,
    rho: float,
    lower: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """dF/dm [n] of BiFP Eq. 9 at theta = theta*(m), with the whole Hessian: for small problems, and
    to check the closed form by. loss: of the upper level; lower: what theta* minimises, None for
    the same. theta, mask: [n].
    """
    lower, z = lower or loss, (mask * theta).detach().requires_grad_(True)
    above, below = (torch.autograd.grad(one(z), z)[0] for one in (loss, lower))
    hessian = torch.autograd.functional.hessian(lower, z.detach())
    curved = mask[:, None] * hessian * mask + rho * torch.eye(len(z), dtype=z.dtype)
    pulled = torch.linalg.solve(curved, mask * above)
    return theta * above - (below * pulled + theta * (hessian @ (mask * pulled)))


# Images of the upper level's own: a share of the training images that the mask learns from and
# no weight does.
#
# Where both levels read the same images the weights have already answered to what the mask is
# asked, and the implicit term says nothing.


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the training images, rows [images] int among them; None: all."""

    rows: np.ndarray | None = None

    def forever(self, batches: Batches, step: int) -> Iterator[Batch]:
        """Batches of this part without end, from the step on; their rows are places among all
        training images."""
        if self.rows is None:
            yield from batches.forever(step)
            return
        for batch in replace(batches, positions=batches.positions[self.rows]).forever(step):
            yield Batch(
                torch.as_tensor(self.rows, device=batch.rows.device)[batch.rows], batch.inputs
            )


def parts_of(job: FairJob, own: float) -> tuple[Part, Part]:
    """(lower, upper): the images of both levels; `own`: the share that is the upper level's alone,
    0: both read all.

    Drawn with the seed, from every cell of class and group by the same share.
    """
    if not own:
        return Part(), Part()
    count = len(job.groups)
    cells = (
        job.groups * (job.targets.labels.shape[1] + 1)
        + job.targets.labels.argmax(dim=1).cpu().numpy()
    )
    order = rng("upper level", job.seed).permutation(count)
    order = order[np.argsort(cells[order], kind="stable")]
    turns = np.floor(own * np.arange(count + 1)).astype(int)
    above = np.diff(turns) > 0
    return Part(np.sort(order[~above])), Part(np.sort(order[above]))
