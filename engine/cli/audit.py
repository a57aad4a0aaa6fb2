"""audit: score heads, build variants, measure who pays, keep the run."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from engine.cli._image_options import (
    FILTERS_ONLY,
    HEADS_ONLY,
    foreign_options,
    image_options,
    image_request_of,
    is_image_request,
)
from engine.cli._options import (
    Ticker,
    checked,
    executor_of,
    json_flag,
    ray_option,
    request_options,
    store_of,
    store_option,
)


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
    from engine.audit.summary import summary_of, summary_text

    if is_image_request(args):
        foreign = foreign_options(args, HEADS_ONLY, "image classifiers")
        request, executor = checked(args, foreign, image_request_of), None
    else:
        request = checked(args, foreign_options(args, FILTERS_ONLY, "language models"))
        executor = executor_of(args, request)
    found = run_job(store_of(args), request, Ticker(), executor)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return summary_of(found), summary_text(found)
