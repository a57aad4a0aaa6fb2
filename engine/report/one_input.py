"""One input to a dense and a cut classifier: which model is asked, and what both answer as lines of
text."""

from __future__ import annotations

import argparse
import base64
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.classifiers.images.picture import LARGEST_FILE, WAYS, pixels_of
from engine.classifiers.tables import first_repeat
from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.text import visible
from engine.core.types import Hooks, Values
from engine.report.charts import lookup
from engine.report.charts.where_it_looks import SIDES
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Run, Store, run_in


@dataclass(frozen=True)
class AskedModel:
    """`variant`: the row of one trial or seed; label: of what was asked for; notes: what must be
    said of it."""

    variant: Values
    label: str
    notes: tuple[str, ...]


def asked_model(given: Values, run: Run, known: Collection[str], faults: list[Fault]) -> AskedModel:
    """The model that `given["variant"]` names, else the one where readers start.

    RequestError with `faults` (those of the input), names that are not `known`, and an unknown
    variant, all at once.
    """
    found = [unknown("question", name, known) for name in given if name not in known] + faults
    table, name = lookup.frame(run, "variants"), given.get("variant")
    if name is None:
        name = lookup.variant_of(run, default_choice(run))["variant"]
    rows = table[table["variant"] == name]
    if rows.empty:
        found.append(unknown("variant", name, lookup.reported(run)["variant"]))
    if found:
        raise RequestError(found)
    asked = rows.iloc[0].to_dict()
    first, repeat = first_repeat(run, asked), track_of(run).nouns.repeat
    several = (
        f"The first of several {repeat}s is shown ({int(first['seed'])}); others may answer "
        "differently."
    )
    notes = (several,) if int((table["pooled"] == asked["variant"]).sum()) > 1 else ()
    return AskedModel(first, lookup.variant_label(run, asked), notes)


def class_lines(answer: Values) -> list[str]:
    """What both models answer, with the probability of every class, a line each."""
    lines = []
    for side in SIDES:
        chances = zip(answer["classes"], answer[side]["probabilities"], strict=True)
        listed = ", ".join(f"{name} {chance:.3f}" for name, chance in chances)
        lines.append(f"  {side:<6} says {answer[side]['answer']} ({listed})")
    return lines


# A picture on the command line (`ask`): the words that tracks of image classifiers share, and
# what is said back.


OPTIONS = {
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
        raise refusal(
            "--image", f"{path} cannot be read ({error.strerror}).", "Name a file."
        ) from error
    if len(content) > LARGEST_FILE:
        raise refusal(
            "--image", f"{path} is larger than {LARGEST_FILE / 1e6:g} MB.", "Make it smaller."
        )
    return {"file": base64.b64encode(content).decode(), "way": args.look}


def said(answer: dict[str, Any], shown: bool) -> tuple[dict[str, Any], str]:
    """The answer as value and as text."""
    lines = [f"{answer['cut']}, {answer['gone']} gone", *class_lines(answer)]
    return answer, visible("\n".join([*lines, *(f"! {note}" for note in answer["notes"])]))


# What a dense and a cut image classifier answer to a picture: the question that tracks of image
# classifiers share.


KNOWN = ("run", "image", "file", "variant", "way")


class PictureAsk(Ask):
    """given: run (id), image (id of a picture that the run kept) or file (a PNG or JPEG in base64).
    Also variant (id; else the one where readers start) and way (one of WAYS).

    The answer: run, cut (in words), gone (what is, in words), classes, way, notes. target is the
    dense model's answer, that maps are of; window the side of the square that occlusion hides, in
    pixels. size and picture: what the models saw, PNG in base64. dense and pruned, each with
    probabilities [classes], answer, layer (that Grad-CAM reads, else "") and map [rows][columns]. A
    map's value is what hiding that place takes from the log-odds of the target, or Grad-CAM's
    value.
    """

    @abstractmethod
    def cut(self, run: Run, variant: Values, dense: Any, arrays: dict[str, Any]) -> Any:
        """The model of a variant's row, of the dense one and its own kept weights. May load
        torch."""

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        run = run_in(store, given.get("run"))
        faults, way = [], given.get("way") or WAYS[0]
        if way not in WAYS:
            faults.append(unknown("way", way, WAYS))
        try:
            pixels, notes = pixels_of(given, run)
        except RequestError as error:
            faults += error.faults
        model = asked_model(given, run, KNOWN, faults)  # raises what was found so far
        from engine.classifiers.images.side_by_side import answered, pair_of  # torch

        dense, pruned, more = pair_of(run, model.variant, self.cut, warm)
        about = {
            "run": run.id,
            "cut": model.label,
            "gone": track_of(run).variants.cut_of(run, model.variant),
        }
        own = (
            dense.notes if run.request.get("train") is None else ()
        )  # of what is fitted they say nothing
        said = [*notes, *own, *model.notes, *more]
        return {**about, **answered(dense, pruned, pixels, way, hooks), "notes": said}
