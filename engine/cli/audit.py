"""audit: score heads, build variants, measure who pays, keep the run."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from engine.audit.command_line import Ticker, checked, executor_of, json_flag, ray_option, store_of, store_option
from engine.tracks.image_classifiers.options import (
    FILTERS_ONLY,
    HEADS_ONLY,
    foreign_options,
    image_options,
    image_request_of,
    is_image_request,
)
from engine.tracks.language_models.options import request_of, request_options


def add(commands: Any) -> None:
    parser = commands.add_parser("audit", help="audit a language model or an image classifier end to end")
    request_options(parser)
    image_options(parser)
    ray_option(parser)
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Run the audit here; an equal one that is under way elsewhere is waited for, a finished one is found."""
    from engine.audit.jobs import run_job
    from engine.report.summary import summary_of, summary_text

    if is_image_request(args):
        foreign = foreign_options(args, HEADS_ONLY, "image classifiers")
        request, executor = checked(args, image_request_of, foreign), executor_of(args)
    else:
        request = checked(args, request_of, foreign_options(args, FILTERS_ONLY, "language models"))
        executor = executor_of(args)
    found = run_job(store_of(args), request, Ticker(), executor)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return summary_of(found), summary_text(found)
