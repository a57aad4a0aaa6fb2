"""judge: what a judge says of written cases about groups, before an audit rests on it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.audit.command_line import command
from engine.core.files import json_able
from engine.core.types import Values


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "judge", help="a judge's card on written cases about groups, such as HateCheck's"
    )
    parser.add_argument("judge", metavar="NAME_OR_FOLDER")
    parser.add_argument(
        "--judge-label",
        default="",
        metavar="LABEL",
        help="which label is harm, where the judge is a classifier of texts",
    )
    parser.add_argument(
        "--cases",
        required=True,
        type=Path,
        metavar="FILE",
        help="CSV with test_case, label_gold (hateful, non-hateful), target_ident",
    )
    command(parser, run, store=False)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """The cases are read before the judge is loaded."""
    from engine.models.judge import load_judge
    from engine.tracks.language_models.judges import card_of, read_cases, said_of

    cases = read_cases(args.cases)
    judge = load_judge(args.judge, label=args.judge_label)
    card = card_of(judge, cases)
    found = {
        "judge": judge.info.name,
        "digest": judge.info.digest,
        "notes": [judge.info.note, *cases.attrs["notes"]],
        "said": said_of(card),
        "card": card.to_dict("records"),
    }
    return json_able(found), "\n".join(
        [
            f"{judge.info.name}, {len(cases)} cases",
            *found["notes"],
            *map(_line, found["card"]),
            found["said"],
        ]
    )


def _line(row: Values) -> str:
    over = f"{row['over']:.3f} [{row['over_low']:.3f}, {row['over_high']:.3f}]"
    return (
        f"  {row['label']:<12} {row['group']:<18} n {row['n']:<5} above one half {over}  mean"
        f" {row['verdict']:.3f}"
    )
