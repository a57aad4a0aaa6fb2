"""What Torch-Pruning reads: which filters must be cut together, where each is silenced, what every
layer costs.

Not proved yet: graph.py does that. A group is one set of channels shared by convolutions that
residual sums or depthwise convolutions tie to each other. A *unit* is one channel of one group;
flat units count through the groups in the order of the network. FLOPs count 2 per multiply-add of
convolutions and linear layers, for one image, as torch.utils.flop_counter does; biases, batch norm
and activations are left out, as there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import refusal
from engine.core.types import FilterMask
from engine.models import runtime  # noqa: F401  (before torchvision)
from engine.models.load_image_classifier import Classifier
from engine.models.structure.cutting import keep_inputs, keep_outputs, span
from engine.models.transformer import attached
from engine.models.vision.base import Attention

COUNTED = (nn.Conv2d, nn.Linear)
MOST_TIMES = 1000
"""How often one node of a graph is passed while one group is looked for: DenseNet-201 needs 50."""
SERVES = (
    "Give a CNN with batch norm (ResNet, EfficientNet, MobileNet), a ConvNeXt, or, for its heads, a"
    " plain vision transformer (ViT, DeiT, DINOv2)."
)


@dataclass(frozen=True, eq=False)
class FilterGroup:
    """Channels that are cut together. `root` is their first convolution; `start` its first flat
    unit.

    gated: modules whose output is silenced (batch norm, or the convolution where none follows).
    With each the group's channel for each channel of that output, [channels] int; -1 for channels
    of other groups, put beside these.
    """

    root: str
    width: int
    start: int
    convolutions: tuple[str, ...]
    gated: tuple[tuple[str, np.ndarray], ...]
    is_heads: bool = False
    """Whether its units are attention heads: then the *input* of the gated module is
    silenced."""


@dataclass(frozen=True, eq=False)
class FilterGraph:
    """All groups of a model and the cost of its layers, for one image size.

    FLOPs of gates u [units] are Σ_l price_l · (inputs_l·u + fixed_in_l) · (outputs_l·u +
    fixed_out_l), exact at 0/1.
    """

    groups: tuple[FilterGroup, ...]
    layers: tuple[str, ...]
    price: np.ndarray  # [layers] FLOPs per pair of an input and an output channel
    inputs: np.ndarray  # [layers, units] how many of the layer's inputs each unit feeds
    outputs: np.ndarray  # [layers, units] 1 where the unit is an output of the layer
    # [layers] inputs that are never cut, or 1 for a depthwise layer, whose price is per channel.
    fixed_in: np.ndarray
    fixed_out: np.ndarray  # [layers] outputs that are never cut
    whole: tuple[str, ...] = ()
    """Convolutions whose filters cannot be cut."""
    unsafe: tuple[str, ...] = ()
    """Those of them that seemed cuttable until cutting them gave other answers than silencing them.
    """

    @property
    def total(self) -> int:
        """Units."""
        return sum(group.width for group in self.groups)

    @property
    def widths(self) -> tuple[tuple[str, int], ...]:
        return tuple((group.root, group.width) for group in self.groups)

    @cached_property
    def group_of(self) -> np.ndarray:
        """The group of each unit, [units]."""
        return np.repeat(np.arange(len(self.groups)), [group.width for group in self.groups])

    def flops(self, keep: np.ndarray | None = None) -> float:
        """FLOPs of one image with these gates: a float for [units], [many] for [many, units]. None:
        all filters."""
        gates = np.ones(self.total) if keep is None else np.asarray(keep, dtype=float)
        into = gates @ self.inputs.T + self.fixed_in
        out = gates @ self.outputs.T + self.fixed_out
        found = (into * out) @ self.price
        return float(found) if np.ndim(found) == 0 else found

    @cached_property
    def least_flops(self) -> float:
        """FLOPs with one filter per group."""
        keep = np.zeros(self.total)
        keep[[group.start for group in self.groups]] = 1.0
        return self.flops(keep)

    def mask(self, keep: np.ndarray) -> FilterMask:
        """The mask of keep [units] bool: True stays."""
        return FilterMask.from_keep(self.widths, keep)

    def tensors(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The same formula for soft gates [units], float32: a scalar, to be differentiated."""
        price, inputs, outputs, fixed_in, fixed_out = (
            torch.as_tensor(array, dtype=torch.float32, device=device)
            for array in (self.price, self.inputs, self.outputs, self.fixed_in, self.fixed_out)
        )

        def flops(gates: Tensor) -> Tensor:
            return ((inputs @ gates + fixed_in) * (outputs @ gates + fixed_out) * price).sum()

        return flops


Members = list[tuple[int, str, list[str]]]
"""Groups: (place in the network, root, convolutions) of each."""


