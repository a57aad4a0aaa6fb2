"""The loss on the plane through BiFP and two of its ablations (Fig. 8), batch norm recomputed at
every point."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.measurements import Measurement
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard
from engine.tracks.fair_training.measurements._between import RECOMPUTED_ON, Between
from engine.tracks.fair_training.measurements._work import SOME, trained_shard

SIDE = 11
MARGIN = 0.2
"""How far the grid reaches beyond the three points, as a share of their extent."""
FLAT = 1e-6
"""Share of the first distance below which the three points lie on a line."""


class Surface(Measurement):
    """Rows: method ("" for a point of the grid), x, y (distances in parameter space), loss,
    accuracy, gap.

    No rows where the three models lie on one line. The shard's method is the first of CORNERS.
    """

    name = "surface"

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        return {
            "side": SIDE,
            "margin": MARGIN,
            "images": [SOME, RECOMPUTED_ON],
            **trainings(context, shard, CORNERS),
        }

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return shard

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard, name) for name in CORNERS]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        return [self._one(context, shard) for shard in shards]

    def _one(self, context: FairContext, shard: FairShard) -> pd.DataFrame:
        between = Between.of(context, self.needs(context, shard))
        plane = Plane.through(*(between.flat(place) for place in range(3)))
        columns = ["method", "x", "y", "loss", "accuracy", "gap"]
        if plane is None:
            return pd.DataFrame(columns=columns)
        places = [(name, *corner) for name, corner in zip(CORNERS, plane.corners, strict=True)]
        places += [("", x, y) for x, y in plane.grid()]
        rows = []
        for done, (name, x, y) in enumerate(places, start=1):
            rows.append({"method": name, "x": x, "y": y, **between.at(plane.shares(x, y))})
            context.inside(done / len(places))
        return pd.DataFrame(rows)[columns]

    def size(self, context: FairContext, shard: FairShard) -> float:
        return float((SIDE**2 + 3) * (SOME + RECOMPUTED_ON))


class Plane:
    """Coordinates on the plane through three points: the first is (0, 0), the second (width, 0),
    the third anywhere."""

    def __init__(self, width: float, along: float, height: float) -> None:
        self.width, self.along, self.height = width, along, height

    @classmethod
    def through(cls, origin: np.ndarray, second: np.ndarray, third: np.ndarray) -> Plane | None:
        """The plane through three points [parameters], by Gram and Schmidt; None where they lie on
        a line."""
        one, other = second - origin, third - origin
        width = float(np.linalg.norm(one))
        if width == 0.0:
            return None
        along = float(other @ one) / width
        height = float(np.linalg.norm(other - along * one / width))
        return cls(width, along, height) if height > FLAT * width else None

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        return (0.0, 0.0), (self.width, 0.0), (self.along, self.height)

    def shares(self, x: float, y: float) -> tuple[float, float, float]:
        """How much of each of the three points a point of the plane is."""
        third = y / self.height
        second = (x - third * self.along) / self.width
        return 1.0 - second - third, second, third

    def grid(self) -> list[tuple[float, float]]:
        """SIDE x SIDE points around the three."""
        ends = np.array(self.corners)
        least, most = ends.min(axis=0), ends.max(axis=0)
        spare = MARGIN * (most - least)
        xs, ys = (
            np.linspace(least[axis] - spare[axis], most[axis] + spare[axis], SIDE)
            for axis in range(2)
        )
        return [(float(x), float(y)) for y in ys for x in xs]


def trainings(context: FairContext, shard: FairShard, methods: Sequence[str]) -> dict[str, Any]:
    """What the trainings of some methods depend on, for the key of what is measured between
    them."""
    kind, shards = context.kind("trained"), [trained_shard(shard, name) for name in methods]
    return {"trained": [[kind.version, one.own, kind.parts(context, one)] for one in shards]}
