"""The smallest weights set to zero, and as many at random: the simplest way, and its control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.types import exact_count
from engine.tracks.language_models.compressions.base import Text, Zeroing

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel


@dataclass(frozen=True)
class ByRank(Zeroing):
    """In every linear layer of the blocks, int(level·n) of its n weights become zero: the smallest,
    or drawn ones."""

    name: str
    uses_seed: bool = False
    version: int = 1

    def zeros(self, rows: int, width: int, level: float) -> int:
        return exact_count(level, rows * width)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import linear_weights

        for place, weight in enumerate(linear_weights(lm)):
            weight[self._gone(weight, level, (seed, place))] = 0

    def _gone(self, weight: torch.Tensor, level: float, key: tuple[int, int]) -> torch.Tensor:
        """True where a weight becomes zero; ties go to the earlier one."""
        import torch

        from engine.core.types import rng

        if self.uses_seed:
            order = torch.from_numpy(rng("random weights", *key).permutation(weight.numel()))
        else:
            order = weight.abs().flatten().argsort(stable=True).cpu()
        gone = torch.zeros(weight.numel(), dtype=torch.bool)
        gone[order[: exact_count(level, weight.numel())]] = True
        return gone.reshape(weight.shape).to(weight.device)


ROWS = (
    # Unstructured, layer by layer (Han et al. 2015).
    ByRank("magnitude_weights"),
    # What any choice of weights must beat.
    ByRank("random_weights", uses_seed=True),
)
