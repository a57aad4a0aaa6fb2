"""evaluate: what a classifier of images or texts, whole or cut, gets right, per group."""

from __future__ import annotations

import argparse
from typing import Any

from engine.audit.command_line import json_flag
from engine.audit.reading import absolute
from engine.core.files import json_able

SHOWN = ("axis", "metric", "group", "value", "low", "high", "n", "verdict")


def add(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="AUC and accuracy of a classifier per group")
    add = parser.add_argument
    add("--model", required=True, metavar="NAME_OR_FOLDER", help="as for audit, or a folder that export or apply wrote")
    add("--weights", metavar="FILE", help="state dict, where the model is an architecture")
    add("--data", metavar="NAME_OR_PATH", help="images or texts (default: those of the demo)")
    add("--target", metavar="COLUMN")
    add("--axis", action="append", metavar="AXIS", help="group column (default: the data's usual ones)")
    add("--split", default="test", help="train, validation or test")
    add("--max-images", "--max-texts", type=int, metavar="N", help="at most so many per split", dest="most")
    add("--text", metavar="COLUMN", help="of a CSV of texts: the text")
    add("--text-b", metavar="COLUMN", help="of a CSV of texts: the second text of pairs")
    add("--max-length", type=int, metavar="TOKENS", help="how much of a text is read (default: what the model says)")
    add("--device", default="auto")
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Load, ask every image or text of the split, measure."""
    from engine.data.texts.load import TextAsk
    from engine.models.load_image_classifier import is_classifier_name
    from engine.models.load_text_classifier import is_text_model
    from engine.surgery.filters.replay import is_cut_folder
    from engine.tracks.image_classifiers.evaluate import evaluate
    from engine.tracks.text_classifiers.evaluate import evaluate_text

    axes, data = tuple(args.axis or ()), args.data
    is_image = args.weights is not None or is_classifier_name(args.model) or is_cut_folder(args.model)
    items = "images" if is_image or not is_text_model(args.model) else "texts"
    if items == "images":
        found = evaluate(
            args.model, args.weights, data or "avatars", args.target, axes, args.split, args.most, args.device
        )
    else:
        ask = TextAsk(text=args.text, text_b=args.text_b, target=args.target, max_texts=args.most)
        found = evaluate_text(
            args.model, absolute(data or "remarks"), ask, axes, args.split, args.max_length, args.device
        )
    rows = [{name: row.get(name) for name in SHOWN} for row in found.rows]
    value = {
        "model": found.model,
        "data": found.data,
        items: found.n,
        "results": json_able(rows),
        "notes": list(found.notes),
    }
    lines = [
        f"{found.model} on {found.data}, {found.n} {args.split} {items}",
        *map(_line, rows),
        *(f"! {note}" for note in found.notes),
    ]
    return value, "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    where = "overall" if not row["axis"] else f"{row['axis']} {row['group']}".strip()
    ends = "" if row["low"] != row["low"] else f" [{row['low']:.4f}, {row['high']:.4f}]"
    note = f"  ({row['verdict']})" if row["verdict"] else ""
    return f"  {row['metric']:<14} {where:<24} {row['value']:.4f}{ends}  n = {row['n']:.0f}{note}"
