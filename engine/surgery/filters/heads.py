"""Heads of vision transformers as units beside filters: one group per attention layer, one unit per
head.

A head is silenced where its layer's output projection reads it. Cut, queries, keys and values lose
its outputs and the projection its inputs. FLOPs of a head: its share of the four projections, and
twice 2 · tokens² · width for the scores and their use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from engine.models.load_image_classifier import Classifier
from engine.models.vision.base import Attention
from engine.surgery.filters.reading import FilterGraph, FilterGroup, areas_of, priced


def head_graph(classifier: Classifier) -> FilterGraph:
    """The groups of a classifier that has heads."""
    model = classifier.model
    found = classifier.architecture.attentions(model)
    widths = [heads_of(model, one) for one in found]
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
    return _with_scores(
        graph, [areas[one.parts[0]] for one in found], [one.head_dim for one in found]
    )


def _with_scores(graph: FilterGraph, tokens: list[int], widths: list[int]) -> FilterGraph:
    """The graph with a layer more per attention: queries by keys, and weights by values."""
    count = len(graph.groups)
    outputs = np.zeros((count, graph.total))
    for row, group in enumerate(graph.groups):
        outputs[row, group.start : group.start + group.width] = 1.0
    price = [2.0 * 2.0 * side * side * width for side, width in zip(tokens, widths, strict=True)]
    return FilterGraph(
        graph.groups,
        (*graph.layers, *(f"{group.root} (scores)" for group in graph.groups)),
        np.append(graph.price, price),
        np.vstack([graph.inputs, np.zeros((count, graph.total))]),
        np.vstack([graph.outputs, outputs]),
        np.append(graph.fixed_in, np.ones(count)),
        np.append(graph.fixed_out, np.zeros(count)),
    )


def heads_of(model: Any, one: Attention) -> int:
    """Heads that an attention layer has now."""
    return model.get_submodule(one.parts[0]).out_features // one.head_dim


def cut_heads(model: Any, one: Attention, heads: list[int]) -> None:
    """Take heads out of an attention layer, in place."""
    width = heads_of(model, one)
    rows = torch.arange(width * one.head_dim).view(width, -1)
    index = rows[[head for head in range(width) if head not in set(heads)]].flatten()
    for part in one.parts[:3]:
        layer = model.get_submodule(part)
        layer.weight = nn.Parameter(layer.weight.detach()[index.to(layer.weight.device)])
        if layer.bias is not None:
            layer.bias = nn.Parameter(layer.bias.detach()[index.to(layer.bias.device)])
        layer.out_features = len(index)
    layer = model.get_submodule(one.parts[3])
    layer.weight = nn.Parameter(layer.weight.detach()[:, index.to(layer.weight.device)])
    layer.in_features = len(index)
    attention = model.get_submodule(one.name)
    if hasattr(attention, "num_attention_heads"):
        attention.num_attention_heads = heads_of(model, one)
