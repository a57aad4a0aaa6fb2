"""Reading a mask file of any kind: a JSON object of reasonable size, or a clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError


def read_object(path: str | Path, largest: int) -> dict[str, Any]:
    """The JSON object in the file. RequestError where there is none, or more than `largest` bytes."""
    path = Path(path)
    try:
        if path.stat().st_size > largest:
            raise ValueError("far too large")
        plain = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(plain, dict):
            raise ValueError("not an object")
    except OSError as error:
        raise RequestError(Fault(str(path), f"cannot be read ({error.strerror}).", "Give a mask.json.")) from error
    except (ValueError, RecursionError) as error:
        what = f"is no JSON object ({error})."
        raise RequestError(Fault(str(path), what, "Give a mask.json as exported.")) from error
    return plain
