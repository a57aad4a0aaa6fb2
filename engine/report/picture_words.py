"""A picture on the command line (`ask`): the words that tracks of image classifiers share, and what
is said back."""

from __future__ import annotations

import argparse
import base64
from pathlib import Path
from typing import Any

from engine.classifiers.images.picture import LARGEST_FILE, WAYS
from engine.core.errors import Fault, RequestError
from engine.core.text import visible
from engine.report.one_input import class_lines
from engine.store.runs import Run

OPTIONS: dict[str, dict[str, Any]] = {
    "--image": {
        "metavar": "FILE_OR_ID",
        "help": "a PNG or JPEG, or the id of a picture that the audit kept",
    },
    "--look": {
        "choices": WAYS,
        "help": f"how to see where each model looks, a map in --json (default: {WAYS[0]})",
    },
}


def given(run: Run, args: argparse.Namespace) -> dict[str, Any]:
    """What the words ask of the run. RequestError for a file that is too large or cannot be
    read."""
    path = Path(args.image or "").expanduser()
    if not args.image or not path.is_file():
        return {"image": args.image, "way": args.look}
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise RequestError(
            Fault("--image", f"{path} cannot be read ({error.strerror}).", "Name a file.")
        ) from error
    if len(content) > LARGEST_FILE:
        raise RequestError(
            Fault(
                "--image", f"{path} is larger than {LARGEST_FILE / 1e6:g} MB.", "Make it smaller."
            )
        )
    return {"file": base64.b64encode(content).decode(), "way": args.look}


def said(answer: dict[str, Any], shown: bool) -> tuple[dict[str, Any], str]:
    """The answer as value and as text."""
    lines = [f"{answer['cut']}, {answer['gone']} gone", *class_lines(answer)]
    return answer, visible("\n".join([*lines, *(f"! {note}" for note in answer["notes"])]))