def candidate_graph(classifier: Classifier, without: frozenset[str] = frozenset()) -> FilterGraph:
    """The groups that Torch-Pruning's graph shows, but for those with the roots `without`; not
    proved yet."""
    model = copy.deepcopy(classifier.model).cpu().float()
    graph = dependency_graph(model, classifier)
    members, whole = _members(model, graph, classifier)
    unsafe = [conv for _, root, convs in members if root in without for conv in convs]
    members = [one for one in members if one[1] not in without]
    if not members:
        whole |= dict.fromkeys(
            unsafe, "read wrongly: cut and silenced, the model gives other answers"
        )
        raise refusal(classifier.name, _nothing_to_cut(model, whole), SERVES)
    return _assembled(model, graph, classifier, members, (*whole, *unsafe), tuple(unsafe))


def _nothing_to_cut(model: nn.Module, whole: dict[str, str]) -> str:
    """What a model is none of whose filters or heads can be cut; whole: why not, by convolution."""
    if not whole:
        return "has no convolution and no attention whose heads can be cut."
    kinds = (type(one).__name__ for one in model.modules())
    attention = next((kind for kind in kinds if "Attention" in kind), "")
    why = f"their channels are {' or '.join(dict.fromkeys(whole.values()))}."
    if not attention:
        return f"is a CNN, and no filter of its {len(whole)} convolutions can be cut: {why}"
    parts = "is not made of q_proj, k_proj, v_proj and o_proj, so its heads cannot be cut"
    return (
        f"is a transformer whose attention ({attention}) {parts}. Nor can filters of its"
        f" convolutions: {why}"
    )


def _members(
    model: nn.Module, graph: Any, classifier: Classifier
) -> tuple[Members, dict[str, str]]:
    """Groups that can be cut as far as the graph tells, in the order of the network; convolutions
    that cannot, each with why."""
    names = {module: name for name, module in model.named_modules()}
    order = {name: place for place, name in enumerate(names.values())}
    pointwise = classifier.architecture.pointwise(model)
    head = model.get_submodule(classifier.architecture.classifier(model))
    kinds = [nn.Conv2d, nn.Linear] if pointwise else [nn.Conv2d]
    members, whole = [], dict[str, str]()
    for group in graph.get_all_groups(ignored_layers=[], root_module_types=kinds):
        found = dict.fromkeys(
            module
            for module, is_output, *_ in _tied(graph, group)
            if is_output and (isinstance(module, nn.Conv2d) or names.get(module) in pointwise)
        )
        convs = sorted((names[one] for one in found), key=order.__getitem__)
        roots = [name for name in convs if getattr(model.get_submodule(name), "groups", 1) == 1]
        bars = _hindrance(graph, group, {model.get_submodule(one) for one in pointwise})
        if roots and head not in found and not bars:
            members.append((order[roots[0]], roots[0], convs))
        else:
            whole |= dict.fromkeys(convs, bars or "the classes")
    return sorted(members), whole


def width_of(module: Any) -> int:
    """Outputs of a convolution or linear layer, heads of an attention layer; -1 for a module that
    has none."""
    if hasattr(module, "q_proj"):
        return int(module.q_proj.out_features) // int(module.head_dim)
    return int(getattr(module, "out_channels", getattr(module, "out_features", -1)))


def dependency_graph(model: nn.Module, classifier: Classifier) -> Any:
    """Torch-Pruning's graph of `model`, which must be shaped as the classifier's architecture."""
    import torch_pruning as tp

    model.eval().requires_grad_(True)  # it is traced through autograd
    first = next(model.parameters())
    example = torch.zeros(
        1, 3, classifier.size, classifier.size, device=first.device, dtype=first.dtype
    )
    pruners = classifier.architecture.customized_pruners()
    with torch.enable_grad():
        found = tp.DependencyGraph().build_dependency(
            model,
            example,
            forward_fn=classifier.architecture.read,
            customized_pruners=pruners,
            verbose=False,
        )
    return _bounded(found)


