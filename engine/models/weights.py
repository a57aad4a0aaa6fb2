"""What a folder's weight files say about themselves, read from safetensors headers."""

from __future__ import annotations

import hashlib
import json
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from engine.core.errors import Fault, said_by
from engine.models.config_file import quantisation_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
AGAIN = "Download or copy it again."
_MOST_DIMENSIONS = 64  # torch's own limit
_FLOATS = ("F16", "BF16", "F32", "F64")
_PACKED = ("U8", "I8", "F8_E5M2", "F8_E4M3")

Header = dict[str, dict[str, Any]]
"""Tensor -> dtype, shape and data_offsets, as safetensors writes them."""


def weight_files(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The safetensors files that make up the model, in name order, and what is wrong with the
    set."""
    if (folder / INDEX).is_file():
        files, faults = _sharded(folder)
        if (folder / SINGLE).is_file() and folder / SINGLE not in files:
            what = f"holds {SINGLE} and also the files that {INDEX} names. Is it two models?"
            fix = "Take away the one that is not meant: that file, or the index."
            faults.append(Fault(str(folder), what, fix))
        return files, faults
    if (folder / SINGLE).is_file():
        return [folder / SINGLE], []
    shards = sorted(path.name for path in folder.glob("model-*-of-*.safetensors"))
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    what, fix = f"has no {SINGLE}.", "Point to a folder written by save_pretrained."
    if shards:
        what = (
            f"holds {len(shards)} parts of weights ({', '.join(shards[:3])}) and no {INDEX}, "
            "which says what each holds."
        )
        fix = AGAIN
    elif pickles:
        what = (
            f"holds its weights only as {', '.join(pickles[:3])}, which can run code when opened."
        )
        fix = f"Convert them to {SINGLE} (transformers: model.save_pretrained) and try again."
    return [], [Fault(str(folder), what, fix)]


def weights_in(folder: Path) -> tuple[list[Path], dict[str, list[int]], list[Fault]]:
    """The weight files of a folder, tensor name -> shape of all of them, and what is wrong."""
    files, faults = weight_files(folder)
    shapes: dict[str, list[int]] = {}
    for path in files:
        found, more = tensors_in(path)
        faults += more
        if twice := sorted(found.keys() & shapes.keys()):
            what = (
                f"holds {twice[0]}, which another file of the model holds too ({len(twice)} such"
                " tensors)."
            )
            faults.append(Fault(path.name, what, "Use a complete checkpoint of one model."))
        shapes |= found
    return files, shapes, faults


def tensors_in(path: Path) -> tuple[dict[str, list[int]], list[Fault]]:
    """Tensor name -> shape of one file, and what is wrong with it: header, places of tensors,
    numbers."""
    header, faults = read_header(path)
    if faults:
        return {}, faults
    stat = path.stat()
    faults = [*_packed_faults(path, header), *_not_finite(path, stat.st_size, stat.st_mtime_ns)]
    return {name: list(entry["shape"]) for name, entry in header.items()}, faults


def read_header(path: Path) -> tuple[Header, list[Fault]]:
    """The header of a safetensors file, and what is wrong with it.

    safetensors itself checks that every tensor has its bytes, without gap or overlap, to the end of
    the file. Entries are returned only where it finds no fault.
    """
    try:
        with safe_open(path, framework="numpy"):
            pass
    except SafetensorError as error:
        what = f"is truncated or no safetensors file ({said_by(error)})."
        return {}, [Fault(path.name, what, AGAIN)]
    with path.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    header.pop("__metadata__", None)
    absurd = [name[:80] for name, entry in header.items() if _is_absurd(entry["shape"])]
    if absurd:
        what = f"has a tensor {absurd[0]!r} of a shape that no machine multiplies."
        return {}, [Fault(path.name, what, AGAIN)]
    return header, []


def _is_absurd(shape: list[int]) -> bool:
    """Whether no tensor can have the shape: too many dimensions, or sides that are too long, a 0
    among them or not."""
    return len(shape) > _MOST_DIMENSIONS or math.prod(max(side, 1) for side in shape) >= 2**60


def _packed_faults(path: Path, header: Header) -> list[Fault]:
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
        " tensors), while config.json names no quantization_config that says what they stand for."
    )
    fix = "Add the quantization_config, or save the model with plain weights."
    return [Fault(path.name, what, fix)]


BLOCK = 1 << 22
"""Numbers that are looked at together: what is looked at of gigabytes needs no more memory."""


@lru_cache(maxsize=64)
def _not_finite(path: Path, size: int, changed: int) -> tuple[Fault, ...]:
    """Weights that are no numbers or infinite; tensors of four dimensions, old causal masks, are
    not looked at."""
    import torch

    header, wrong = read_header(path)[0], []
    with safe_open(path, framework="pt") as stored:
        for name, entry in header.items():
            is_looked_at = entry["dtype"] in _FLOATS and len(entry["shape"]) < 4
            parts = stored.get_tensor(name).flatten().split(BLOCK) if is_looked_at else ()
            if not all(bool(torch.isfinite(part).all()) for part in parts):
                wrong.append(name[:80])
    if not wrong:
        return ()
    what = (
        f"has weights that are no finite numbers, in {len(wrong)} of {len(header)} tensors (first:"
        f" {wrong[0]!r})."
    )
    return (Fault(path.name, what, "Take a checkpoint whose training did not diverge."),)


def count_parameters(shapes: dict[str, list[int]]) -> int:
    """Numbers in all tensors. Tensors of four dimensions are left out: old checkpoints store causal
    masks that way."""
    return sum(math.prod(shape) for shape in shapes.values() if len(shape) < 4)


def bytes_in(files: list[Path]) -> int:
    """Bytes of the numbers that `count_parameters` counts, as the files keep them."""
    return sum(
        entry["data_offsets"][1] - entry["data_offsets"][0]
        for path in files
        for entry in read_header(path)[0].values()
        if len(entry["shape"]) < 4
    )


def weight_hash(files: list[Path]) -> str:
    """SHA-256 (hex) of the files' bytes, one after the other in name order (`cat *.safetensors |
    sha256sum`)."""
    return _hash(
        tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files))
    )


@lru_cache(maxsize=32)
def _hash(stamped: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in stamped:
        with path.open("rb") as stream:
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
    outside = sorted(str(one) for one in named if not isinstance(one, str) or Path(one).name != one)
    if outside:
        what = f"names a file outside the folder: {outside[0]!r}."
        return [], [Fault(INDEX, what, "Do not use this checkpoint.")]
    there = {one for one in named if os.path.isfile(folder / one)}
    faults = [Fault(name[:80], "is missing.", AGAIN) for name in sorted(named - there)]
    return sorted(folder / name for name in there), faults
