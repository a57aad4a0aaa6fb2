"""evaluate: what an image classifier, whole or cut, gets right on images, per group."""

from __future__ import annotations

import argparse
from typing import Any

from engine.cli._options import json_flag
from engine.files import json_able

SHOWN = ("axis", "metric", "group", "value", "low", "high", "n", "verdict")


def add(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="AUC and accuracy of an image classifier per group")
    add = parser.add_argument
    add("--model", required=True, metavar="NAME_OR_FOLDER", help="as for audit, or a folder that export or apply wrote")
    add("--weights", metavar="FILE", help="state dict, where the model is an architecture")
    add("--data", default="avatars", metavar="NAME_OR_PATH")
    add("--target", metavar="COLUMN")
    add("--axis", action="append", metavar="AXIS", help="group column (default: the data's usual ones)")
    add("--split", default="test", help="train, validation or test")
    add("--max-images", type=int, metavar="N", help="at most so many images per split")
    add("--device", default="auto")
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Load, ask every image of the split, measure."""
    from engine.audit.evaluate import evaluate

    found = evaluate(
        args.model, args.weights, args.data, args.target, tuple(args.axis or ()), args.split, args.max_images,
        args.device,
    )  # fmt: skip
    rows = [{name: row.get(name) for name in SHOWN} for row in found.rows]
    value = {"model": found.model, "data": found.data, "images": found.n, "results": json_able(rows)}
    lines = [f"{found.model} on {found.data}, {found.n} {args.split} images", *map(_line, rows)]
    return value, "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    where = "overall" if not row["axis"] else f"{row['axis']} {row['group']}".strip()
    ends = "" if row["low"] != row["low"] else f" [{row['low']:.4f}, {row['high']:.4f}]"
    note = f"  ({row['verdict']})" if row["verdict"] else ""
    return f"  {row['metric']:<14} {where:<24} {row['value']:.4f}{ends}  n = {row['n']:.0f}{note}"
