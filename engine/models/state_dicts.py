"""Weights of image classifiers as named tensors: read without running code, compared with an
architecture, hashed."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.core.errors import Fault
from engine.models import runtime
from engine.models.catalog import TENSOR_NAMES
from engine.models.vision import architecture_for, architectures
from engine.models.weights import read_header

State = dict[str, Tensor]
Read = tuple[State, list[Fault], tuple[str, ...]]
"""Weights of a file, what is wrong with them, and notes."""

COUNTER = "num_batches_tracked"
"""Ends the name of batch norm's step counters. They change no number and old files lack them: not
read, not hashed."""
INERT = (
    *(
        f"numpy.{core}.multiarray.{name}"
        for core in ("core", "_core")
        for name in ("scalar", "_reconstruct")
    ),
    "numpy.dtype",
    "numpy.ndarray",
    "argparse.Namespace",
)
"""What training scripts leave beside tensors. It is opened as a thing of no use: none of its code
is run."""
DEEPEST = 5
"""Keys that lead to the tensors of a checkpoint at most."""
PREFIXES = ("module.", "_orig_mod.", "model.")
"""What wrappers (data parallel, torch.compile, Lightning) put before every tensor's name."""
_SHOWN = 3
_PLAIN = "Save plain tensors: torch.save(model.state_dict(), FILE), or safetensors."
_AGAIN = "Download or copy it again."


@dataclass(frozen=True)
class Skeleton:
    """What an architecture asks for: tensor name -> shape (counters left out), the head's name, its
    parameters."""

    shapes: Mapping[str, tuple[int, ...]]
    head: str
    n_parameters: int


@lru_cache(maxsize=256)
def skeleton(arch: str, n_classes: int) -> Skeleton:
    """What an architecture asks for, built without memory for weights. RequestError for an unknown
    architecture."""
    architecture = architecture_for(arch)
    with torch.device("meta"):
        model = architecture.build(arch, n_classes)
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if not name.endswith(COUNTER)
    }
    return Skeleton(
        shapes, architecture.classifier(model), sum(one.numel() for one in model.parameters())
    )


