"""pf-late: prune, train plainly, then fairly: the two stages that the paper amends its baselines with (Sec. 5.3)."""

from __future__ import annotations

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import SHARPNESS
from engine.tracks.fair_training.methods.base import FairJob
from engine.tracks.fair_training.methods.pf import PruneThenFair


class PruneThenFairLate(PruneThenFair):
    """The same filters as pf; the fairness term acts in the second stage only."""

    name = "pf-late"
    settings = (
        SHARPNESS,
        Setting("first", "number", 0.5, "Share of the iterations trained plainly first.", 0.0, 1.0,
                label="Share trained plainly after the cut"),
    )  # fmt: skip

    def first(self, job: FairJob) -> float:
        return self.setting(job, "first")
