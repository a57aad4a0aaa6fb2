"""A GGUF file as its header tells it: no weight is read.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError, StoreError, refusal
from engine.core.types import Values
from engine.store.sealed import read_document

ENDING = ".gguf"
RECORD = "gguf.json"
"""In a folder that was made of a GGUF file: what the file kept, and what was made of it."""
SCHEMA = 1
AGAIN = "Download or copy it again."

_SCALARS = {
    **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f"},
    **{7: "<?", 10: "<Q", 11: "<q", 12: "<d"},
}
_STRING, _ARRAY = 8, 9
_MOST_SIDES = 4  # ggml's own limit
_TOKENS, _PIECE = "tokenizer.ggml.tokens", "split.count"


@dataclass(frozen=True)
class Kept:
    """One tensor as a file keeps it: the type of its numbers, how many they are, their bytes."""

    kind: str
    numbers: int
    n_bytes: int


@dataclass(frozen=True)
class Gguf:
    """What a file's header says. fields: single values by name; tokens: its vocabulary in order."""

    path: Path
    fields: Values
    tokens: Sequence[str]
    tensors: Mapping[str, Kept]

    @property
    def architecture(self) -> str:
        return str(self.fields.get("general.architecture", ""))

    def own(self, name: str) -> Any:
        """A field of its architecture; None where it has none."""
        return self.fields.get(f"{self.architecture}.{name}")

    @property
    def numbers(self) -> int:
        return sum(one.numbers for one in self.tensors.values())

    @property
    def kind(self) -> str:
        """The type that most numbers have."""
        counted: Counter[str] = Counter()
        for one in self.tensors.values():
            counted[one.kind] += one.numbers
        return counted.most_common(1)[0][0]


def record_of(folder: Path) -> Values:
    """What a folder that was made of a GGUF file says of it; {} for any other folder."""
    if not (folder / RECORD).is_file():
        return {}
    try:
        return read_document(folder / RECORD, "the dequantised model", SCHEMA)
    except StoreError:
        return {}


def said_of(folder: Path) -> list[str]:
    """What a reader must know of a folder that was made of a GGUF file, in sentences."""
    if not (record := record_of(folder)):
        return []
    bits, size = 8 * record["n_bytes"] / record["numbers"], record["n_bytes"] / 1e6
    found = [
        f"It was dequantised from {record['kind']} ({size:,.1f} MB, {bits:.1f} bits a number)."
        " There is no dense original here: changes are against the dequantised numbers."
    ]
    if record["unread"]:
        fields = ", ".join(record["unread"][:3])
        found.append(f"Its file has {fields}, which transformers does not read: does it need it?")
    if record["unchecked"]:
        found.append(
            f"Reading {record['unchecked']} from GGUF was never checked here against an original:"
            " compare it with its safetensors."
        )
    return found


def read_gguf(path: Path) -> Gguf:
    """The header of a file that holds one whole language model. RequestError with all faults."""
    if not os.path.isfile(path):  # False of a name that is too long, or has a zero byte
        raise refusal(str(path), "is not there.", "Give the path of a GGUF file.")
    stat = path.stat()
    return _read(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, size: int, changed: int) -> Gguf:
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise refusal(path.name, "is no GGUF file.", AGAIN)
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found, faults = _Reader(data).file(path)
    except (struct.error, UnicodeDecodeError, ValueError, OverflowError) as error:
        what = f"is damaged or truncated: its header does not fit into its {size:,} bytes."
        raise refusal(path.name, what, AGAIN) from error
    if faults := [*faults, *_faults(found)]:
        raise RequestError(faults)
    return found


