"""apply: cut a model for real as a mask file says, save it, and prove it equals the masked model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.command_line import json_flag

if TYPE_CHECKING:
    from engine.surgery.apply import Applied
    from engine.surgery.equivalence import Agreement

PROBES = (
    "The people of the town said that",
    "I have a friend who is",
    "On the first day of spring, the old teacher and her neighbour walked to the market and",
    "What do you think about",
)
IMAGES = 16
"""Random images on which masked and cut classifiers are compared."""


def add(commands: Any) -> None:
    parser = commands.add_parser("apply", help="cut a model by a mask file, of heads or of filters")
    parser.add_argument("mask", metavar="mask.json")
    parser.add_argument("--model", required=True, metavar="BASE")
    parser.add_argument("--weights", metavar="FILE", help="state dict, where BASE is an architecture")
    parser.add_argument("--revision", metavar="COMMIT")
    parser.add_argument("--to", required=True, metavar="DIR")
    parser.add_argument("--device", default="auto")
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Check the mask against the model before loading; compare masked, cut and reloaded."""
    from engine.surgery.apply import apply_mask

    applied = apply_mask(args.mask, args.model, args.weights, args.revision, args.device)
    compared = {"heads": _heads, "texts": _texts, "filters": _filters}[applied.kind]
    return compared(applied, args)


def _heads(applied: Applied, args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Save the cut language model; compare on logits and greedy text."""
    from engine.surgery.equivalence import agree
    from engine.surgery.heads.replay import load_cut, save_cut

    whole, mask = applied.whole, applied.record.mask
    folder = save_cut(applied.cut, applied.record, Path(args.to))
    masked_cut = agree(whole, mask, PROBES, applied.cut)
    masked_reloaded = agree(whole, mask, PROBES, load_cut(folder, str(whole.device)))
    return _said(applied, folder, (masked_cut, masked_reloaded), f"greedy text on {len(PROBES)} prompts")


def _texts(applied: Applied, args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Save the cut text classifier; compare on logits of a few sentences. Weights are BASE's, nothing is fine-tuned."""
    from engine.surgery.equivalence import agree_on_texts
    from engine.surgery.heads.text_replay import load_cut_classifier, save_cut_classifier

    whole, mask = applied.whole, applied.record.mask
    folder = save_cut_classifier(applied.cut, applied.record, Path(args.to))
    reloaded = load_cut_classifier(folder, str(whole.device))
    found = tuple(agree_on_texts(whole, mask, PROBES, other=other) for other in (applied.cut, reloaded))
    return _said(applied, folder, found, f"class of {len(PROBES)} sentences")


def _said(applied: Applied, folder: Path, found: tuple[Agreement, Agreement], what: str) -> tuple[dict[str, Any], str]:
    """The result of cutting heads, in words; `found`: masked against cut, and against cut, saved and reloaded."""
    whole, small, record = applied.whole, applied.cut, applied.record
    masked_cut, masked_reloaded = found
    value = {
        "ok": masked_cut.holds and masked_reloaded.holds,
        "folder": str(folder),
        "heads_cut": len(record.units),
        "sparsity": record.mask.sparsity,
        "parameters_before": whole.n_parameters,
        "parameters_after": small.n_parameters,
        "masked_equals_cut": masked_cut.holds,
        "masked_equals_reloaded": masked_reloaded.holds,
        "max_logit_difference": max(masked_cut.max_logit_difference, masked_reloaded.max_logit_difference),
        "greedy_text_equal": masked_cut.greedy_equal and masked_reloaded.greedy_equal,
    }
    verdict = "masked = cut = reloaded" if value["ok"] else "MASKED AND CUT DO NOT AGREE"
    text = (
        f"{value['heads_cut']} heads cut ({value['sparsity']:.1%}), {whole.n_parameters:,} -> {small.n_parameters:,} "
        f"parameters, saved to {folder}\n{verdict}: largest logit difference {value['max_logit_difference']:.2g}, "
        f"{what} {'equal' if value['greedy_text_equal'] else 'differs'}"
    )
    return value, text


def _filters(applied: Applied, args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Save the cut image classifier; compare on logits of random images. Weights are BASE's, nothing is retrained."""
    import numpy as np

    from engine.surgery.filters.cut import agree_filters
    from engine.surgery.filters.graph import filter_graph
    from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier

    whole, small, record = applied.whole, applied.cut, applied.record
    graph = filter_graph(whole)
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (IMAGES, whole.size, whole.size, 3), dtype=np.uint8)
    agreement = agree_filters(whole, graph, record.mask, small, pixels)
    folder = save_cut_classifier(small, record, Path(args.to))
    reloaded = same_weights(small, load_cut_classifier(folder, str(whole.device)))
    flops = filter_graph(small).flops()
    value = {
        "ok": agreement.holds and reloaded,
        "folder": str(folder),
        "filters_cut": record.mask.n_cut,
        "sparsity": record.mask.sparsity,
        "flops_before": graph.flops(),
        "flops_after": flops,
        "theoretical_speedup": graph.flops() / flops,
        "parameters_before": whole.n_parameters,
        "parameters_after": small.n_parameters,
        "masked_equals_cut": agreement.holds,
        "reloaded_equals_cut": reloaded,
        "max_logit_difference": agreement.max_logit_difference,
    }
    verdict = "masked = cut = reloaded" if value["ok"] else "MASKED, CUT AND RELOADED DO NOT AGREE"
    units = "heads" if graph.groups[0].is_heads else "filters"
    text = (
        f"{value['filters_cut']} of {record.mask.total} {units} cut, {value['theoretical_speedup']:.2f}x fewer FLOPs, "
        f"{whole.n_parameters:,} -> {small.n_parameters:,} parameters, saved to {folder}\n{verdict}: largest logit "
        f"difference {agreement.max_logit_difference:.2g} on {IMAGES} random images. Not retrained: the weights are "
        f"those of {args.model}. `export` writes the retrained checkpoint of an audit."
    )
    return value, text
