"""The gradient of the mask when the weights answer to it (BiFP Eqs. 5 and 9; Zhang et al. 2022).

Lower level: theta*(m) = argmin over theta of l(m * theta) + rho/2 |theta|^2.
Upper level: F(m) = u(m * theta*(m)).
z = m * theta, g is the gradient of u at z, g_lower that of l, and H the Hessian of l at z.

    dF/dm = theta * g + (d theta*/dm)^T (m * g).

    (d theta*/dm)^T = -(diag(g_lower) + diag(theta) H diag(m)) (diag(m) H diag(m) + rho I)^-1.

Training uses the closed form,
(theta - m * g_lower / rho) * g, which takes H as 0 and needs first derivatives only. Where both
levels have one loss and one set of images the term says nothing. By the envelope theorem it is 0
as rho goes to 0; at a solved lower level the closed form is twice the first order. It is
worth its name where the levels differ: another loss (BiFP's ablations), or images of the upper
level's own. The ridge must then be part of what the weights are trained by; under AdamW's decay
rho is a setting and nothing that is measured.

Zhang et al. print the form as (theta - g / rho) * g, without the m that the chain rule puts
there; both agree where m is 1. Where m is 0 the printed form is not the derivative, but it lets
units grow back whose gradient is large: it is a choice, not a default.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
