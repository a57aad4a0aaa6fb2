"""A context whose measurements are packed arrays: unpacked, and their small part read once and kept."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from engine.audit.measurements import MeasurementContext
from engine.core.seeds import key_of
from engine.store.array_table import unpack


class ArrayContext(MeasurementContext):
    """What contexts of classifiers share."""

    @property
    @abstractmethod
    def first_seed(self) -> int:
        """Of trial 0."""

    def seed(self, purpose: str, trial: int) -> int:
        """The same for every way to choose and to train, so that arms differ in nothing but themselves."""
        return key_of(purpose, self.first_seed + trial) % 2**31

    def fetch_arrays(self, shard: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A packed measurement, unpacked."""
        return unpack(self.fetch([shard])[0])

    def without_weights(self, shard: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """As `fetch_arrays`, but for the weights; read once and kept, for the tables ask for every trial many times."""
        if shard not in self._light:
            arrays, plain = self.fetch_arrays(shard)
            slim = {name: array for name, array in arrays.items() if not name.startswith("weights/")}
            self._light[shard] = slim, plain
        return self._light[shard]

    @cached_property
    def _light(self) -> dict[Any, tuple[dict[str, np.ndarray], dict[str, Any]]]:
        return {}
