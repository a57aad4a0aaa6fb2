"""What a folder's weight files say about themselves, read from safetensors headers. No tensor is loaded, no torch."""

from __future__ import annotations

import hashlib
import json
import math
from functools import lru_cache
from pathlib import Path

from engine.core.errors import Fault

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
_LONGEST_HEADER = 100_000_000  # bytes; the safetensors format's own limit


def weight_files(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The safetensors files that make up the model, in name order, and what is wrong with the set."""
    if (folder / INDEX).is_file():
        return _sharded(folder)
    if (folder / SINGLE).is_file():
        return [folder / SINGLE], []
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        what = f"holds its weights only as {', '.join(pickles[:3])}, which can run code when opened."
        fix = f"Convert them to {SINGLE} (transformers: model.save_pretrained) and try again."
    else:
        what, fix = f"has no {SINGLE}.", "Point to a folder written by save_pretrained."
    return [], [Fault(str(folder), what, fix)]


def tensors_in(path: Path) -> tuple[dict[str, list[int]], list[Fault]]:
    """Tensor name -> shape of one file, and a fault where the file is shorter or longer than its header says."""
    size = path.stat().st_size
    again = "Download or copy it again."
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            return {}, [Fault(path.name, f"is truncated or no safetensors file ({size} bytes).", again)]
        try:
            header = json.loads(stream.read(length))
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
            shapes = {name: [int(side) for side in entry["shape"]] for name, entry in entries.items()}
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return {}, [Fault(path.name, "has a header that cannot be read.", again)]
    if 8 + length + end != size:
        what = f"is truncated: its header promises {8 + length + end} bytes, it has {size}."
        return shapes, [Fault(path.name, what, again)]
    return shapes, []


def count_parameters(shapes: dict[str, list[int]]) -> int:
    """Numbers in all tensors. Tensors of four dimensions are left out: old checkpoints store causal masks that way."""
    return sum(math.prod(shape) for shape in shapes.values() if len(shape) < 4)


def weight_hash(files: list[Path]) -> str:
    """SHA-256 (hex) of the files' bytes, one after the other in name order (`cat *.safetensors | sha256sum`)."""
    found = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)]
    return _hash(tuple(found))


@lru_cache(maxsize=32)
def _hash(stamped: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in stamped:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def _sharded(folder: Path) -> tuple[list[Path], list[Fault]]:
    try:
        named = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return [], [Fault(INDEX, "cannot be read.", "Download or copy it again.")]
    outside = sorted(str(name) for name in named if not isinstance(name, str) or Path(name).name != name)
    if outside:
        return [], [Fault(INDEX, f"names a file outside the folder: {outside[0]!r}.", "Do not use this checkpoint.")]
    missing = sorted(name for name in named if not (folder / name).is_file())
    faults = [Fault(name, "is missing.", "Download or copy it again.") for name in missing]
    return sorted(folder / name for name in named if name not in missing), faults