class _Reader:
    """Goes through a header. Whatever leads beyond the file is a struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 4

    def one(self, form: str) -> Any:
        """The next number, of a form of `struct`."""
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def skip(self, size: int) -> int:
        """Goes past the next `size` bytes; where they begin."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise struct.error("beyond the end")
        return start

    def text(self) -> str:
        size = self.one("<Q")
        start = self.skip(size)
        return self.data[start : start + size].decode("utf-8")

    def value(self, kind: int) -> Any:
        """The next value, of a kind of GGUF's: a list for texts, None for a list of numbers, which
        is passed over."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.one(_form(kind))
        kind, count = self.one("<I"), self.one("<Q")
        if kind == _STRING:
            return [self.text() for _ in range(count)]
        self.skip(count * struct.calcsize(_form(kind)))
        return None

    def file(self, path: Path) -> tuple[Gguf, list[Fault]]:
        """The whole header, and what is wrong with the tensors that it lists.

        places: numbers, type and offset of each tensor, by name.
        """
        from gguf import GGML_QUANT_SIZES

        if (version := self.one("<I")) not in (2, 3):
            what = f"is GGUF of version {version}; 2 and 3 are known, little-endian."
            raise refusal(path.name, what, "Convert it anew with llama.cpp.")
        n_tensors, n_fields = self.one("<Q"), self.one("<Q")
        fields = {}
        for _ in range(n_fields):
            name = self.text()
            fields[name] = self.value(self.one("<I"))
        places, faults = {}, []
        for _ in range(n_tensors):
            name, sides = self.text(), self.one("<I")
            if sides > _MOST_SIDES:
                raise ValueError("more sides than a tensor has")
            numbers = math.prod(self.one("<Q") for _ in range(sides))
            places[name] = (numbers, self.one("<I"), self.one("<Q"))
        step = fields.get("general.alignment", 32)
        if type(step) is not int or step < 1:
            raise ValueError("an alignment that is none")
        start = -(-self.at // step) * step
        tensors, end = {}, start
        kinds = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
        for name, (numbers, number, offset) in places.items():
            kind, block, size = kinds.get(number, (f"type {number}", 1, 0))
            tensors[name] = Kept(kind, numbers, -(-numbers // block) * size)
            end = max(end, start + offset + tensors[name].n_bytes)
        unknown = [name for name, one in places.items() if one[1] not in kinds]
        if unknown:
            what = (
                f"holds {unknown[0][:80]!r} in numbers of {tensors[unknown[0]].kind}, which is not"
                f" known here ({len(unknown)} such tensors)."
            )
            known = ", ".join(kind for kind, _, _ in kinds.values())
            faults.append(Fault(path.name, what, f"Take a file of a known type: {known}."))
        if end > len(self.data):
            what = f"is truncated: {len(self.data):,} bytes, its header tells of {end:,}."
            faults.append(Fault(path.name, what, AGAIN))
        words = fields.pop(_TOKENS, None) or ()
        plain = {name: one for name, one in fields.items() if not isinstance(one, list)}
        return Gguf(path, plain, tuple(words), tensors), faults


def _form(kind: int) -> str:
    """The form of `struct` for a kind of number; ValueError for an unknown one."""
    if kind not in _SCALARS:
        raise ValueError("a kind of value that nobody knows")
    return _SCALARS[kind]


def _faults(found: Gguf) -> list[Fault]:
    """Why a file that can be read is no language model that could be audited; all of it."""
    faults, where, dense = [], found.path.name, "Take a GGUF of a language model."
    pieces = found.fields.get(_PIECE, 1)
    if type(pieces) is int and pieces > 1:
        fix = "Join them first: llama-gguf-split --merge FIRST.gguf WHOLE.gguf."
        faults.append(Fault(where, f"is one of {pieces} files that make up the model.", fix))
    if (kind := found.fields.get("general.type", "model")) != "model":
        faults.append(Fault(where, f"holds no model but {kind!r} (general.type).", dense))
    elif not found.architecture:
        faults.append(Fault(where, "names no architecture (general.architecture).", dense))
    elif _embeds(found):
        what = (
            f"holds an embedding model ({found.architecture}): it reads texts and does not continue"
            " them."
        )
        faults.append(Fault(where, what, dense))
    layers, tensors = found.own("block_count"), len(found.tensors)
    if not faults and tensors and not (type(layers) is int and 1 <= layers <= tensors):
        named = "no" if layers is None else repr(layers)
        what = f"names {named} layers ({found.architecture}.block_count) in {tensors} tensors."
        faults.append(Fault(where, what, AGAIN))
    if not found.tensors and not faults:
        faults.append(Fault(where, "holds no weights.", dense))
    if not found.tokens and not faults:
        faults.append(Fault(where, f"has no vocabulary ({_TOKENS}).", dense))
    return faults


def _embeds(found: Gguf) -> bool:
    """Whether a file is of a model that makes one vector of a text."""
    pooled = found.own("pooling_type") or 0
    return (
        pooled != 0
        or found.own("attention.causal") is False
        or any(part in found.architecture for part in ("bert", "embedding", "t5encoder"))
    )
