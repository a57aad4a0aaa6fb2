"""CIFAR-10's python batches without running what a pickle can run: plain containers and number arrays, nothing else."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.errors import Fault, RequestError

MAX_FILE = 512 * 2**20
"""Bytes in one batch; CIFAR-10's have 31 MB."""
MOST_TUPLES = 500
"""Tuples in one batch; CIFAR-10's have a dozen."""
DTYPES = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def load(path: Path) -> dict[str, Any]:
    """The dictionary a batch file holds, keys as text, arrays as arrays. Raises RequestError for more than data.

    numpy's own unpickling is not used either: a forged dtype can make it read memory it does not own. The few names
    that a batch of numbers needs are answered by stand-ins that build arrays with np.frombuffer.
    """
    where = f"batch {path.name}"
    if path.stat().st_size > MAX_FILE:
        raise RequestError(Fault(where, "The file is too large for a batch.", "Fetch it again from CIFAR-10's page."))
    try:
        _must_be_flat(path)
        found = _Reader(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except _Refused as error:
        fix = "Such a pickle could run code, so nothing of it was used. Fetch the file again from CIFAR-10's page."
        raise RequestError(Fault(where, f"It asks for {error}, which no batch of images needs.", fix)) from error
    except OSError:
        raise
    except Exception as error:  # a broken pickle raises nearly anything: EOFError, KeyError, TypeError, MemoryError, …
        what = f"It is not a pickled batch, or it is cut short ({type(error).__name__})."
        raise RequestError(Fault(where, what, "Fetch the file again from CIFAR-10's page.")) from error
    if not isinstance(found, dict):
        raise RequestError(Fault(where, "It holds no dictionary.", "CIFAR-10's batches hold data and labels."))
    return {_text(name): value.array if isinstance(value, _Array) else value for name, value in found.items()}


def _must_be_flat(path: Path) -> None:
    """Refuse thousands of nested tuples: hashing them overruns the interpreter's stack."""
    with path.open("rb") as file:
        nested = sum(code.name.startswith(("TUPLE", "FROZENSET")) for code, _, _ in pickletools.genops(file))
    if nested > MOST_TUPLES:
        raise _Refused(f"{nested} tuples")


class _Refused(Exception):
    """A name outside the short list."""


class _Reader(pickle.Unpickler):
    """Looks names up in the list below, and nowhere else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise _Refused(f"{module}.{name}")
        return _NAMES[module, name]


class _Dtype:
    """Stands in for numpy.dtype: only numbers."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = _text(name).lstrip("<|=")
        if self.name not in DTYPES:
            raise _Refused(f"an array of {self.name!r}")

    def __setstate__(self, state: Any) -> None:
        if len(state) < 2 or _text(state[1]) not in ("<", "|", "="):
            raise _Refused("an array in another byte order")


class _Array:
    """Stands in for numpy.ndarray while it is put together; `array` is the result."""

    def __init__(self, *_: Any) -> None:
        self.array = np.empty(0, np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, raw = state
        self.array = _array(raw, dtype, shape, "F" if by_columns else "C")


def _array(raw: Any, dtype: _Dtype, shape: Any, order: str = "C") -> np.ndarray:
    """The array of `shape` that the bytes hold, of a dtype in DTYPES. _Refused for all else."""
    shape = tuple(int(side) for side in shape)
    if not isinstance(raw, bytes | bytearray) or not isinstance(dtype, _Dtype):
        raise _Refused("an array that is not made of bytes")
    flat = np.frombuffer(bytes(raw), dtype=np.dtype(dtype.name))
    if min(shape, default=0) < 0 or math.prod(shape) != len(flat):
        raise _Refused("an array whose bytes do not fill its shape")
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _from_buffer(raw: Any, dtype: _Dtype, shape: Any, order: Any = "C") -> _Array:
    wrapped = _Array()
    wrapped.array = _array(raw, dtype, shape, _text(order))
    return wrapped


def _encode(text: str, encoding: Any = "latin1") -> bytes:
    """codecs.encode as Python 3 uses it to write bytes; other codecs could unpack bombs."""
    if _text(encoding).replace("-", "").lower() not in ("latin1", "iso88591"):
        raise _Refused(f"the codec {_text(encoding)!r}")
    return text.encode("latin1")


def _rebuild(*_: Any) -> _Array:
    return _Array()


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _no_bytes(*given: Any) -> bytes:
    """How old protocols write empty bytes; given a number, bytes() would fill the memory."""
    if given:
        raise _Refused("bytes made from something else")
    return b""


_NAMES: dict[tuple[str, str], Callable[..., Any]] = {("_codecs", "encode"): _encode, ("codecs", "encode"): _encode}
for _core in ("numpy.core", "numpy._core"):
    _NAMES[f"{_core}.multiarray", "_reconstruct"] = _rebuild
    _NAMES[f"{_core}.numeric", "_frombuffer"] = _from_buffer
_NAMES["numpy", "ndarray"] = _Array
_NAMES["numpy", "dtype"] = _Dtype
for _module in ("builtins", "__builtin__"):
    _NAMES |= {(_module, kind.__name__): kind for kind in (list, dict, tuple, set, frozenset)}
    _NAMES[_module, "bytes"] = _no_bytes
