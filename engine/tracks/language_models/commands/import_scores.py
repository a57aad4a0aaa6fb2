"""import-scores: what published FASP head scores show, without any model."""

from __future__ import annotations

import argparse
from typing import Any

from engine.audit.command_line import command
from engine.core.types import Values
from engine.tracks.language_models.selection import RULES


def add(commands: Any) -> None:
    parser = commands.add_parser("import-scores", help="read published FASP head scores")
    parser.add_argument("files", nargs="+", metavar="FILE", help="CSV, or head_contributions.json")
    parser.add_argument("--gamma", type=float, default=0.3, help="share protected in the selection")
    parser.add_argument(
        "--share",
        type=float,
        default=0.2,
        help="share of heads called top, and cut in the selection",
    )
    said = "heads tied at the boundary of γ: the lower index is protected, or none as published"
    parser.add_argument("--ties", choices=RULES, default=RULES[0], help=said)
    command(parser, run, store=False)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Findings per model; ids are 1-based as in the files."""
    from engine.tracks.language_models.published_scores import all_findings, load_published

    value = all_findings(load_published(args.files), args.gamma, args.share, args.ties)
    return value, "\n\n".join(_text(model) for model in value.get("models", [value]))


def _text(found: Values) -> str:
    seeds = f"{found['seeds']} seeds" if found["seeds"] else "means over seeds"
    lines = [f"{found['model']}: {found['n_heads']} heads, {seeds}"]
    for axis, row in found["correlation"].items():
        others = ", ".join(
            f"{other} {r:.2f}" for other, r in row.items() if other != axis and r is not None
        )
        lines.append(f"  {axis} correlates with {others}")
    shared = sorted(found["in_axes"].items(), key=lambda item: (-item[1], int(item[0])))
    most = [f"{head} ({count})" for head, count in shared if count > 1][:12]
    lines.append(f"  heads in the top lists of most axes (how many): {', '.join(most)}")
    tied = found["selection"]["tied"]
    if tied["protected"]:
        most = max(tied["cut_otherwise"].values())
        lines.append(
            f"  ties: {tied['protected']} protected heads share their perplexity with one that is"
            f" not; the other rule would change up to {most} cut heads"
        )
    return "\n".join(lines)