def state_hash(state: Mapping[str, Tensor]) -> str:
    """SHA-256 (hex) over (name, dtype, shape, bytes) of every tensor in name order, step counters
    left out.

    The same for a model's state dict and for a safetensors file of it:
    state_hash(safetensors.torch.load_file(path)).
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        if name.endswith(COUNTER):
            continue
        tensor = state[name].detach().to("cpu").contiguous()
        digest.update(
            json.dumps(
                [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
            ).encode()
        )
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(path: Path) -> Read:
    """The tensors of a .safetensors file, or of a torch file read without running code; what is
    wrong with it; a note on what else it holds.

    Keys that lead to the tensors and prefixes are taken off, floating-point numbers become float32,
    counters are left out.
    """
    fix = "Check the path of the weight file."
    try:
        if path.is_dir():
            what, fix = "is a folder.", "Give a weight file; a model folder is given as the model."
        elif not path.is_file():
            what = "is not there."
        elif path.suffix == ".safetensors":
            header_faults = read_header(path)[1]
            return ({}, header_faults, ()) if header_faults else _found_in(path, load_file(path))
        else:
            return _found_in(path, _read_torch(path))
    except (OSError, ValueError, SafetensorError) as error:  # such as a name that is too long
        what = f"cannot be read ({error})."
    return {}, [Fault(str(path), what, fix)], ()


def _found_in(path: Path, found: Any) -> Read:
    """The tensors of what was read from a file: of the one model that it holds."""
    if isinstance(found, Fault):
        return {}, [found], ()
    states = _states(found)
    if len(states) != 1:
        return {}, [_not_one(path.name, list(states))], ()
    [(keys, tensors)] = states.items()
    return *plain_state(path.name, tensors), _unused(path.name, found, keys)


def misfits(where: str, state: Mapping[str, Tensor], arch: str) -> list[Fault]:
    """Every name and shape of a state dict that is not what an architecture asks for, and which one
    it would fit."""
    asked = skeleton(arch, n_outputs(state, arch) or 2).shapes
    missing = [f"{name} ({_by(asked[name])})" for name in asked if name not in state]
    unexpected = [f"{name} ({_by(state[name].shape)})" for name in state if name not in asked]
    differing = [
        f"{name} ({_by(state[name].shape)}, {arch} has {_by(asked[name])})"
        for name in asked
        if name in state and tuple(state[name].shape) != asked[name]
    ]
    if not missing + unexpected + differing:
        return []
    fitting = fitting_architectures(state)
    fix = (
        f"The file fits {' and '.join(fitting)}: give that architecture."
        if fitting
        else "Give this model's weights."
    )
    kinds = (
        ("lacks", missing, "that {} asks for"),
        ("has", unexpected, "that {} does not know"),
        ("has", differing, "of other shapes than {}"),
    )
    return [
        Fault(where, f"{verb} {_count(names)} {why.format(arch)}: {_first(names)}.", fix)
        for verb, names, why in kinds
        if names
    ]


@cache
def stored_names() -> Mapping[str, str]:
    """Digest of the names of each architecture's tensors, as `python -m assets.build.tensor_names`
    wrote them; nothing beside another torchvision than it was written with."""
    is_same = TENSOR_NAMES["torchvision"] == version("torchvision").split("+")[0]
    return TENSOR_NAMES["names"] if is_same else {}


def names_digest(names: Iterable[str]) -> str:
    """Short digest of a set of names."""
    return hashlib.sha256("\n".join(sorted(names)).encode("utf-8", "backslashreplace")).hexdigest()[
        :16
    ]


def fitting_architectures(state: Mapping[str, Tensor]) -> list[str]:
    """Names of the known architectures that take exactly these tensors by name and shape, for any
    number of classes.

    Only those whose names of tensors are these, or are not stored, are built and compared: to build
    all takes long.
    """
    found, stored = [], stored_names()
    for name, architecture in architectures().items():
        shapes = {
            key: tuple(tensor.shape) for key, tensor in architecture.without_extras(state).items()
        }
        if name in stored and stored[name] != names_digest(shapes):
            continue
        if skeleton(name, n_outputs(state, name) or 2).shapes == shapes:
            found.append(name)
    return found


def n_outputs(state: Mapping[str, Tensor], arch: str) -> int | None:
    """Classes that the head ([classes, width], or [classes, width, 1, 1]) in these tensors tells
    apart; None where they hold no such head."""
    weight = state.get(f"{skeleton(arch, 2).head}.weight")
    if weight is None or weight.ndim not in (2, 4):
        return None
    return int(weight.shape[0]) or None


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks users to file issues against torch
            with torch.serialization.safe_globals([(_Inert, name) for name in INERT]):
                return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds for damaged or executable pickles: do not load
        if runtime.is_out_of_memory(error):
            raise
        with path.open("rb") as stream:
            return _refusal(path.name, str(error), stream.read(4))


def _refusal(where: str, message: str, begins: bytes) -> Fault:
    if begins == b"GGUF":
        what = "is a GGUF file, which is read as a language model only."
        return Fault(where, what, "Take it to an audit of language models.")
    code = re.search(r"GLOBAL ([\w.]+)", message)
    if code:
        what = f"is a pickle that asks for code ({code[1]}) to be run when it is opened."
    elif "TorchScript" in message:
        what = "is a TorchScript program, not a state dict."
    elif begins[:1] == b"\x80":
        what = "is a damaged pickle or one that holds more than tensors, which can run code."
    else:
        return Fault(where, "is damaged or no weight file.", _AGAIN)
    return Fault(where, f"{what} It was not opened.", _PLAIN)


class _Inert:
    """Stands for what a checkpoint holds beside tensors: takes everything and keeps nothing."""

    def __init__(self, *given: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


def _states(found: Any) -> dict[tuple[str, ...], State]:
    """Every model in what a training script saved: its tensors, by the keys that lead to it. Of two
    that are the same the first; where anything holds a matrix, what holds none is no model."""
    every = list(_mappings(found, (), set()))
    models = [one for one in every if any(value.dim() > 1 for value in one[1].values())]
    kept: dict[tuple[str, ...], State] = {}
    for keys, named in models or every:
        if not any(_are_same(named, other) for other in kept.values()):
            kept[keys] = named
    return kept


def _mappings(
    found: Any, keys: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], State]]:
    """Mappings from names to tensors and the keys that lead to each. An optimizer's are under
    numbers."""
    if not isinstance(found, Mapping) or id(found) in seen or len(keys) > DEEPEST:
        return
    seen.add(id(found))
    texts = {key: value for key, value in found.items() if isinstance(key, str)}
    named = {key: value for key, value in texts.items() if isinstance(value, Tensor)}
    if named:
        yield keys, _without_prefixes(named)
    for key, value in texts.items():
        yield from _mappings(value, (*keys, key), seen)


def _are_same(one: State, other: State) -> bool:
    if one.keys() != other.keys():
        return False
    pairs = [(tensor, other[name]) for name, tensor in one.items()]
    if not all(_has_values(part) for pair in pairs for part in pair):
        return False
    return all(mine.dtype == its.dtype and torch.equal(mine, its) for mine, its in pairs)


def _not_one(where: str, found: list[tuple[str, ...]]) -> Fault:
    """A file with no model, or with several."""
    if not found:
        return Fault(where, "holds no tensors by name, so it is no state dict.", _PLAIN)
    names = [".".join(keys) or "its top level" for keys in found]
    path = "".join(f"[{key!r}]" for key in found[-1])
    what = (
        f"holds {len(found)} models that differ: {_first(names)}. Which is meant, it does not say."
    )
    return Fault(
        where, what, f"Save the right one alone, such as torch.save(torch.load(FILE){path}, NEW)."
    )


def _unused(where: str, found: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    """A note on what lies beside the tensors that the keys lead to."""
    others = []
    for depth, key in enumerate(keys):
        others += [".".join((*keys[:depth], str(one))) for one in found if one != key]
        found = found[key]
    others += [str(name) for name, value in found.items() if not isinstance(value, Tensor)]
    return (f"{where} also holds {_first(others)}: not used.",) if others else ()


def _without_prefixes(named: State) -> State:
    for prefix in PREFIXES * 2:
        if named and all(name.startswith(prefix) for name in named):
            named = {name.removeprefix(prefix): tensor for name, tensor in named.items()}
    return named


def plain_state(where: str, tensors: Mapping[str, Tensor]) -> tuple[State, list[Fault]]:
    """Float32 copies by name, in their own shapes, counters left out; faults for tensors that are
    not finite floats."""
    state, faults = {}, []
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(COUNTER)}
    odd = [
        name
        for name, tensor in tensors.items()
        if not (_has_values(tensor) and torch.is_floating_point(tensor))
    ]
    if odd:
        what = (
            f"has {_count(odd)} that are sparse, quantised, complex, whole numbers or without"
            f" values: {_first(odd)}."
        )
        faults.append(Fault(where, what, "Give weights as ordinary floating-point tensors."))
    for name, tensor in tensors.items():
        if name not in odd:
            state[name] = tensor.detach().to(torch.float32, copy=True).contiguous()
    broken = [name for name, tensor in state.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        what = f"has {_count(broken)} with NaN or infinite weights: {_first(broken)}."
        faults.append(Fault(where, what, "Use a checkpoint from before training broke down."))
    return state, faults


def _has_values(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_meta


def _by(shape: Any) -> str:
    return "x".join(str(side) for side in shape) or "one number"


def _count(names: list[str]) -> str:
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}"


def _first(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
