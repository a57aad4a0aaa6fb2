"""Ways to compress a language model other than cutting heads, as arms of an audit. Found by being
here.

The contract: the dense model in, a model of its own with other weights out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from engine.core.discover import named
from engine.core.errors import RequestError, unknown

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


GRID = tuple(round(0.05 * step, 2) for step in range(1, 19))
"""Levels that are offered where any can be asked for."""
Text = Sequence[Sequence[int]]
"""Token ids of the windows that a compression looks at, all of one length."""


class Compression(ABC):
    """One way to compress: a final subclass in a file of this package, or a row of its `ROWS`."""

    name: str
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """
    reads_text: bool = False
    """Whether it looks at activations on the text for validation."""
    uses_seed: bool = False
    saves: ClassVar[str] = "weights"
    """What its level is a share of: "weights" set to zero, "layers" dropped, or "bytes" saved."""

    own_levels: ClassVar[bool] = False
    """Whether its levels are its own, and not those asked for."""

    def levels(self, model: Any, asked: Sequence[float], bits: float = 32) -> Sequence[float]:
        """The levels it is measured at, of those asked for, in (0, 1) ascending. model: ModelInfo;
        bits: of a number in the model's files."""
        return asked

    def offered(self, model: Any) -> Sequence[float]:
        """Levels that a finished audit can be asked for later, ascending; none where it has one of
        its own. model: what has `n_layers`."""
        return (
            tuple(one for one in self.levels(model, GRID) if one < 1)
            if self.saves != "bytes"
            else ()
        )

    def reached(self, lm: LanguageModel, level: float) -> float:
        """The share that a level comes to on this model, in what it `saves`: counts are whole
        numbers. `lm`: dense."""
        return level

    def bits(self, weight: Any, packed: bool, width: float) -> float:
        """Bits that a number of a compressed linear weight [out, in] takes on average, with all
        that is needed to read it. packed: in the smallest way known, else in the way in which it is
        run; width: bytes of one that is kept as it was."""
        return 8.0 * width

    @abstractmethod
    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        """Compress the model in place: nobody else has it."""

    def applied(self, lm: LanguageModel, level: float, text: Text, seed: int) -> LanguageModel:
        """A compressed copy. `lm` is not touched and shares no memory with it."""
        import torch

        from engine.core.types import HeadMask
        from engine.surgery.heads.mask import cut

        own = replace(
            cut(lm, HeadMask(lm.n_layers, lm.n_heads)), cut=None
        )  # a copy, without the shift of its heads
        with torch.no_grad():
            self.change(own, level, text, seed)
        return own


@cache
def compressions() -> Mapping[str, Compression]:
    """Every way there is, by name."""
    return dict(sorted(named(__name__, Compression).items()))


def compression(name: str) -> Compression:
    """One way by name; unknown names raise RequestError and list the known ones."""
    if name not in compressions():
        raise RequestError(unknown("method", name, compressions()))
    return compressions()[name]
