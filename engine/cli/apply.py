"""apply: cut a model for real as a mask file says, save it, and prove it equals the masked model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.cli._options import json_flag

PROBES = (
    "The people of the town said that",
    "I have a friend who is",
    "On the first day of spring, the old teacher and her neighbour walked to the market and",
    "What do you think about",
)


def add(commands: Any) -> None:
    parser = commands.add_parser("apply", help="cut a model by a mask file")
    parser.add_argument("mask", metavar="mask.json")
    parser.add_argument("--model", required=True, metavar="BASE")
    parser.add_argument("--revision", metavar="COMMIT")
    parser.add_argument("--to", required=True, metavar="DIR")
    parser.add_argument("--device", default="auto")
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Check the mask against the model before loading; compare masked, cut and reloaded on logits and greedy text."""
    from engine.models.load import inspect_model, load_language_model
    from engine.surgery.agree import agree
    from engine.surgery.centre import for_record
    from engine.surgery.cut import cut
    from engine.surgery.replay import check_mask_fits, load_cut, read_mask, save_cut

    record = read_mask(args.mask)
    check_mask_fits(record, inspect_model(args.model, args.revision))
    lm = for_record(load_language_model(args.model, device=args.device, revision=args.revision), record)
    small = cut(lm, record.mask)
    folder = save_cut(small, record, Path(args.to))
    masked_cut = agree(lm, record.mask, PROBES, small)
    masked_reloaded = agree(lm, record.mask, PROBES, load_cut(folder, str(lm.device)))
    value = {
        "ok": masked_cut.holds and masked_reloaded.holds,
        "folder": str(folder),
        "heads_cut": len(record.units),
        "sparsity": record.mask.sparsity,
        "parameters_before": lm.n_parameters,
        "parameters_after": small.n_parameters,
        "masked_equals_cut": masked_cut.holds,
        "masked_equals_reloaded": masked_reloaded.holds,
        "max_logit_difference": max(masked_cut.max_logit_difference, masked_reloaded.max_logit_difference),
        "greedy_text_equal": masked_cut.greedy_equal and masked_reloaded.greedy_equal,
    }
    verdict = "masked = cut = reloaded" if value["ok"] else "MASKED AND CUT DO NOT AGREE"
    text = (
        f"{value['heads_cut']} heads cut ({value['sparsity']:.1%}), {lm.n_parameters:,} -> {small.n_parameters:,} "
        f"parameters, saved to {folder}\n{verdict}: largest logit difference {value['max_logit_difference']:.2g}, "
        f"greedy text {'equal' if value['greedy_text_equal'] else 'differs'} on {len(PROBES)} prompts"
    )
    return value, text