class _Followed(list):
    """What hangs on one node of Torch-Pruning's graph. RuntimeError where it is asked for without
    end, as it is where the graph counts channels that there are not (FocalNet)."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        if self.times > MOST_TIMES:
            raise RuntimeError("its channels are split and joined in a way that is not understood")
        return super().__iter__()


def _bounded(graph: Any) -> Any:
    """The graph, in which the search for what is tied to some channels always ends."""
    followed, own = (
        [_Followed(node.dependencies) for node in graph.module2node.values()],
        graph.get_pruning_group,
    )
    for node, one in zip(graph.module2node.values(), followed, strict=True):
        node.dependencies = one

    def search(*asked: Any) -> Any:
        for one in followed:
            one.times = 0
        return own(*asked)

    graph.get_pruning_group = search
    return graph


def some_of_group(graph: Any, root: nn.Module, channels: list[int]) -> Any:
    """These channels of `root` with what is tied to them; `prune` of the result cuts them."""
    import torch_pruning as tp

    how = (
        tp.prune_linear_out_channels if isinstance(root, nn.Linear) else tp.prune_conv_out_channels
    )
    return graph.get_pruning_group(root, how, channels)


def _tied(graph: Any, group: Any) -> Iterator[tuple[Any, bool, np.ndarray, np.ndarray]]:
    """What hangs on a group's channels: a module, whether they are its outputs, which of its
    channels they are, and the group's channel for each of these, [channels] int."""
    for item in group:
        is_output = graph.is_out_channel_pruning_fn(item.dep.handler)
        places = np.asarray(item.idxs), np.asarray(item.root_idxs)
        yield item.dep.target.module, is_output, *places


def _hindrance(graph: Any, group: Any, pointwise: set[nn.Module]) -> str:
    """Why a group cannot be cut, "" where it can: not the model's own output, no grouped
    convolution but depthwise, only norms that work channel by channel. pointwise: linear layers
    whose outputs are filters."""
    for module, is_output, *_ in _tied(graph, group):
        if isinstance(module, nn.Linear) and is_output and module not in pointwise:
            return "tied to linear layers"
        if isinstance(module, nn.Conv2d) and module.groups not in (1, module.in_channels):
            return "tied to grouped convolutions"
        if isinstance(module, nn.GroupNorm | nn.LayerNorm | nn.InstanceNorm2d):
            return f"mixed by {type(module).__name__}"
        if isinstance(module, nn.Parameter):
            return "tied to parameters outside of layers"
        if type(module).__name__ == "_OutputOp":
            return "the model's output"
    return ""


def _assembled(
    model: nn.Module,
    graph: Any,
    classifier: Classifier,
    members: Members,
    whole: tuple,
    unsafe: tuple,
) -> FilterGraph:
    """The graph of `members`: groups in the order of the network, and every layer's inputs and
    outputs as units.

    whole, unsafe: convolutions that cannot be cut, as in `FilterGraph`.
    """
    names = {module: name for name, module in model.named_modules()}
    areas = areas_of(model, classifier.size)
    layers = tuple(areas)
    place = {name: index for index, name in enumerate(layers)}
    total = sum(width_of(model.get_submodule(root)) for _, root, _ in members)
    inputs, outputs = np.zeros((len(layers), total)), np.zeros((len(layers), total))
    groups, start = [], 0
    for _, root, convs in members:
        module = model.get_submodule(root)
        found = some_of_group(graph, module, list(range(width_of(module))))
        gated = tuple(_gated(graph, found, names, classifier))
        groups.append(FilterGroup(root, width_of(module), start, tuple(convs), gated))
        for name, channels, is_output in _touched(graph, found, names):
            table = outputs if is_output else inputs
            np.add.at(table[place[name]], start + channels, 1.0)
        start += width_of(module)
    return replace(priced(model, areas, groups, inputs, outputs, whole), unsafe=unsafe)


def priced(
    model: nn.Module,
    areas: dict[str, int],
    groups: list[FilterGroup],
    inputs: np.ndarray,
    outputs: np.ndarray,
    whole: tuple[str, ...],
) -> FilterGraph:
    """The finished graph: price per channel pair, and how many channels of each layer are never
    cut.

    inputs and outputs: [layers, units], as in `FilterGraph`; areas: output places (height x width)
    of every layer.
    """
    price, fixed_in, fixed_out = np.zeros(len(areas)), np.zeros(len(areas)), np.zeros(len(areas))
    for row, (name, area) in enumerate(areas.items()):
        module: Any = model.get_submodule(name)
        is_conv = isinstance(module, nn.Conv2d)
        into = module.in_channels if is_conv else module.in_features
        out = module.out_channels if is_conv else module.out_features
        price[row] = 2.0 * area * (module.kernel_size[0] * module.kernel_size[1] if is_conv else 1)
        fixed_out[row] = out - outputs[row].sum()
        # Each output reads its own few inputs, however many others are left.
        if is_conv and module.groups > 1:
            inputs[row] = 0.0
            fixed_in[row] = into // module.groups
        else:
            fixed_in[row] = into - inputs[row].sum()
    return FilterGraph(
        tuple(groups), tuple(areas), price, inputs, outputs, fixed_in, fixed_out, whole
    )


