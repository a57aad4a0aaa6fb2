"""The state of an unfinished fit on disk, so that a killed run goes on in the middle of a training."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from engine.core.files import safe_id, write_whole


class PartialFit:
    """One file below `folder`; tensors and plain values only (`weights_only`). A damaged file counts as none."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{safe_id(key, 'key')}.pt"

    def load(self) -> dict[str, Any] | None:
        """What was saved last, or None."""
        import torch

        if not self.path.exists():
            return None
        try:
            return torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception:  # torch raises many kinds for a file cut short
            return None

    def save(self, state: dict[str, Any]) -> None:
        """Whole or not at all; replaces what was there."""
        import torch

        write_whole(self.path, lambda temporary: torch.save(state, temporary))

    def clear(self) -> None:
        """The fit is finished."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
