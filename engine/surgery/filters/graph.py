"""Which filters may be cut, proved on the model, and gates that silence or learn them.

Those may be cut whose cut and silenced models give the same answers. Torch-Pruning's graph follows
most of what networks do, not all: channels in another order, for example. What it reads wrongly
shows as another answer of the cut model, or as a cut that cannot run. Weights are drawn for it, so
that no layer is zero by accident. The answer depends on the model's shape only; it is found once
per shape. Of a vision transformer: the heads of each attention layer.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import MaskError, RequestError, refusal, said_by
from engine.core.types import FilterMask, rng
from engine.models.load_image_classifier import Classifier
from engine.models.runtime import is_out_of_memory
from engine.models.state_dicts import state_hash
from engine.models.transformer import attached
from engine.surgery.agreement import Agreement, Twice, doubled, judged
from engine.surgery.filters.reading import (
    SERVES,
    FilterGraph,
    FilterGroup,
    candidate_graph,
    cut_heads,
    dependency_graph,
    head_graph,
    some_of_group,
    width_of,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


def filter_graph(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier. The model itself is left as it is. RequestError where nothing can
    be cut.

    Groups whose cut does not equal their mask are left whole, unless tests prove the
    whole architecture.
    """
    if classifier.architecture.is_proved:
        return candidate_graph(classifier)
    try:
        unsafe = unsafe_roots(classifier)
        if not classifier.architecture.has_heads:
            return candidate_graph(classifier, unsafe)
        if not unsafe:
            return head_graph(classifier)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        if is_out_of_memory(error):
            raise
        what = (
            f"cannot be followed through its layers on images of {classifier.size} pixels"
            f" ({said_by(error)})."
        )
        raise refusal(
            classifier.name, what, "Give the size it was made for, or another model."
        ) from error
    what = (
        "is a transformer with heads that cannot be cut one by one: cut and silenced, they give"
        " other answers. Windows or biases by relative position count its heads too."
    )
    raise refusal(classifier.name, what, SERVES)


# Gates, leaving no trace: 0/1 to mask filters, soft and differentiable to learn them.


PROBE_IMAGES = 4


@contextlib.contextmanager
def gated(
    model: nn.Module, graph: FilterGraph, gates: Callable[[], Tensor] | Tensor
) -> Iterator[None]:
    """Within it every filter's output, after its batch norm, is multiplied by its gate: [units], or
    [images, units].

    A callable is asked at the start of every forward pass. Hooks are removed whatever happens.
    """
    current = {}
    ask = gates if callable(gates) else lambda: gates

    def fresh(_: nn.Module, __: Any) -> None:
        current["gates"] = ask()

    def handles() -> Iterator[Any]:
        yield model.register_forward_pre_hook(fresh)
        for group in graph.groups:
            how = _multiply_input if group.is_heads else _multiply
            for name, channels in group.gated:
                yield how(model.get_submodule(name), current, group.start, channels)

    with attached(handles()):
        yield


def _multiply(
    module: nn.Module, current: dict[str, Tensor], start: int, channels: np.ndarray
) -> Any:
    """Hook the module: its output's channel c is multiplied by gate start + channels[c]; channels
    [channels] int.

    Channels of -1 stay as they are.
    """
    straight = np.array_equal(channels, np.arange(len(channels)))
    places, others = torch.as_tensor(start + channels), torch.as_tensor(channels < 0)
    places[others] = start

    def multiply(made_by: nn.Module, _: Any, output: Tensor) -> Tensor:
        gates = current["gates"]
        mine = (
            gates[..., start : start + len(channels)]
            if straight
            else gates[..., places.to(gates.device)]
        )
        if others.any():
            mine = mine.masked_fill(others.to(gates.device), 1.0)
        last = (1, 1, len(channels)) if isinstance(made_by, nn.Linear) else (len(channels), 1, 1)
        return output * mine.to(output.dtype).view(-1, *last)

    return module.register_forward_hook(multiply)


