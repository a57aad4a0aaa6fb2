"""predict: how long a request will take and how wide its intervals will be, before the time is
spent."""

from __future__ import annotations

import argparse
import math
from typing import Any

from engine.audit.command_line import (
    add_options,
    checked,
    command,
    memory_option,
    request_of,
    store_of,
)
from engine.audit.fields import fields_of
from engine.core.files import json_able
from engine.core.memory import in_words
from engine.core.types import Values
from engine.tracks.language_models.request import AuditRequest


def add(commands: Any) -> None:
    parser = commands.add_parser("predict", help="predict time and precision of an audit")
    add_options(parser, fields_of(AuditRequest))
    memory_option(parser)
    command(parser, run)


def run(args: argparse.Namespace) -> tuple[Values, str]:
    """Draw the dense texts and run the pilot; both are kept for the audit."""
    from engine.tracks.language_models.predict import predict

    found = predict(checked(args, lambda words: request_of(words, AuditRequest)), store_of(args))
    lines = [
        found["words"],
        "Memory: about {needed} of {budget} that may be taken.".format(
            **{name: in_words(size) for name, size in found["memory"].items()}
        ),
    ]
    for axis, said in found["axes"].items():
        bias = (
            f"dense bias {said['bias']:.3f}, null band up to {said['null_high']:.3f}, "
            if "bias" in said
            else ""
        )
        lines.append(f"{axis}: {bias}{said['prompts']} prompts")
        for name, seconds in said["seconds"].items():
            width = said["width"][name]
            wide = (
                f"interval {width:.3f} wide"
                if math.isfinite(width)
                else "interval not known from so few texts"
            )
            lines.append(f"  {name:<10} {seconds:8.1f} s   {wide}")
    return json_able(found), "\n".join(lines)
