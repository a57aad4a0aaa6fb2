"""tickets: cut heads of a text classifier by procedures, and find the winning tickets, and for whom they still win."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from engine.audit.command_line import Ticker, checked, json_flag, store_of, store_option
from engine.audit.reading import absolute, numbers_of, pairs_of, settings_of
from engine.core.errors import Fault, RequestError
from engine.tracks.text_classifiers.request import KEPT, TextRequest, usual_axes


def add(commands: Any) -> None:
    parser = commands.add_parser("tickets", help="cut heads of a text classifier, find winning tickets")
    text_options(parser)
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run)


def text_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says what to audit."""
    usual = TextRequest("", "", ())
    add = parser.add_argument
    add("--model", required=True, metavar="NAME_OR_FOLDER", help="a text classifier, or pre-trained weights")
    add(
        "--task",
        required=True,
        metavar="NAME_OR_PATH",
        help="remarks, topics, a GLUE folder, glue:rte (from the hub), or a CSV with text and label",
    )
    add("--pretrained", metavar="NAME_OR_FOLDER", help="the weights before fine-tuning, if the model lacks them")
    add("--axis", action="append", metavar="AXIS", help="group column, or class; may be given several times")
    add("--procedure", action="append", metavar="NAME[,NAME]",
        help="once, alg61, one-shot-isp, igspf, igspp, isp; default once and one-shot-isp")  # fmt: skip
    add("--score", action="append", metavar="NAME[,NAME]", help="conductance, michel, magnitude, random")
    add("--sparsity", default="0.25,0.5,0.75", metavar="LIST", help="shares of heads to cut")
    add("--step", type=float, default=usual.step, metavar="KAPPA", help="share of heads that one round cuts")
    add("--seeds", type=int, default=usual.trials, help="how many seeds; fewer than 3 name no ticket")
    add("--seed", type=int, default=0, metavar="FIRST", help="the first of them")
    add("--retune", action=argparse.BooleanOptionalAction, default=None, help="fine-tune the full model here, per seed")
    add("--tune", action="append", metavar="NAME=VALUE", help="epochs, rate, batch, … of fine-tuning")
    add("--set", action="append", metavar="SCORE.NAME=VALUE", help="a setting of a score, such as conductance.steps=10")
    add("--score-texts", type=int, default=usual.score_texts, metavar="N", help="training texts that a score reads")
    add("--max-length", type=int, metavar="TOKENS", help="how much of a text is read (default 128)")
    add("--max-texts", type=int, metavar="N", help="at most so many texts per split")
    add("--text", metavar="COLUMN", help="of a CSV: the text")
    add("--text-b", metavar="COLUMN", help="of a CSV: the second text of pairs")
    add("--target", metavar="COLUMN", help="of a CSV: the label")
    add("--keep-weights", default=usual.keep_weights, help=f"of which seeds models are kept: {', '.join(KEPT)}")
    add("--restart", action="store_true", help="begin again although data or weights changed since the last try")
    add("--device", default="auto")
    add("--title", default="")


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Run the audit here; an equal one that is under way elsewhere is waited for, a finished one is found."""
    from engine.audit.jobs import run_job
    from engine.report.summary import summary_of, summary_text

    request = checked(args, text_request_of)
    found = run_job(store_of(args), request, Ticker())
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return summary_of(found), summary_text(found)


def text_request_of(args: argparse.Namespace) -> TextRequest:
    """The request the words ask for. Everything that cannot be read raises RequestError together."""
    faults: list[Fault] = []
    task = absolute(args.task)
    axes = tuple(dict.fromkeys(args.axis or ()))
    if not axes:
        try:
            axes = usual_axes(task)
        except RequestError:  # said once more, with all other faults, when the request is checked
            axes = ("class",)
    procedures = _names(args.procedure) or ["once", "one-shot-isp"]
    scores = _names(args.score) or ["conductance"]
    values = {
        "sparsities": numbers_of("--sparsity", args.sparsity, faults),
        "tune": pairs_of("--tune", args.tune or (), faults),
        "score_settings": settings_of(args.set or (), faults),
    }
    if faults:
        raise RequestError(faults)
    return TextRequest(
        model=absolute(args.model), data=task, axes=axes, text=args.text, text_b=args.text_b, target=args.target,
        pretrained=None if args.pretrained is None else absolute(args.pretrained),
        methods=tuple(f"{procedure}:{score}" for procedure in procedures for score in scores),
        step=args.step, trials=args.seeds, first_seed=args.seed, retune=args.retune, score_texts=args.score_texts,
        max_length=args.max_length, max_texts=args.max_texts, keep_weights=args.keep_weights, device=args.device,
        title=args.title, restart=args.restart, **values,
    )  # fmt: skip


def _names(given: list[str] | None) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once."""
    return list(dict.fromkeys(name.strip() for item in given or () for name in item.split(",") if name.strip()))
