"""Models loaded by transformers, and whether their tensors are those that their files hold and
their config asks for.

Before any weight is read the model is made on the meta device, without memory for numbers, and
transformers loads descriptions of tensors into it. Names are matched by its own rules (prefixes,
former names, tied weights), as they will be when weights are loaded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from engine.core.errors import Fault, RequestError, refusal, said_by
from engine.core.types import Values
from engine.models import runtime
from engine.models.weights import read_header

BEGINNING = 65_536
"""Numbers of a tensor that are compared with the file's."""
ENDS = 64
"""Rows at either end of two tensors that are compared with each other."""


@dataclass(frozen=True)
class Match:
    """Names of tensors, sorted: those that the files lack, have in another shape, and have beyond
    what is asked for."""

    missing: tuple[str, ...] = ()
    misshapen: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


def loaded(
    auto: Any,
    folder: Path,
    name: str,
    files: Iterable[Path] | None,
    wrong: Callable[[Match], Match],
    **more: Any,
) -> tuple[Any, Match]:
    """A model from the safetensors files of a folder, never code of it, and how its tensors match.
    RequestError where transformers cannot load it, or fills in what they do not hold.

    auto: the transformers class that loads it. files: those that its numbers are compared with,
    None for no comparison. wrong: what of a match is a fault. more: other arguments of
    from_pretrained.
    """
    try:
        with quietly():
            model, report = auto.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                **more,
            )
    except (RuntimeError, ValueError, OSError, ImportError, KeyError) as error:
        if runtime.is_out_of_memory(error):
            raise
        what = f"cannot be loaded: {said_by(error)}."
        raise refusal(name, what, "Check the checkpoint.") from error
    match = match_in(report)
    faults = incomplete(name, wrong(match))
    if files is not None and not faults:
        faults = unlike_files(name, model, files)
    if faults:
        raise RequestError(faults)
    return model, match


def match_of(config: Any, files: Iterable[Path], auto: Any) -> Match:
    """How the tensors of safetensors files match the model that a config describes.

    auto: the transformers class that chooses the model, such as AutoModelForCausalLM. Files and
    config were checked. Nothing is said of a family whose tensors are converted on the way: what
    loads them says what is wrong.
    """
    headers = [read_header(path)[0] for path in files]
    try:
        with quietly():
            _, report = _empty(auto._model_mapping[type(config)]).from_pretrained(
                None,
                config=config,
                state_dict={
                    name: torch.empty(entry["shape"], device="meta").as_subclass(_Described)
                    for header in headers
                    for name, entry in header.items()
                },
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, ImportError):
        return Match()
    return match_in(report)


def match_in(report: Values) -> Match:
    """What transformers says of a checkpoint that it has loaded (`output_loading_info`)."""
    misshapen = sorted(str(key[0]) for key in report["mismatched_keys"])
    return Match(
        tuple(sorted(report["missing_keys"])),
        tuple(misshapen),
        tuple(sorted(report["unexpected_keys"])),
    )


def incomplete(name: str, found: Match) -> list[Fault]:
    """What to tell of a checkpoint whose tensors are not those of its config; transformers would
    fill them in with random numbers and only warn."""
    fix = "Use a complete checkpoint of one model."
    return [
        *_told(name, "lacks {} that its config.json asks for", found.missing, fix),
        *_told(name, "has {} of another shape than its config.json asks for", found.misshapen, fix),
        *_told(
            name,
            "has {} in its layers that its config.json does not ask for",
            found.unexpected,
            fix,
        ),
    ]


def _told(name: str, what: str, tensors: Sequence[str], fix: str) -> list[Fault]:
    """A fault of some tensors; none where there are none."""
    if not tensors:
        return []
    counted = f"{len(tensors)} tensor{'s' * (len(tensors) > 1)}"
    return [Fault(name, f"{what.format(counted)}, the first is {tensors[0]}.", fix)]


