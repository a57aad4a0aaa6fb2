"""ask, of language models: what is written to a prompt when heads are off."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

from engine.core.errors import refusal
from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.store.runs import Run
from engine.surgery.record import check_mask_fits, read_mask

ASKS = "prompt"
HIDDEN = "[hidden]"
OPTIONS = {
    "--prompt": {"metavar": "TEXT", "help": "what the models go on from"},
    "--mask": {"metavar": "mask.json", "help": "heads to switch off, in place of a variant"},
    "--heads": {"metavar": "LAYER.HEAD,...", "help": "heads to switch off, as in 0.1,2.3"},
    "--siblings": {
        "action": "store_const",
        "const": True,
        "help": "also the same prompt about each other subgroup",
    },
    "--tokens": {
        "type": int,
        "metavar": "N",
        "help": "new tokens at most (default: as in the audit)",
    },
    "--seed": {"type": int, "metavar": "N", "help": "of the noise (default: the audit's first)"},
}


def given(run: Run, args: argparse.Namespace) -> Values:
    """What the words ask of the run. RequestError for a mask of another model."""
    if args.mask and args.heads is not None:
        raise refusal("--mask", "and --heads are both given.", "Give one of them.")
    heads = None if args.heads is None else [word for word in args.heads.split(",") if word.strip()]
    return {
        "prompt": args.prompt,
        "heads": _of_mask(run, args.mask) if args.mask else heads,
        "tokens": args.tokens,
        "seed": args.seed,
        "siblings": args.siblings,
    }


def _of_mask(run: Run, path: str) -> list[str]:
    record = read_mask(path)
    model: Any = SimpleNamespace(**run.model)
    check_mask_fits(record, model)
    ablation = run.request.get("ablation", "zero")
    if bool(record.means) != (ablation == "mean"):
        what = (
            f"sets heads to {'their means' if record.means else 'zero'}; in this audit they are set"
            f" to {ablation}."
        )
        raise refusal("--mask", what, "Ask an audit that was made like the mask.")
    return [f"{layer}.{head}" for layer, head in record.units]


def said(answer: Values, shown: bool) -> tuple[Values, str]:
    """The answer as value and as text; what models wrote is left out unless `shown`."""
    if not shown:
        answer = {**answer, "rows": [_hidden(row) for row in answer["rows"]]}
    heads = phrasing.count(len(answer["heads"]), "head")
    first = (
        f"{answer['cut']} ({heads} off), noise {answer['seed']}, at most {answer['tokens']} new"
        " tokens"
    )
    lines = [
        f"{first}; toxicity by {answer['judge']}",
        *(line for row in answer["rows"] for line in _lines(row)),
    ]
    if not shown:
        lines.append(
            "What the models wrote is hidden: it can be offensive. --show-offensive shows it."
        )
    return answer, visible("\n".join([*lines, *(f"! {note}" for note in answer["notes"])]))


def _hidden(row: Values) -> Values:
    """A row without anything a model wrote; numbers and lengths stay."""
    sides = {
        side: {**row[side], "text": HIDDEN, "pieces": [HIDDEN] * len(row[side]["pieces"])}
        for side in ("dense", "pruned")
    }
    return {**row, **sides, "next": [{**one, "token": HIDDEN} for one in row["next"]]}


def _lines(row: Values) -> list[str]:
    about = f" ({row['subgroup']})" if row["subgroup"] else ""
    at = row["parts_at"]
    where = "word for word the same" if at is None else f"they part at token {at + 1}"
    likely = (
        [
            f"{_one_line(one['token'].strip())} {one['dense']:.2f} / {one['pruned']:.2f}"
            for one in row["next"][:8]
        ]
        if at is not None
        else []
    )
    return [
        "",
        f"  prompt{about}: {_one_line(row['prompt'])}",
        f"    prompt alone {row['prompt_score']:.3f}; {where}",
        *(
            f"    {side:<6} {row[side]['score']:.3f}  {_one_line(row[side]['text'])}"
            for side in ("dense", "pruned")
        ),
        *([f"    next there, dense / pruned: {', '.join(likely)}"] if likely else []),
    ]


def _one_line(text: str) -> str:
    """Line breaks and tabs written out, so that a text cannot look like our own lines."""
    return text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
