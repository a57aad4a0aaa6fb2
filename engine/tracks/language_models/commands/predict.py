"""predict: how long a request will take and how wide its intervals will be, before the time is spent."""

from __future__ import annotations

import argparse
from typing import Any

from engine.audit.command_line import checked, json_flag, store_of, store_option
from engine.core.files import json_able
from engine.tracks.language_models.options import request_of, request_options


def add(commands: Any) -> None:
    parser = commands.add_parser("predict", help="predict time and precision of an audit")
    request_options(parser)
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Draw the dense texts and run the pilot; both are kept for the audit."""
    from engine.tracks.language_models.predict import predict

    found = predict(checked(args, request_of), store_of(args))
    lines = [found["words"]]
    for axis, said in found["axes"].items():
        lines.append(
            f"{axis}: dense bias {said['bias']:.3f}, null band up to {said['null_high']:.3f}, {said['prompts']} prompts"
        )
        for name, seconds in said["seconds"].items():
            lines.append(f"  {name:<10} {seconds:8.1f} s   interval {said['width'][name]:.3f} wide")
    return json_able(found), "\n".join(lines)
