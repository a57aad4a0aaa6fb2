"""The contract of a way to score heads of a text classifier: model and texts in, one number per
text and head out.

Low is cut first. Units are those of the original model, unit = layer * n_heads + head; a head that
is cut already has NaN. No torch is loaded by stating what there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from engine.core.discover import named
from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import Setting, Values, rng
from engine.stats.clustered import TAILS
from engine.stats.gap_of_means import Estimate

if TYPE_CHECKING:  # these load torch; stating what to do must not
    from torch import Tensor

    from engine.models.load_text_classifier import TextClassifier

AT_ONCE = Setting(
    "at_once",
    "integer",
    32,
    "Rows per forward pass: bounds the memory, changes no number.",
    1,
    4096,
    label="batch",
    technical=True,
)
ROOM = 2**27
"""Attention probabilities of one forward pass, over all layers: what long texts shrink a batch to.
"""
DRAWS, BLOCK = 1000, 100
"""Draws of texts for an interval, and how many are computed at once."""


@dataclass(frozen=True, eq=False)
class ImportanceOfTexts:
    """What a method found, in the order of the texts; one row where it reads none.

    per_text: float32 [n, units]. NaN where the head is cut, or where this text says nothing about
    it (a correlation with a constant map; see `says_nothing`). n_constant: int64 [units], texts
    that say nothing about the head, 0 where cut. delta: float64 [n], convergence delta of the
    attribution; NaN without one.
    """

    per_text: np.ndarray
    delta: np.ndarray
    n_constant: np.ndarray


@dataclass(frozen=True, eq=False)
class Texts:
    """A classifier and the texts that a method may read.

    first, second: the texts, None where the task has no pairs; labels: int64 [n], places in
    clf.classes; asked: every setting of the method. check is called once per batch, inside hears
    the share that is done.
    """

    clf: TextClassifier
    first: Sequence[str]
    second: Sequence[str] | None
    labels: np.ndarray
    asked: Values
    seed: int
    check: Callable[[], None] = lambda: None
    inside: Callable[[float], None] = lambda share: None


class HeadImportance(ABC):
    """One way to score heads. Final subclasses of this folder's files are found."""

    name: str
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """
    settings: tuple[Setting, ...] = ()
    not_in_key: tuple[str, ...] = ()
    """Settings that change no number."""
    reads_texts: bool = True
    """Whether the numbers depend on the texts. Otherwise there is one row and no interval."""
    draws: bool = False
    """Whether the numbers depend on the seed."""

    @abstractmethod
    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """Every head on every text. Works on cut models, and within
        `engine.surgery.heads.mask.masked`: numbers of heads that are silenced there mean nothing.
        """

    def class_faults(self, asked: Values, n_classes: int) -> list[Fault]:
        """What is wrong with its settings, all of them, for a task of so many classes."""
        return []

    def of_means(self, means: np.ndarray, n_layers: int) -> np.ndarray:
        """From means over texts to importances, [..., units] each, NaN where cut."""
        return means


@cache
def head_importances() -> Mapping[str, HeadImportance]:
    """Every method there is, by name."""
    return named(__package__, HeadImportance)


def head_importance(name: str) -> HeadImportance:
    """The method, or RequestError with the known names."""
    if name not in head_importances():
        raise RequestError(unknown("score", name, head_importances()))
    return head_importances()[name]


def settings_of(method: HeadImportance, given: Values) -> Values:
    """All settings of a method: as given, else as declared."""
    return {item.name: given.get(item.name, item.default) for item in method.settings}


def unit_values(method: HeadImportance, per_text: np.ndarray, n_layers: int) -> np.ndarray:
    """One number per head, float64 [units], low is cut first; NaN for heads that are gone.

    per_text: [n, units] as in ImportanceOfTexts. A head's mean leaves out texts that say nothing
    about it.
    """
    return values_under(method, per_text, n_layers, np.ones((1, len(per_text))))[0]


def aggregate(
    method: HeadImportance, per_text: np.ndarray, n_layers: int, seed: int = 0
) -> Estimate:
    """`unit_values` with a 95 % interval, a seeded percentile bootstrap over the texts.

    per_text: [n, units], all texts or those of a group; a head about which none of these says
    anything is NaN. There is no interval for a single text, nor for a method that reads none.
    """
    n, units = per_text.shape
    value = unit_values(method, per_text, n_layers)
    low, high = np.full((2, units), np.nan)
    if method.reads_texts and n > 1:
        generator = rng("importance of heads", seed, n)
        counts = (
            generator.multinomial(n, np.full(n, 1 / n), size=BLOCK) for _ in range(DRAWS // BLOCK)
        )
        drawn = np.concatenate(
            [values_under(method, per_text, n_layers, block) for block in counts]
        )
        there = ~np.isnan(value)
        low[there], high[there] = np.nanquantile(drawn[:, there], TAILS, axis=0)
    return Estimate(value, low, high, np.full(units, np.nan))


def values_under(
    method: HeadImportance, per_text: np.ndarray, n_layers: int, weights: np.ndarray
) -> np.ndarray:
    """Values under several weightings of the texts, weights [k, n] -> [k, units]; NaN where no
    weight says anything."""
    defined = ~np.isnan(per_text)
    total = weights @ np.where(defined, per_text, 0.0).astype(np.float64)
    count = weights @ defined.astype(np.float64)
    means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return method.of_means(means, n_layers)


def kept_units(clf: TextClassifier) -> list[np.ndarray]:
    """Per layer, the units of the heads still there, [heads left] int64, ascending: their order in
    its tensors."""
    gone = [() if clf.cut is None else clf.cut.cut_in(layer) for layer in range(clf.n_layers)]
    return [
        np.array(
            [layer * clf.n_heads + head for head in range(clf.n_heads) if head not in out],
            dtype=np.int64,
        )
        for layer, out in enumerate(gone)
    ]


def nan_where_cut(
    clf: TextClassifier, per_text: np.ndarray, delta: np.ndarray | None = None
) -> ImportanceOfTexts:
    """per_text [n, units] as a result: NaN for cut heads."""
    kept = np.zeros(clf.n_layers * clf.n_heads, dtype=bool)
    kept[np.concatenate(kept_units(clf))] = True
    n_constant = np.where(kept, np.isnan(per_text).sum(axis=0), 0)
    values = np.where(kept, per_text, np.nan).astype(np.float32)
    return ImportanceOfTexts(
        values, np.full(len(values), np.nan) if delta is None else delta, n_constant
    )


def says_nothing(n_constant: np.ndarray, n: int) -> np.ndarray:
    """Heads that are there but about which none of n texts says anything, bool [units]: their
    importance is 0."""
    return (n_constant == n) & (n > 0)


def in_batches(
    clf: TextClassifier, texts: Sequence[str], texts_b: Sequence[str] | None, at_once: int
) -> Iterator[tuple[np.ndarray, dict[str, Tensor], int]]:
    """Texts of similar length together, the longest first: positions [rows], the encoded batch, and
    how many rows of this length a forward pass may have. That is at_once, or fewer where the
    attention of long texts would not fit into ROOM.
    """
    lengths = np.minimum(clf.lengths(texts, texts_b), clf.max_length)
    left = np.argsort(-lengths, kind="stable")
    while len(left):
        row = clf.n_layers * clf.n_heads * int(lengths[left[0]]) ** 2
        size = min(at_once, max(1, ROOM // max(1, row)))
        rows, left = left[:size], left[size:]
        second = None if texts_b is None else [texts_b[row] for row in rows]
        yield rows, clf.encode([texts[row] for row in rows], second), size


def per_text(
    texts: Texts, of_batch: Callable[[np.ndarray, dict[str, Tensor], int], Sequence[np.ndarray]]
) -> np.ndarray:
    """A number per text and head, [texts, units], NaN for heads that were cut.

    of_batch takes what `in_batches` gives and returns per layer [rows, heads left].
    """
    clf, total, done = texts.clf, len(texts.first), 0
    found = np.full((total, clf.n_layers * clf.n_heads), np.nan)
    for rows, batch, room in in_batches(clf, texts.first, texts.second, texts.asked["at_once"]):
        texts.check()
        for units, values in zip(kept_units(clf), of_batch(rows, batch, room), strict=True):
            found[np.ix_(rows, units)] = values
        done += len(rows)
        texts.inside(done / total)
    return found
