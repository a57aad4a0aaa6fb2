"""Images of the upper level's own: a share of the training images that the mask learns from and no
weight does.

Where both levels read the same images the weights have already answered to what the mask is asked,
and the implicit term says nothing (`bilevel`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.core.seeds import rng
from engine.tracks.fair_training.training.job import FairJob
from engine.training.batches import Batch, Batches


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
