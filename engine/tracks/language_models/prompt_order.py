"""The prompts of one axis in one order, so that tables of the same prompts can be paired."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.tracks.language_models.bias_definitions import Layout, lay_out

MIN_TEMPLATES = 5
"""With fewer templates they count as fixed: three of them say little about other templates."""


class PromptOrder:
    """Prompts sorted by subgroup, rows of one prompt (sampling seeds) averaged; all tables must
    hold the same prompts.

    prompts: their ids; subgroups: names in the order of their codes; sizes [subgroups]: prompts of
    each.
    """

    def __init__(self, dense: pd.DataFrame) -> None:
        layout = lay_out(dense)
        first = np.unique(layout.prompt, return_index=True)[1]
        first = first[np.argsort(layout.subgroup[first], kind="stable")]
        self.prompts = pd.Index([layout.prompts[code] for code in layout.prompt[first]])
        self.subgroups = layout.subgroups
        self.layout = lay_out(
            dense.iloc[first].drop(columns="toxicity").reset_index(drop=True).assign(toxicity=0.0)
        )
        self.sizes = np.bincount(self.layout.subgroup, minlength=len(self.subgroups))
        self.rows = np.bincount(layout.prompt)[layout.prompt[first]].astype(float)
        self._read: deque[tuple[pd.DataFrame, np.ndarray]] = deque(maxlen=3)
        self._places: tuple[pd.Series, np.ndarray] | None = None

    def toxicities(self, table: pd.DataFrame) -> np.ndarray:
        """Mean toxicity per prompt in this object's order, [prompts] float64. Raises
        PruneAuditError when unpaired.

        Tables are not changed once they are measured, and each is asked for several times in a row.
        """
        for known, values in self._read:
            if known is table:
                return values
        values = self.in_order(table, "toxicity", self.rows)
        values.flags.writeable = False
        self._read.append((table, values))
        return values

    def in_order(
        self, table: pd.DataFrame, column: str, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Mean of a column per prompt in this object's order, [prompts] float64; rows [prompts]:
        how many each must have.
        """
        if bad := int((~np.isfinite(table[column].to_numpy(dtype=float))).sum()):
            raise PruneAuditError(f"{bad} of {len(table)} values of {column} are missing.")
        places = self._rows_of(table["prompt_id"])
        if places is not None and (rows is None or (rows == places.shape[1]).all()):
            return _means(table[column].to_numpy(dtype=float)[places])
        grouped = table.groupby("prompt_id", sort=False)[column]
        means, counts = (
            grouped.mean().reindex(self.prompts),
            grouped.size().reindex(self.prompts, fill_value=0),
        )
        unequal = (
            (counts == 0).any()
            if rows is None
            else not np.array_equal(counts.to_numpy(dtype=float), rows)
        )
        if unequal or grouped.ngroups != len(self.prompts):
            raise PruneAuditError(
                "The two tables do not hold the same prompts and seeds, so they cannot be paired."
            )
        return means.to_numpy(dtype=float)

    def _rows_of(self, ids: pd.Series) -> np.ndarray | None:
        """Where the rows of each prompt lie in a column of prompt ids, [prompts, rows of each];
        None where they have not equally many, do not lie together, or are others. Tables mostly
        come with the same column, which is looked up once."""
        if self._places is None or not self._places[0].equals(ids):
            codes = self.prompts.get_indexer(pd.Index(ids))
            count = np.bincount(codes[codes >= 0], minlength=len(self.prompts))
            if (codes < 0).any() or count[0] == 0 or np.ptp(count):
                return None
            places = np.argsort(codes, kind="stable").reshape(len(self.prompts), -1)
            if (np.diff(places, axis=1) != 1).any():
                return None
            self._places = ids, places
        return self._places[1]

    def matrix(self, prompt_ids: Sequence[str], values: np.ndarray) -> np.ndarray:
        """Values of texts [texts, columns] as means per prompt in this object's order, [prompts,
        columns] float64."""
        places = self.prompts.get_indexer(pd.Index(prompt_ids))
        if (places < 0).any():
            raise PruneAuditError("The texts belong to other prompts, so they cannot be paired.")
        total = np.zeros((len(self.prompts), values.shape[1]))
        np.add.at(total, places, values)
        return total / self.rows[:, None]


def named_clusters(layout: Layout, rows: np.ndarray) -> np.ndarray | None:
    """Codes of the descriptors of one subgroup, whose rows lie at `rows`: [its rows] int; None
    where it has fewer than two, or prompts that name none.
    """
    if not layout.named_descriptor[rows].all():
        return None
    clusters = np.unique(layout.descriptor[rows], return_inverse=True)[1]
    return clusters if clusters.max() > 0 else None


def _means(values: np.ndarray) -> np.ndarray:
    """Means of values [prompts, rows of each] over the rows, [prompts] float64: to the bit what
    pandas makes of rows that lie together."""
    prompts, rows = values.shape
    return np.add.reduceat(values.ravel(), np.arange(0, prompts * rows, rows)) / rows