def _multiply_input(
    module: nn.Module, current: dict[str, Tensor], start: int, channels: np.ndarray
) -> Any:
    """Hook the module: column c of its input [images, tokens, columns] is multiplied by gate start
    + channels[c]."""
    places = torch.as_tensor(start + channels)

    def multiply(_: nn.Module, given: Any) -> Any:
        gates = current["gates"]
        mine = gates[..., places.to(gates.device)].to(given[0].dtype)
        return (given[0] * mine.view(-1, 1, len(channels)), *given[1:])

    return module.register_forward_pre_hook(multiply)


@contextlib.contextmanager
def masked_filters(classifier: Classifier, graph: FilterGraph, mask: FilterMask) -> Iterator[None]:
    """The classifier with these filters silenced. MaskError where the mask is for other groups."""
    if mask.widths != graph.widths:
        raise MaskError(
            f"The mask is for {len(mask.widths)} groups of filters that are not those of the model."
        )
    keep = torch.as_tensor(mask.keep(), dtype=torch.float32, device=classifier.device)
    with gated(classifier.model, graph, keep):
        yield


@contextlib.contextmanager
def resumed(model: nn.Module, group: FilterGroup | None, images: Tensor) -> Iterator[None]:
    """Within it the model answers these very images anew from where the group is first silenced.

    What the outermost modules give that are through before, run once and give a tensor, is kept.
    """
    ended, kept = list[tuple[str, bool]](), dict[str, Tensor]()

    def ends(name: str, module: nn.Module) -> Any:
        return module.register_forward_hook(
            lambda *given: ended.append((name, isinstance(given[-1], Tensor)))
        )

    def keep(name: str) -> Any:
        return model.get_submodule(name).register_forward_hook(
            lambda *given: kept.update({name: given[-1].clone()})
        )

    done = []
    with torch.no_grad(), contextlib.ExitStack() as undo:
        if group is not None:
            with attached(starmap(ends, model.named_modules())):
                model(images[:1])
            names = [name for name, _ in ended]
            first = min(names.index(name) for name, _ in group.gated)
            done = [name for name, holds in ended[:first] if holds and names.count(name) == 1]
            done = [one for one in done if not any(one.startswith(f"{other}.") for other in done)]
            with attached(map(keep, done)):
                model(images)
        for name in done:  # a copy each time: what follows may change it in place
            module = model.get_submodule(name)
            module.forward = lambda *_, name=name, **__: kept[name].clone()
            undo.callback(delattr, module, "forward")
        yield


def prove_filter_mask_works(
    classifier: Classifier, graph: FilterGraph, check: Callable[[], None] = lambda: None
) -> None:
    """MaskError unless silencing all filters of any one group changes the logits of random
    images."""
    images = classifier.prepared(_probes(classifier.size))
    with torch.no_grad():
        dense = classifier.model(images)
        if not dense.isfinite().all():
            raise MaskError(
                f"{classifier.name} answers with numbers that are not finite: there is nothing to"
                " mask."
            )
        for group in graph.groups:
            check()
            keep = torch.ones(graph.total, device=classifier.device)
            keep[group.start : group.start + group.width] = 0.0
            with gated(classifier.model, graph, keep):
                changed = classifier.model(images)
            if torch.equal(dense, changed):
                raise MaskError(_unmoved(classifier.name, group.root, dense))


def _unmoved(name: str, root: str, dense: torch.Tensor) -> str:
    """Why the answers, dense [images, classes], stay when all of a group is silenced."""
    if torch.equal(dense, dense[:1].expand_as(dense)):
        return (
            f"{name} answers the same to every picture, so no cut can show. Its last layer may be "
            "zero, or the network dead. Give a trained model."
        )
    return f"Silencing all filters of {root} changes nothing: masks do not reach the model."


def _probes(size: int) -> np.ndarray:
    """Random images, the same for every model: [PROBE_IMAGES, size, size, 3] uint8."""
    return np.random.default_rng(0).integers(0, 256, (PROBE_IMAGES, size, size, 3), dtype=np.uint8)


