"""apply: cut a model for real as a mask file says, save it, and prove it equals the masked
model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.command_line import command
from engine.core.errors import MaskError
from engine.core.files import new_folder
from engine.core.types import FilterMask, Values

if TYPE_CHECKING:
    from engine.surgery.agreement import Agreement
    from engine.surgery.apply import Applied

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
    parser.add_argument(
        "--weights", metavar="FILE", help="state dict, where BASE is an architecture"
    )
    parser.add_argument("--revision", metavar="COMMIT")
    parser.add_argument("--to", required=True, metavar="DIR")
    parser.add_argument("--device", default="auto")
    command(parser, run, store=False)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Check the mask against the model before loading; compare masked, cut and reloaded."""
    from engine.surgery.apply import apply_mask

    args.to = Path(args.to).expanduser()
    applied = apply_mask(args.mask, args.model, args.weights, args.revision, args.device)
    return (_filters if applied.kind == "filters" else _heads)(applied, args)


def _heads(applied: Applied, args: argparse.Namespace) -> tuple[Values, str]:
    """Save the cut language model or text classifier; weights are BASE's, nothing is fine-tuned.

    Masked is compared with cut, and with cut, saved and reloaded, on PROBES. MaskError where they
    do not agree: then nothing is kept.
    """
    from engine.surgery.agreement import agree, agree_on_texts
    from engine.surgery.heads import replay

    uncut, mask, is_text = applied.whole, applied.record.mask, applied.kind == "texts"
    assert not isinstance(mask, FilterMask), "heads are cut here"
    found: list[Agreement] = []
    save: Callable[..., Path] = replay.save_cut_classifier if is_text else replay.save_cut
    load: Callable[..., Any] = replay.load_cut_classifier if is_text else replay.load_cut

    def compare(cut: Any) -> None:
        if is_text:
            found.append(agree_on_texts(uncut, mask, PROBES, other=cut))
        else:
            found.append(agree(uncut, mask, PROBES, cut))
        _refuse_unequal(found[-1])

    compare(applied.cut)
    with new_folder(args.to) as draft:
        compare(load(save(applied.cut, applied.record, draft), str(uncut.device)))
    asked = "class of {} sentences" if is_text else "greedy text on {} prompts"
    return _said(applied, args.to, found, asked.format(len(PROBES)))


def _refuse_unequal(found: Agreement, reloaded: bool = True) -> None:
    if not (found.holds and reloaded):
        raise MaskError(
            "The masked model and the one that is cut do not agree: logits differ by"
            f" {found.max_logit_difference:.2g} (rounding explains {found.tolerance:.2g}). Nothing"
            " was kept."
        )


def _said(
    applied: Applied, folder: Path, found: Sequence[Agreement], what: str
) -> tuple[Values, str]:
    """The result of cutting heads, in words; `found`: masked against cut, and against cut, saved
    and reloaded."""
    whole, small, record = applied.whole, applied.cut, applied.record
    masked_cut, masked_reloaded = found
    assert not isinstance(record.mask, FilterMask), "heads are cut here"
    value = {
        "ok": True,
        "folder": str(folder),
        "heads_cut": len(record.mask.units),
        "sparsity": record.mask.sparsity,
        "parameters_before": whole.n_parameters,
        "parameters_after": small.n_parameters,
        "masked_equals_cut": masked_cut.holds,
        "masked_equals_reloaded": masked_reloaded.holds,
        "max_logit_difference": max(
            masked_cut.max_logit_difference, masked_reloaded.max_logit_difference
        ),
        "greedy_text_equal": masked_cut.greedy_equal and masked_reloaded.greedy_equal,
    }
    text = (
        f"{value['heads_cut']} heads cut ({value['sparsity']:.1%}), {whole.n_parameters:,} ->"
        f" {small.n_parameters:,} parameters, saved to {folder}\nmasked = cut = reloaded: largest"
        f" logit difference {value['max_logit_difference']:.2g}, {what}"
        f" {'equal' if value['greedy_text_equal'] else 'differs'}"
    )
    return value, text


def _filters(applied: Applied, args: argparse.Namespace) -> tuple[Values, str]:
    """Save the cut image classifier; compare on logits of random images. Weights are BASE's,
    nothing is retrained."""
    import numpy as np

    from engine.surgery.filters.graph import agree_filters, filter_graph
    from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier
    from engine.surgery.record import FilterRecord

    whole, small, record = applied.whole, applied.cut, applied.record
    assert isinstance(record, FilterRecord), "filters are cut here"
    graph = filter_graph(whole)
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (IMAGES, whole.size, whole.size, 3), dtype=np.uint8)
    agreement = agree_filters(whole, graph, record.mask, small, pixels)
    _refuse_unequal(agreement)

    with new_folder(args.to) as draft:
        again = load_cut_classifier(save_cut_classifier(small, record, draft), str(whole.device))
        _refuse_unequal(agreement, same_weights(small, again))
    flops = filter_graph(small).flops()
    value = {
        "ok": True,
        "folder": str(args.to),
        "filters_cut": record.mask.n_cut,
        "sparsity": record.mask.sparsity,
        "flops_before": graph.flops(),
        "flops_after": flops,
        "theoretical_speedup": graph.flops() / flops,
        "parameters_before": whole.n_parameters,
        "parameters_after": small.n_parameters,
        "masked_equals_cut": agreement.holds,
        "reloaded_equals_cut": True,
        "max_logit_difference": agreement.max_logit_difference,
    }
    units = "heads" if graph.groups[0].is_heads else "filters"
    text = (
        f"{value['filters_cut']} of {record.mask.total} {units} cut,"
        f" {value['theoretical_speedup']:.2f}x fewer FLOPs, {whole.n_parameters:,} ->"
        f" {small.n_parameters:,} parameters, saved to {args.to}\nmasked = cut = reloaded: largest"
        f" logit difference {agreement.max_logit_difference:.2g} on {IMAGES} random images. Not"
        f" retrained: the weights are those of {args.model}. `export` writes the retrained"
        " checkpoint of an audit."
    )
    return value, text
