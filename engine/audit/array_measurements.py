"""A measurement context whose measurements are packed arrays; all but the weights are read once and
remembered."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from engine.audit.measurements import MeasurementContext
from engine.core.ids import key_of
from engine.store.tables import unpack


class ArrayContext(MeasurementContext):
    """What measurement contexts of classifiers share."""

    @property
    @abstractmethod
    def first_seed(self) -> int:
        """Seed of trial 0."""

    def seed(self, purpose: str, trial: int) -> int:
        """The seed of a trial for one purpose, the same for all methods, so that arms differ in the
        method only."""
        return key_of(purpose, self.first_seed + trial) % 2**31

    def fetch_arrays(self, shard: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A measurement as arrays by name, in the shapes its `Measurement` gives them, and its
        plain values."""
        return unpack(self.fetch([shard])[0])

    def without_weights(self, shard: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """As `fetch_arrays`, without the arrays weights/<name>; remembered, for tables ask for
        every trial many times.

        The arrays have the names and shapes that the shard's `Measurement` gives them.
        """
        if shard not in self._light:
            arrays, plain = self.fetch_arrays(shard)
            slim = {
                name: array for name, array in arrays.items() if not name.startswith("weights/")
            }
            self._light[shard] = slim, plain
        return self._light[shard]

    @cached_property
    def _light(self) -> dict[Any, tuple[dict[str, np.ndarray], dict[str, Any]]]:
        """What `without_weights` has read: (arrays by name, in any shape, and plain values) by
        shard."""
        return {}