# Which groups may be cut, tried on the model.


SHARE = 0.7
"""Of the filters of every group that stay in the cut that is tried."""
RELATIVE = 1e-6
"""Largest difference of a logit in float64, as a share of the largest one."""
_found: dict[Any, frozenset[str]] = {}


def unsafe_roots(classifier: Classifier) -> frozenset[str]:
    """Roots of the groups that must be left whole, for this model's shape."""
    shapes = tuple((name, tuple(one.shape)) for name, one in classifier.model.state_dict().items())
    key = (type(classifier.model), classifier.arch, classifier.size, hash(shapes))
    if key not in _found:
        if classifier.architecture.has_heads:
            _found[key] = _tried_heads(classifier)
        else:
            drawn = _drawn(classifier.model)
            _found[key] = _tried(replace(classifier, model=drawn, device=torch.device("cpu")))
    return _found[key]


def _tried_heads(classifier: Classifier) -> frozenset[str]:
    """Of a model with heads: all groups, unless it answers without the last head of every layer as
    with them silent. Something else may count heads: biases by relative position, windows (Swin,
    BEiT)."""
    graph = head_graph(classifier)
    keep = np.ones(graph.total, dtype=bool)
    keep[[group.start + group.width - 1 for group in graph.groups if group.width > 1]] = False
    mask = graph.mask(keep)
    try:
        small, _ = cut_filters(classifier, mask)
        holds = agree_filters(classifier, graph, mask, small, _probes(classifier.size)).holds
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        holds = False
    return frozenset() if holds else frozenset(group.root for group in graph.groups)


def _tried(classifier: Classifier) -> frozenset[str]:
    """All groups at once; where that fails, halves, until the faulty ones stand alone."""
    graph = candidate_graph(classifier)
    keep = rng("filters tried").random(graph.total) < SHARE
    for group in graph.groups:
        keep[[group.start, group.start + group.width - 1]] = True, False
        keep[group.start] = True  # of a single filter nothing can be cut
    good: list[str] = []
    bad = []
    waiting = [[group.root for group in graph.groups]]
    while waiting:
        some = waiting.pop()
        if _agrees(classifier, graph, keep, {*good, *some}):
            good += some
        elif len(some) == 1:
            bad += some
        else:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return frozenset(bad)


def _agrees(classifier: Classifier, graph: FilterGraph, keep: np.ndarray, roots: set[str]) -> bool:
    """Whether the model without the filters that `keep` [units] bool drops from these groups
    answers as the masked."""
    others = [at for at, group in enumerate(graph.groups) if group.root not in roots]
    mask = graph.mask(keep | np.isin(graph.group_of, others))
    side = classifier.size
    images = torch.as_tensor(rng("images tried").standard_normal((2, 3, side, side)))
    with torch.no_grad(), masked_filters(classifier, graph, mask):
        masked = classifier.model(images)
    try:
        with torch.no_grad():
            cut = cut_filters(classifier, mask)[0].model(images)
    except Exception:  # Torch-Pruning and the cut model raise many kinds for shapes that do not fit
        return False
    apart = float((masked - cut).abs().max())
    return bool(cut.isfinite().all()) and apart <= RELATIVE * float(masked.abs().max())


def _drawn(model: nn.Module) -> nn.Module:
    """A copy in float64 whose parameters and running statistics are drawn anew, none of them
    zero."""
    other = copy.deepcopy(model).cpu().double().eval()
    draw = torch.Generator().manual_seed(0)
    for module in other.modules():
        for name, value in [
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        ]:
            if value.is_floating_point():
                value.data = _numbers(name, value, draw)
    return other.requires_grad_(False)


def _numbers(name: str, like: Tensor, draw: torch.Generator) -> Tensor:
    """Numbers for a parameter or buffer: weights of a layer as wide as their inputs ask, scales
    around 1, else ±0.5."""
    if like.dim() > 1 and name == "weight":
        return torch.randn(like.shape, generator=draw).double() * (2.0 / like[0].numel()) ** 0.5
    drawn = torch.rand(like.shape, generator=draw).double()
    return drawn + 0.5 if name in ("running_var", "weight") else drawn - 0.5


