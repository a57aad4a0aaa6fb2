"""The state of an unfinished fit on disk, so that a killed run goes on in the middle of a
training."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from engine.core.files import safe_id
from engine.store.sealed import DamagedError, read_bytes, write_bytes


class PartialFit:
    """One file below `folder`; tensors and plain values only (`weights_only`). Damaged, it is
    none."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{safe_id(key, 'key')}.pt"

    def load(self) -> dict[str, Any] | None:
        """What was saved last, or None."""
        import torch

        try:
            body, _ = read_bytes(self.path, self.path.stem)
            return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        except (OSError, DamagedError):  # also one of a version that kept no hash: it is begun anew
            return None

    def save(self, state: dict[str, Any]) -> None:
        """Whole or not at all; replaces what was there."""
        import torch

        torch.save(state, body := io.BytesIO())
        write_bytes(self.path, self.path.stem, body.getvalue())

    def clear(self) -> None:
        """The fit is finished."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
