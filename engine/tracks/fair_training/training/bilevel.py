"""The gradient of the mask when the weights answer to it (BiFP Eqs. 5 and 9; Zhang et al. 2022).

Lower level: theta*(m) = argmin over theta of l(m * theta) + rho/2 |theta|^2. Upper level: F(m) = l(m * theta*(m)).
With z = m * theta and g = the gradient of l at z,

    dF/dm = theta * g + (d theta*/dm)^T (m * g)
    (d theta*/dm)^T = -(diag(g) + diag(theta) H diag(m)) (diag(m) H diag(m) + rho I)^-1        H: Hessian of l at z

`exact` is that, for small problems. Training uses the closed form, (theta - m * g / rho) * g, which takes H as 0 and
needs first derivatives only: on a curved loss it has the right sign and up to twice the size (tests). The weights are
in truth trained by AdamW, whose decay is no ridge of the objective, so rho is a setting and nothing that is measured.

Zhang et al. print the form as (theta - g / rho) * g, without the m that the chain rule puts there; both agree where m
is 1. Where m is 0 the printed form is not the derivative, but it lets units grow back whose gradient is large: it is a
choice, not a default.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

FORMS = ("derived", "published", "none")
"""derived: with m; published: as printed, without; none: first order only."""


def closed_form(theta: Tensor, g: Tensor, mask: Tensor, rho: float, form: str = "derived") -> Tensor:
    """The gradient of BiFP Eq. 9, m ← m − β dF/dm, of every masked entry under H = 0; all tensors of one shape.

        dF/dm = (θ − m g / ρ) g        "derived"; without m "published"; θ g "none"

    theta: θ, g: the gradient of the loss at z = m θ, mask: m, rho: ρ.
    """
    if form == "none":
        return theta * g
    held = torch.addcmul(theta, mask, g, value=-1 / rho) if form == "derived" else theta - g / rho
    return held.mul_(g)


def exact(loss: Callable[[Tensor], Tensor], theta: Tensor, mask: Tensor, rho: float) -> Tensor:
    """dF/dm [n] of BiFP Eq. 9 at theta = theta*(m), with the whole Hessian: for small problems, and to check the
    closed form by. theta, mask: [n]."""
    z = (mask * theta).detach().requires_grad_(True)
    g = torch.autograd.grad(loss(z), z)[0]
    hessian = torch.autograd.functional.hessian(loss, z.detach())
    lower = mask[:, None] * hessian * mask + rho * torch.eye(len(z), dtype=z.dtype)
    pulled = torch.linalg.solve(lower, mask * g)
    return theta * g - (g * pulled + theta * (hessian @ (mask * pulled)))
