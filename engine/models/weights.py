"""What a folder's weight files say about themselves, read from safetensors headers. No torch."""

from __future__ import annotations

import hashlib
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.core.errors import Fault
from engine.core.files import is_too_long
from engine.models.config_file import quantisation_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
_LONGEST_HEADER = 100_000_000  # bytes; the safetensors format's own limit
_MOST_DIMENSIONS = 64  # torch's own limit
AGAIN = "Download or copy it again."
BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}
"""Bytes of one number of every kind that safetensors knows."""
_FLOATS = {
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
    "F32": ("<u4", 0x7F800000),
    "F64": ("<u8", 0x7FF0000000000000),
}
"""Unsigned integers of the same size, and the bits of the exponent."""
_PACKED = ("U8", "I8", "F8_E5M2", "F8_E4M3")


def weight_files(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The safetensors files that make up the model, in name order, and what is wrong with the
    set."""
    if (folder / INDEX).is_file():
        files, faults = _sharded(folder)
        if (folder / SINGLE).is_file() and folder / SINGLE not in files:
            what = (
                f"holds {SINGLE}, and beside it the shards that {INDEX} names: two models, it"
                " may be."
            )
            faults.append(
                Fault(
                    str(folder),
                    what,
                    "Take away the one that is not meant: that file, or the index.",
                )
            )
        return files, faults
    if (folder / SINGLE).is_file():
        return [folder / SINGLE], []
    shards = sorted(path.name for path in folder.glob("model-*-of-*.safetensors"))
    if shards:
        what = (
            f"holds {len(shards)} shards ({', '.join(shards[:3])}) and no {INDEX}, which says what"
            " belongs to each."
        )
        return [], [Fault(str(folder), what, AGAIN)]
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        what = (
            f"holds its weights only as {', '.join(pickles[:3])}, which can run code when opened."
        )
        fix = f"Convert them to {SINGLE} (transformers: model.save_pretrained) and try again."
    else:
        what, fix = f"has no {SINGLE}.", "Point to a folder written by save_pretrained."
    return [], [Fault(str(folder), what, fix)]


def tensors_in(path: Path) -> tuple[dict[str, list[int]], list[Fault]]:
    """Tensor name -> shape of one file, and what is wrong with it: header, places of tensors,
    numbers."""
    header, start, faults = read_header(path)
    if faults:
        return {}, faults
    shapes = {name: list(entry["shape"]) for name, entry in header.items()}
    stat = path.stat()
    return shapes, [
        *_packed_faults(path, header),
        *_not_finite(path, stat.st_size, stat.st_mtime_ns),
    ]


def _packed_faults(path: Path, header: dict[str, dict[str, Any]]) -> list[Fault]:
    """Weights in whole or 8-bit numbers, of which nothing says what they stand for: loaders take
    the bare numbers."""
    packed = [
        name[:80]
        for name, entry in header.items()
        if entry["dtype"] not in _FLOATS and len(entry["shape"]) in (1, 2, 3)
        if name.endswith("weight") or entry["dtype"] in _PACKED
    ]
    if not packed or quantisation_of(path.parent):
        return []
    what = (
        f"holds {packed[0]!r} in numbers of {header[packed[0]]['dtype']} ({len(packed)} such"
        " tensors), while "
    )
    what += "config.json names no quantization_config that says what they stand for."
    return [
        Fault(path.name, what, "Add the quantization_config, or save the model with plain weights.")
    ]


def read_header(path: Path) -> tuple[dict[str, dict[str, Any]], int, list[Fault]]:
    """Entries of a safetensors header by tensor (dtype, shape, data_offsets), where the data begin,
    and all faults.

    Entries are returned only where there are none: nothing is read from places that were not
    checked.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            return (
                {},
                0,
                [Fault(path.name, f"is truncated or no safetensors file ({size} bytes).", AGAIN)],
            )
        raw = stream.read(length)
    try:
        header = json.loads(raw, object_pairs_hook=_once)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, AttributeError, RecursionError) as error:
        what = "has a header that cannot be read" + (
            f": {error}." if isinstance(error, _TwiceError) else "."
        )
        return {}, 0, [Fault(path.name, what, AGAIN)]
    faults = _metadata_faults(path.name, header.get("__metadata__", {}))
    faults += [
        fault for name, entry in entries.items() for fault in _entry_faults(path.name, name, entry)
    ]
    faults = faults or _place_faults(path.name, entries, size - 8 - length)
    return ({}, 0, faults) if faults else (entries, 8 + length, [])


