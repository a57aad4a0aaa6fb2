"""scores: one row per head, without building or measuring any variant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.command_line import Ticker, checked, executor_of, json_flag, ray_option, store_of, store_option
from engine.audit.reading import absolute, pairs_of, settings_of
from engine.core.errors import Fault, RequestError
from engine.core.files import writable, write_whole
from engine.tracks.image_classifiers.options import HEADS_ONLY, foreign_options
from engine.tracks.language_models.options import request_of, request_options
from engine.tracks.language_models.request import SEARCH
from engine.tracks.text_classifiers.request import TextRequest

TEXT_ONLY = ("pretrained", "score_texts", "max_length", "max_texts", "text", "text_b", "target", "retune", "tune")
"""Options that mean nothing for a language model."""
TEXT_FOREIGN = tuple(name for name in HEADS_ONLY if name != "seeds")
"""Options that mean nothing for a text classifier."""


def add(commands: Any) -> None:
    parser = commands.add_parser("scores", help="score heads and write them as a table")
    request_options(parser)
    ray_option(parser)
    store_option(parser)
    json_flag(parser)
    _text_options(parser)
    parser.add_argument("--out", required=True, metavar="scores.csv|.parquet")
    parser.set_defaults(run=run, parser=parser)


def _text_options(parser: argparse.ArgumentParser) -> None:
    """What heads of a text classifier need besides --model, --method, --axis, --seeds, --seed and --device."""
    add = parser.add_argument_group("text classifiers").add_argument
    add("--task", metavar="NAME_OR_PATH", help="the texts: remarks, topics, a GLUE folder, glue:rte, or a CSV")
    add("--pretrained", metavar="NAME_OR_FOLDER", help="the weights before fine-tuning, scored too")
    add("--score-texts", type=int, default=2000, metavar="N", help="training texts that a score reads")
    add("--max-length", type=int, metavar="TOKENS", help="how much of a text is read (default 128)")
    add("--max-texts", type=int, metavar="N", help="at most so many texts per split")
    add("--text", metavar="COLUMN", help="of a CSV: the text")
    add("--text-b", metavar="COLUMN", help="of a CSV: the second text of pairs")
    add("--target", metavar="COLUMN", help="of a CSV: the label")
    add("--retune", action=argparse.BooleanOptionalAction, default=None, help="fine-tune the full model here, per seed")
    add("--tune", action="append", metavar="NAME=VALUE", help="epochs, rate, batch, … of fine-tuning")


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Score, reshape to one row per head, write whole."""
    if args.task is not None:
        return _of_texts(args)
    from engine.core.types import Hooks
    from engine.tracks.language_models.run import scores_only

    out = Path(args.out)
    faults = [*_out_faults(out), *foreign_options(args, TEXT_ONLY, "language models")]
    if args.gamma == SEARCH:
        faults.append(Fault("gamma", "a search needs an audit.", "Name a number, or run `audit --gamma search`."))
    request = checked(args, request_of, faults)
    table = scores_only(request, store_of(args), Hooks(Ticker()), executor_of(args))
    return _written(out, table, table.attrs["notes"])


def _of_texts(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """One row per stage, score, group of texts and head."""
    from engine.core.types import Hooks
    from engine.tracks.text_classifiers.scores_only import importance_only

    out = Path(args.out)
    request = checked(
        args, _text_request, [*_out_faults(out), *foreign_options(args, TEXT_FOREIGN, "text classifiers")]
    )
    return _written(out, importance_only(request, store_of(args), Hooks(Ticker())), [])


def _text_request(args: argparse.Namespace) -> TextRequest:
    faults: list[Fault] = []
    task = absolute(args.task)
    tune = pairs_of("--tune", args.tune or (), faults)
    values = {"score_settings": settings_of(args.set or (), faults), "tune": tune}
    scores = args.method or ("conductance",)
    if "random" in scores:
        faults.append(Fault("--method", "random draws its numbers; they say nothing about heads.", "Leave it out."))
    if faults:
        raise RequestError(faults)
    return TextRequest(
        model=absolute(args.model), data=task, axes=tuple(args.axis or ("class",)),
        pretrained=None if args.pretrained is None else absolute(args.pretrained), sparsities=(0.5,),
        methods=tuple(f"once:{score}" for score in scores), trials=args.seeds, max_texts=args.max_texts,
        text=args.text, text_b=args.text_b, target=args.target, retune=args.retune,
        first_seed=args.seed, score_texts=args.score_texts, max_length=args.max_length, device=args.device, **values,
    )  # fmt: skip


def _out_faults(out: Path) -> list[Fault]:
    faults = []
    if out.suffix not in (".csv", ".parquet"):
        faults.append(Fault("--out", f"{out.suffix!r} is not a known ending.", "Known: .csv, .parquet."))
    if not writable(out):
        faults.append(Fault("--out", f"{out} cannot be written.", "Choose another place."))
    return faults


def _written(out: Path, table: pd.DataFrame, notes: Sequence[str]) -> tuple[dict[str, Any], str]:
    if out.suffix == ".csv":
        write_whole(out, lambda path: table.to_csv(path, index=False), "file")
    else:
        write_whole(out, lambda path: table.to_parquet(path, index=False))
    said = {"out": str(out), "heads": len(table), "columns": list(table.columns), "notes": list(notes)}
    return said, "\n".join(
        [f"{len(table)} rows, one per head{_more(table)} -> {out}", *(f"! {note}" for note in notes)]
    )


def _more(table: pd.DataFrame) -> str:
    """What rows differ by besides the head."""
    return ", stage, score and group" if "stage" in table else ""