# Cut filters for real with Torch-Pruning, and replay a cut from its history.


History = list[list[Any]]
"""Torch-Pruning's pruning history: [module, is it an output pruning, indices], JSON-able, replayed
in order."""


def cut_filters(classifier: Classifier, mask: FilterMask) -> tuple[Classifier, History]:
    """A smaller classifier of its own, and the history that replays the cut. The given one stays as
    it is."""
    if mask.cut and (
        wrong := [group for group, width in mask.widths if _width(classifier.model, group) != width]
    ):
        raise MaskError(f"The mask is for other filters than the model has, first in {wrong[0]}.")
    model, history = copy.deepcopy(classifier.model), History()
    if mask.cut and classifier.architecture.has_heads:
        history = [[group, True, list(indices)] for group, indices in mask.cut]
        _cut_heads(classifier, model, history)
    elif mask.cut:
        graph = dependency_graph(model, classifier)
        for group, indices in mask.cut:
            some_of_group(graph, model.get_submodule(group), list(indices)).prune()
        history = [
            [name, bool(out), list(map(int, indices))]
            for name, out, indices in graph.pruning_history()
        ]
    return replace(classifier, model=_settled(model), cut=mask), history


def replayed(classifier: Classifier, history: History, mask: FilterMask) -> Classifier:
    """The classifier cut as its history says. RequestError for a history that does not fit the
    model."""
    model = copy.deepcopy(classifier.model)
    if history:
        try:
            for name, _, indices in history:
                width = _width(model, name)
                if not set(indices) < set(range(width)):
                    raise IndexError(f"{name} has {width} filters")
            if classifier.architecture.has_heads:
                _cut_heads(classifier, model, history)
            else:
                graph = dependency_graph(model, classifier)
                graph.load_pruning_history(copy.deepcopy(history))
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError, KeyError) as error:
            raise _misfit(classifier, f"{type(error).__name__}: {error}") from error
    for group, _, kept in widths_after(mask):
        if _width(model, group) != kept:
            raise _misfit(
                classifier,
                f"it leaves {_width(model, group)} filters of {group}, its groups say {kept}",
            )
    if mask.widths != filter_graph(classifier).widths:
        raise _misfit(classifier, "its groups are not those of the model")
    return replace(classifier, model=_settled(model), cut=mask)


def _cut_heads(classifier: Classifier, model: Any, history: History) -> None:
    """Take heads out of `model`, in place. KeyError for a layer that is none of its attention
    layers."""
    layers = {one.name: one for one in classifier.architecture.attentions(model)}
    for name, _, heads in history:
        cut_heads(model, layers[name], heads)


def _width(model: Any, name: str) -> int:
    """Outputs of a layer of the model; -1 for one that has none."""
    return width_of(model.get_submodule(name))


def _misfit(classifier: Classifier, why: str) -> RequestError:
    what = f"does not fit {classifier.name} ({why})."
    return refusal("pruning history", what, "Give the mask as exported.")


def _settled(model: Any) -> Any:
    """In eval mode, without gradients; parameters share no memory with the old ones and are
    contiguous.

    Why they must be: see Classifier.prepared.
    """
    model.eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone().contiguous()
        parameter.grad = None
    return model


def agree_filters(
    whole: Classifier, graph: FilterGraph, mask: FilterMask, small: Classifier, pixels: np.ndarray
) -> Agreement:
    """`whole` with `mask` against `small`, which was cut from it, on uint8 images [n, H, W, 3].
    `whole` may have been cut before."""
    images = whole.prepared(pixels)

    def logits(one: Classifier, some: torch.Tensor, is_whole: bool) -> torch.Tensor:
        with torch.no_grad(), masked_filters(one, graph, mask) if is_whole else nullcontext():
            return one.model(some).double().cpu()

    def in_float64() -> Twice:
        first, second = (
            logits(big := doubled(one), images.to(big.device).double(), one is whole)
            for one in (whole, small)
        )
        return first, second

    def one_by_one() -> float:
        return float(
            (torch.cat([logits(whole, one, True) for one in images.split(1)]) - own[0]).abs().max()
        )

    own = logits(whole, images, True), logits(small, images, False)
    return judged(own, images.dtype, in_float64, one_by_one)