class _TwiceError(ValueError):
    """One name twice in an object of JSON: which of the two counts, readers do not agree on."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError("it names something twice")
    return found


def _metadata_faults(file: str, found: Any) -> list[Fault]:
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return []
    return [Fault(file, "has a header whose __metadata__ is no list of words by name.", AGAIN)]


def _entry_faults(file: str, name: str, entry: Any) -> list[Fault]:
    """What is wrong with one tensor's entry, seen alone."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return [Fault(file, f"describes the tensor {name[:80]!r} in no way that is known.", AGAIN)]
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BYTES:
        return [
            Fault(
                file, f"has a tensor {name[:80]!r} of unknown numbers ({str(dtype)[:40]}).", AGAIN
            )
        ]
    if (
        not _whole_numbers(shape)
        or not _whole_numbers(offsets)
        or len(offsets) != 2
        or _is_absurd(shape)
    ):
        what = (
            f"has a tensor {name[:80]!r} whose shape or place is not made of a few whole numbers"
            " from 0 on."
        )
        return [Fault(file, what, AGAIN)]
    begin, end = offsets
    if end - begin != math.prod(shape) * BYTES[dtype]:
        what = f"has a tensor {name[:80]!r} of {_sides(shape)} numbers in {end - begin} bytes."
        return [Fault(file, what, AGAIN)]
    return []


def _place_faults(file: str, entries: dict[str, dict[str, Any]], size: int) -> list[Fault]:
    """Tensors follow each other without gap or overlap, from the first to the last of `size`
    bytes."""
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != at:
            what = "overlaps the one before it" if begin < at else "leaves a gap before it"
            return [Fault(file, f"is damaged: the tensor {name[:80]!r} {what}.", AGAIN)]
        at = end
    if at != size:
        return [
            Fault(
                file,
                f"is truncated: its header promises {at} bytes of numbers, it has {size}.",
                AGAIN,
            )
        ]
    return []


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**62 for one in value)


def _is_absurd(shape: list[int]) -> bool:
    """Whether no tensor can have the shape: too many dimensions, or sides that no machine
    multiplies, a 0 among them or not."""
    return len(shape) > _MOST_DIMENSIONS or math.prod(max(side, 1) for side in shape) >= 2**60


def _sides(shape: list[int]) -> str:
    return " x ".join(map(str, shape)) or "one"


@lru_cache(maxsize=64)
def _not_finite(path: Path, size: int, changed: int) -> tuple[Fault, ...]:
    """Weights that are no numbers or infinite; tensors of four dimensions, old causal masks, are
    not looked at."""
    header, start, _ = read_header(path)
    wrong = []
    with path.open("rb") as stream:
        for name, entry in header.items():
            if entry["dtype"] in _FLOATS and len(entry["shape"]) < 4:
                begin, end = entry["data_offsets"]
                stream.seek(start + begin)
                if not _finite(stream, end - begin, *_FLOATS[entry["dtype"]]):
                    wrong.append(name[:80])
    if not wrong:
        return ()
    what = (
        f"has weights that are no finite numbers, in {len(wrong)} of {len(header)} tensors (first:"
        f" {wrong[0]!r})."
    )
    return (Fault(path.name, what, "Take a checkpoint whose training did not diverge."),)


def _finite(stream: BinaryIO, size: int, kind: str, exponent: int) -> bool:
    """Whether all numbers of the next `size` bytes are finite: whose exponent is all ones is
    not."""
    while size > 0:
        bits = np.frombuffer(stream.read(min(size, 1 << 22)), dtype=kind)
        if bool(((bits & exponent) == exponent).any()):
            return False
        size -= 1 << 22
    return True


def count_parameters(shapes: dict[str, list[int]]) -> int:
    """Numbers in all tensors. Tensors of four dimensions are left out: old checkpoints store causal
    masks that way."""
    return sum(math.prod(shape) for shape in shapes.values() if len(shape) < 4)


def weight_hash(files: list[Path]) -> str:
    """SHA-256 (hex) of the files' bytes, one after the other in name order (`cat *.safetensors |
    sha256sum`)."""
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
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return [], [Fault(INDEX, "cannot be read.", AGAIN)]
    if not named:
        return [], [Fault(INDEX, "names no weight file.", AGAIN)]
    outside = sorted(
        str(name) for name in named if not isinstance(name, str) or Path(name).name != name
    )
    if outside:
        return [], [
            Fault(
                INDEX,
                f"names a file outside the folder: {outside[0]!r}.",
                "Do not use this checkpoint.",
            )
        ]
    missing = sorted(
        name for name in named if is_too_long(folder / name) or not (folder / name).is_file()
    )
    faults = [Fault(name[:80], "is missing.", AGAIN) for name in missing]
    return sorted(folder / name for name in named if name not in missing), faults