def untied(config: Any, files: Iterable[Path], auto: Any) -> str:
    """A sentence where the files hold two different tensors that config.json says are one:
    transformers keeps both."""
    kind = auto._model_mapping[type(config)]
    tied = getattr(kind, "_tied_weights_keys", None)
    if not isinstance(tied, dict) or not getattr(
        config.get_text_config(), "tie_word_embeddings", False
    ):
        return ""
    for pair in tied.items():
        ends = [end for name in pair if (end := _both_ends(name, files)) is not None]
        if len(ends) == 2 and not all(map(torch.equal, *ends)):
            return (
                f"config.json makes {pair[0]} and {pair[1]} one tensor (tie_word_embeddings), but "
                "the files hold two. Both are used as they are. Is the field right?"
            )
    return ""


def _both_ends(name: str, files: Iterable[Path]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The first and the last rows of a tensor, None where no file has it."""
    for path in files:
        with safe_open(path, framework="pt") as stored:
            if name in stored.keys():  # noqa: SIM118  (it is no mapping)
                rows, n = stored.get_slice(name), stored.get_slice(name).get_shape()[0]
                return rows[:ENDS], rows[max(0, n - ENDS) :]
    return None


def unlike_files(name: str, model: Any, files: Iterable[Path]) -> list[Fault]:
    """What of a model that transformers has just loaded is not what its safetensors files hold.

    transformers marks every parameter that it takes from a file. Where one is called as in the
    files, its beginning is compared with theirs; what a family's loader brings into another order
    has the same numbers all the same.
    """
    own, start = model.state_dict(), f"{model.base_model_prefix}."
    other = []
    for path in files:
        with safe_open(path, framework="pt") as stored:
            for key in stored.keys():  # noqa: SIM118  (it is no mapping)
                mine = own.get(key, own.get(start + key))
                if mine is not None and not _is_as_stored(mine, stored, key):
                    other.append(key)
    made_up = [
        one
        for one, part in model.named_parameters()
        if not getattr(part, "_is_hf_initialized", False)
    ]
    fix = (
        "Use a checkpoint saved by the version of transformers that this runs with, of a model that"
        " is tied as it says."
    )
    return [
        *_told(
            name, "was loaded with {} that nothing in its files went into", sorted(made_up), fix
        ),
        *_told(
            name, "was loaded with {} whose numbers are not those of its files", sorted(other), fix
        ),
    ]


def _is_as_stored(mine: torch.Tensor, stored: Any, key: str) -> bool:
    """Whether a tensor begins as in the file, or has all its numbers in another order; of another
    shape: it was made from several, which nothing is said about."""
    part = stored.get_slice(key)
    if list(mine.shape) != part.get_shape():
        return True
    if mine.dim() == 0:
        return torch.equal(mine, stored.get_tensor(key).to(mine.dtype))
    rows = 1 + BEGINNING * len(mine) // max(1, mine.numel())
    if torch.equal(mine[:rows], part[:rows].to(mine.dtype)):
        return True
    whole = stored.get_tensor(key).to(mine.dtype)
    return torch.equal(mine.flatten().sort().values, whole.flatten().sort().values)


class _Described(torch.Tensor):
    """A tensor without numbers, which stays where it is when transformers brings it to its
    place."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Shapes are any, as torch's functions have them."""
        if function is torch.Tensor.to:
            return args[0]
        return super().__torch_function__(function, types, args, kwargs or {})


def _empty(model: Any) -> Any:
    """The model's class without memory for what the files lack: a config that asks for a petabyte
    is only refused."""
    nothing = {
        name: lambda *args, **kwargs: None
        for name in ("_move_missing_keys_from_meta_to_device", "_initialize_missing_keys")
    }
    return type(model.__name__, (model,), {**nothing, "__module__": model.__module__})


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Within it transformers prints no progress bar and no table of missing tensors: they are
    judged here.

    The caller's stream of random numbers stays as it was.
    """
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        logging.set_verbosity(before)
