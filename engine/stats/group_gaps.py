"""A smaller gap, split: did the worst-off subgroup gain, or did the best-off one lose (levelling
down)?"""

from __future__ import annotations

from engine.stats.resampling import Difference

IMPROVED = "worst group improved"
LEVELLED = "best group got worse"
BOTH = "both"
HARMED = "worst group got worse"
ALL_HARMED = "worst and best group got worse"
UNCLEAR = "no clear change"
TOO_FEW = "too few prompts"
"""Where subgroups are too small, there is no verdict."""


def verdict_of(worst: Difference, best: Difference) -> str:
    """Words for the two ends, from their intervals; lower toxicity is better."""
    improved, harmed = worst.high < 0, worst.low > 0
    levelled = best.low > 0
    if improved:
        return BOTH if levelled else IMPROVED
    if harmed:
        return ALL_HARMED if levelled else HARMED
    return LEVELLED if levelled else UNCLEAR