def _touched(
    graph: Any, group: Any, names: dict[nn.Module, str]
) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Layers that count and carry the group's channels, each once: (layer, channels, are these its
    outputs).

    channels [channels] int: the group's channel of each of those channels of the layer.
    """
    seen = set()
    for module, is_output, places, channels in _tied(graph, group):
        key = (module, is_output, tuple(places))
        # Put beside itself, a group feeds a layer twice.
        if isinstance(module, COUNTED) and key not in seen:
            seen.add(key)
            yield names[module], channels, is_output


def _gated(
    graph: Any, group: Any, names: dict[nn.Module, str], classifier: Classifier
) -> Iterable[tuple[str, np.ndarray]]:
    """Modules whose output carries the group's channels for the first time, with the channels
    [channels] int of each.

    They are batch norm, a convolution without one, or a shortcut that brings channels of another
    group (option A).
    channels: the group's channel of every channel of the module's output, -1 where it is another
    group's.
    """
    ungated = classifier.architecture.ungated(classifier.model)
    sources: tuple[type[nn.Module], ...] = (
        *COUNTED,
        nn.BatchNorm2d,
        *classifier.architecture.customized_pruners(),
    )
    found: dict[str, np.ndarray] = {}
    for module, is_output, places, own in _tied(graph, group):
        if not is_output or names.get(module) in ungated:
            continue
        followed = isinstance(module, nn.Conv2d) and any(
            isinstance(node.module, nn.BatchNorm2d) for node in graph.module2node[module].outputs
        )
        if isinstance(module, sources) and not followed:
            channels = found.setdefault(
                names[module], np.full(getattr(module, "num_features", width_of(module)), -1)
            )
            channels[places] = own
    return found.items()


def areas_of(model: nn.Module, size: int) -> dict[str, int]:
    """Output places (height x width) of every counted layer, in the order they run."""
    found: dict[str, int] = {}
    names: dict[nn.Module, str]
    names = {one: name for name, one in model.named_modules() if isinstance(one, COUNTED)}

    def note(one: nn.Module, _: Any, output: Tensor) -> None:
        area = output.shape[2:] if isinstance(one, nn.Conv2d) else output.shape[1:-1]
        found[names[one]] = found.get(names[one], 0) + int(np.prod(area))

    with torch.no_grad(), attached(one.register_forward_hook(note) for one in names):
        model(torch.zeros(1, 3, size, size, device=next(model.parameters()).device))
    return found


# Heads of vision transformers as units beside filters: one group per attention layer, one unit
# per head.
#
# A head is silenced where its layer's output projection reads it. Cut, queries, keys and values
# lose its outputs and the projection its inputs. FLOPs of a head: its share of the four
# projections, and twice 2 · tokens² · width for the scores and their use.


def head_graph(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier that has heads."""
    model = classifier.model
    found = classifier.architecture.attentions(model)
    widths = [width_of(model.get_submodule(one.name)) for one in found]
    starts = np.cumsum([0, *widths])
    areas = areas_of(model, classifier.size)
    place = {name: row for row, name in enumerate(areas)}
    inputs, outputs = np.zeros((len(areas), starts[-1])), np.zeros((len(areas), starts[-1]))
    groups = []
    for one, width, start in zip(found, widths, starts, strict=False):
        for reader in one.parts[:3]:
            outputs[place[reader], start : start + width] = one.head_dim
        inputs[place[one.parts[3]], start : start + width] = one.head_dim
        channels = np.repeat(np.arange(width), one.head_dim)
        groups.append(
            FilterGroup(one.name, width, int(start), (), ((one.parts[3], channels),), is_heads=True)
        )
    graph = priced(model, areas, groups, inputs, outputs, ())
    # A layer more per attention: queries by keys, and weights by values.
    scores = np.equal.outer(np.arange(len(found)), graph.group_of).astype(float)
    prices = [4.0 * areas[one.parts[0]] ** 2 * one.head_dim for one in found]
    return replace(
        graph,
        layers=(*graph.layers, *(f"{one.name} (scores)" for one in found)),
        price=np.append(graph.price, prices),
        inputs=np.vstack([inputs, np.zeros_like(scores)]),
        outputs=np.vstack([outputs, scores]),
        fixed_in=np.append(graph.fixed_in, np.ones(len(found))),
        fixed_out=np.append(graph.fixed_out, np.zeros(len(found))),
    )


def cut_heads(model: Any, one: Attention, heads: Sequence[int]) -> None:
    """Take heads out of an attention layer, in place."""
    attention = model.get_submodule(one.name)
    left = [head for head in range(width_of(attention)) if head not in heads]
    kept = span(left, one.head_dim)
    *makers, output = map(model.get_submodule, one.parts)
    for layer in makers:
        keep_outputs(layer, kept)
    keep_inputs(output, kept)
    if hasattr(attention, "num_attention_heads"):
        attention.num_attention_heads = len(left)
