"""The procedures of the thesis: what is scored, what is trained and how many heads go in a round.
One row each."""

from __future__ import annotations

from engine.tracks.text_classifiers.procedures.base import (
    Procedure,
    at_asked,
    of_initial,
    of_remaining,
    of_remaining_strictly,
)

ROWS = (
    # Score the fine-tuned model one time, then mask the lowest heads at several ratios (Michel et
    # al. 2019).
    Procedure("once", place=0, scored="first", trained="never", counts=at_asked),
    # Thesis, Algorithm 6.1: score again in every round with the heads so far masked; mask a share
    # of the initial heads.
    Procedure("alg61", place=1, scored="masked", trained="never", counts=of_initial),
    # The masks of `once`, cut from the pre-trained weights, which are then fine-tuned (thesis, Sec.
    # 6.6.1).
    Procedure("one-shot-isp", place=2, scored="first", trained="asked", counts=at_asked),
    # The masks of `alg61`, cut from the pre-trained weights, which are fine-tuned at the end
    # (thesis, Sec. 6.5.1).
    Procedure("igspf", place=3, scored="masked", trained="asked", counts=of_initial),
    # As Algorithm 6.1, but every round cuts the pre-trained weights, fine-tunes them and scores the
    # result.
    Procedure("igspp", place=4, scored="retrained", trained="every", counts=of_initial),
    # Thesis, Algorithm 6.2: every round takes a share of the heads left and fine-tunes the
    # pre-trained weights.
    Procedure("isp", place=5, scored="retrained", trained="every", counts=of_remaining),
    # The same as printed, without a stop at every asked sparsity: the first round that reaches one
    # answers for it.
    Procedure(
        "isp-strict", place=6, scored="retrained", trained="every", counts=of_remaining_strictly
    ),
)
