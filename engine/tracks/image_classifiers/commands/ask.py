"""ask, of image classifiers: what is answered to a picture, and where the models look (the maps in --json)."""

from __future__ import annotations

import argparse
import base64
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.text import visible
from engine.report import phrasing
from engine.store.runs import Run
from engine.tracks.image_classifiers.picture import LARGEST_FILE

ASKS = "picture"
OPTIONS: dict[str, dict[str, Any]] = {
    "--image": {"metavar": "FILE_OR_ID", "help": "a PNG or JPEG, or the id of a picture that the audit kept"},
}


def given(run: Run, args: argparse.Namespace) -> dict[str, Any]:
    """What the words ask of the run. RequestError for a file that is too large or cannot be read."""
    path = Path(args.image or "").expanduser()
    if not args.image or not path.is_file():
        return {"image": args.image}
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise RequestError(Fault("--image", f"{path} cannot be read ({error.strerror}).", "Name a file.")) from error
    if len(content) > LARGEST_FILE:
        raise RequestError(Fault("--image", f"{path} is larger than {LARGEST_FILE / 1e6:g} MB.", "Make it smaller."))
    return {"file": base64.b64encode(content).decode()}


def said(answer: dict[str, Any], shown: bool) -> tuple[dict[str, Any], str]:
    """The answer as value and as text."""
    lines = [f"{answer['cut']}, {phrasing.count(answer['filters'], 'filter')} gone"]
    for side in ("dense", "pruned"):
        chances = ", ".join(f"{name} {chance:.3f}" for name, chance in
                            zip(answer["classes"], answer[side]["probabilities"], strict=True))  # fmt: skip
        lines.append(f"  {side:<6} says {answer[side]['answer']} ({chances})")
    return answer, visible("\n".join([*lines, *(f"! {note}" for note in answer["notes"])]))