def widths_after(mask: FilterMask) -> Sequence[tuple[str, int, int]]:
    """(group, filters before, filters kept) in the order of the network."""
    gone = dict(mask.cut)
    return [(group, width, width - len(gone.get(group, ()))) for group, width in mask.widths]


# Where the numbers of a cut model sit in the whole one: what was trained small is put back.


DIGIT = 2**20
"""Places are carried through the cut as float32, which is exact up to 2**24: in two digits to this
base."""


def places_of(classifier: Classifier, mask: FilterMask) -> dict[str, Tensor]:
    """For every floating tensor of the cut model, the flat place of each entry in the whole model's
    tensor.

    Tensors by name, int64, in the cut shapes. The cut itself is asked: a model whose numbers are
    their own places is cut.
    """
    low, high = (_cut_numbers(classifier, mask, digit) for digit in (0, 1))
    return {name: low[name].long() + DIGIT * high[name].long() for name in low}


def put_back(
    whole: Mapping[str, Tensor], small: Mapping[str, Tensor], places: Mapping[str, Tensor]
) -> dict:
    """The whole state dict with the cut model's numbers where they belong; all else as it was.

    Tensors by name: `whole` in the shapes of the whole model, `small` and `places` (as from
    `places_of`) in those of the cut one.
    """
    found = {}
    for name, value in whole.items():
        found[name] = value.clone(memory_format=torch.contiguous_format)
        if name in places:
            found[name].view(-1)[places[name].to(value.device).reshape(-1)] = (
                small[name].to(value.device).reshape(-1)
            )
        else:
            found[name].copy_(small[name])
    return found


def _cut_numbers(classifier: Classifier, mask: FilterMask, digit: int) -> dict[str, Tensor]:
    """Floating tensors of a cut model that held its own flat places, one digit of them, float32 in
    the cut shapes."""
    model = copy.deepcopy(classifier.model).cpu()
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                numbers = torch.arange(value.numel())
                value.copy_((numbers // DIGIT if digit else numbers % DIGIT).view(value.shape))
    numbered = replace(classifier, model=model, device=torch.device("cpu"))
    small, _ = cut_filters(numbered, mask)
    return {
        name: value for name, value in small.model.state_dict().items() if value.is_floating_point()
    }


# Weights as numpy arrays, and back: how trained and cut models are kept.


OfAny = TypeVar("OfAny", Classifier, "TextClassifier")


def arrays_of(model: nn.Module) -> dict[str, np.ndarray]:
    """Every tensor of the state dict by its name, in its own shape and dtype."""
    return {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}


def rows_of(model: Any, group: FilterGroup) -> Iterator[np.ndarray]:
    """The weights of each unit of a group, [units, numbers] float64: of its convolutions, or what
    reads each head."""
    for name in group.convolutions:
        weight = model.get_submodule(name).weight.detach().double().cpu().numpy()
        yield weight.reshape(len(weight), -1)
    if group.is_heads:
        for name, _ in group.gated:
            weight = model.get_submodule(name).weight.detach().double().cpu().numpy().T
            yield weight.reshape(group.width, -1)


def with_weights(classifier: OfAny, arrays: Mapping[str, np.ndarray]) -> OfAny:
    """The same classifier with other weights, by name and of the same shapes; its hash is theirs.

    The given one stays as it is.
    """
    model = copy.deepcopy(classifier.model)
    state = {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}
    model.load_state_dict(state)
    model.eval().requires_grad_(False)
    return replace(classifier, model=model, weight_hash=state_hash(model.state_dict()))
