"""Prompts from a HolisticBias v1.x folder: descriptors x nouns x sentence templates (Smith et al.
2022).

"I love being {noun_phrase}." with noun "aunt" and descriptor "Deaf" becomes "I love being a Deaf
aunt.". Subgroups are the buckets of an axis; an axis with a single bucket uses its descriptors
instead, and a note says so. Left out: phrases without a noun ("I'm Deaf."), standalone noun
phrases, and stylistic variants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.ids import key_of
from engine.data.prompts.load import (
    FRAME_MARK,
    axis_faults,
    finish,
    quota,
    read_utf8,
    subgroup_faults,
)

NAME = "a HolisticBias v1.x folder (descriptors.json, nouns.json, sentence_templates.json)"
FILES = ("descriptors.json", "nouns.json", "sentence_templates.json")


@dataclass(frozen=True)
class Descriptor:
    """A descriptor and what it asks of the noun: gender "" fits every noun."""

    text: str
    article: str
    gender: str


@dataclass(frozen=True)
class Frame:
    """A sentence template with a noun: x in Eq. 1 of FASP (Zayed et al. 2024)."""

    template: str
    noun: str
    plural: str
    gender: str

    @property
    def name(self) -> str:
        """Template and noun, as the column `template` has them."""
        return f"{self.template}{FRAME_MARK}{self.noun}"

    def fill(self, descriptor: Descriptor) -> str:
        """The prompt about one descriptor."""
        singular = f"{descriptor.article} {descriptor.text} {self.noun}"
        text = self.template.replace("{plural_noun_phrase}", f"{descriptor.text} {self.plural}")
        return text.replace("{noun_phrase}", singular)

    def fits(self, descriptor: Descriptor) -> bool:
        """Gendered descriptors ("lesbian") go with nouns of that gender only."""
        return descriptor.gender in ("", self.gender)


def matches(path: Path) -> bool:
    """A folder with a descriptors file; what else is missing is reported by `load`."""
    return path.is_dir() and (path / FILES[0]).is_file()


def known_axes(path: Path) -> tuple[str, ...]:
    """Axes of the descriptors file, sorted. Raises RequestError when it cannot be read."""
    content, faults = _read_json(path / FILES[0])
    if faults:
        raise RequestError(faults)
    return tuple(sorted(content))


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named axes (none named: all), columns as table.COLUMNS, and notes.
    RequestError with all faults.

    At most `max_prompts` per axis if given: sampling takes the frames in one seeded order for all
    subgroups, so that subgroups share frames, going round the templates, and deals each subgroup's
    descriptors out in turn; nothing else is built. Does not depend on the order of entries in the
    files.
    """
    contents, faults = zip(*(_read_json(path / name) for name in FILES), strict=True)
    faults = [fault for part in faults for fault in part]
    if faults:
        raise RequestError(faults)
    descriptors, nouns, templates = contents
    wanted = list(axes) or sorted(descriptors)
    faults = axis_faults(path.name, wanted, sorted(descriptors))
    frames, more = _parsed(path.name, "nouns or templates", lambda: _frames(nouns, templates))
    groups, also = _parsed(
        path.name,
        "descriptors",
        lambda: {a: _groups(descriptors[a]) for a in wanted if a in descriptors},
    )
    if faults := faults + more + also:
        raise RequestError(faults)
    rows = [
        row for axis in wanted for row in _axis_rows(axis, groups[axis], frames, seed, max_prompts)
    ]
    table = pd.DataFrame(rows, columns=["axis", "subgroup", "text", "template", "descriptor"])
    if faults := subgroup_faults(path.name, table, wanted):
        raise RequestError(faults)
    table, notes = finish(table)
    single = [axis for axis in wanted if len(descriptors[axis]) == 1]
    if single:
        notes = (
            (
                f"{', '.join(single)}: HolisticBias has one bucket here, so each descriptor is a"
                " subgroup."
            ),
            *notes,
        )
    return table, notes


def _read_json(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    text, faults = read_utf8(path)
    if faults:
        return {}, faults
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        return {}, [Fault(path.name, f"Not JSON ({error}).", "Use the file as published.")]
    if not isinstance(content, dict) or not content:
        return {}, [
            Fault(path.name, "Expected a JSON object with entries.", "Use the file as published.")
        ]
    return content, []


def _parsed(name: str, what: str, build: Any) -> tuple[Any, list[Fault]]:
    """Result of `build`, or one fault when the content has another shape than HolisticBias v1.x."""
    try:
        return build(), []
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return None, [
            Fault(
                name,
                f"The {what} do not have the shape of HolisticBias v1.x ({error}).",
                "Compare with v1.1.",
            )
        ]


def _frames(nouns: dict[str, Any], templates: dict[str, Any]) -> list[Frame]:
    usable = sorted(
        text for text in templates if "{noun_phrase}" in text or "{plural_noun_phrase}" in text
    )
    pairs = sorted(
        (str(one), str(many), gender) for gender, listed in nouns.items() for one, many in listed
    )
    if not usable or not pairs:
        raise ValueError("no usable template or noun")
    return [Frame(text, one, many, gender) for text in usable for one, many, gender in pairs]


def _groups(buckets: dict[str, Any]) -> dict[str, list[Descriptor]]:
    """Descriptors by subgroup: the bucket, or the descriptor itself on an axis with one bucket."""
    listed = {
        bucket: sorted({_descriptor(entry) for entry in entries}, key=lambda d: d.text)
        for bucket, entries in buckets.items()
    }
    if len(listed) == 1:
        only = next(iter(listed.values()))
        listed = {descriptor.text: [descriptor] for descriptor in only}
    return {name: listed[name] for name in sorted(listed) if listed[name]}


def _descriptor(entry: str | dict[str, Any]) -> Descriptor:
    entry = {"descriptor": entry} if isinstance(entry, str) else entry
    text = entry["descriptor"]
    article = entry.get("article") or ("an" if text[0].lower() in "aeiou" else "a")
    gender = entry.get("gender") or ""
    return Descriptor(text, article, "" if gender == "(none)" else gender)


def _axis_rows(
    axis: str,
    groups: dict[str, list[Descriptor]],
    frames: list[Frame],
    seed: int,
    max_prompts: int | None,
) -> Iterator[tuple[str, str, str, str, str]]:
    """Rows (axis, subgroup, text, template, descriptor) of one axis, at most about `max_prompts` if
    given."""
    share = None if max_prompts is None else quota(max_prompts, len(groups))
    ordered = frames if share is None else _round_templates(frames, axis, seed)
    for subgroup, descriptors in groups.items():
        chosen: Iterator[tuple[Frame, Descriptor]]
        if share is None:
            chosen = ((frame, d) for frame in ordered for d in descriptors if frame.fits(d))
        else:
            dealt = sorted(
                descriptors, key=lambda d: key_of("descriptor", seed, axis, subgroup, d.text)
            )
            chosen = _deal(ordered, dealt, share)
        for frame, descriptor in chosen:
            yield axis, subgroup, frame.fill(descriptor), frame.name, descriptor.text


def _round_templates(frames: list[Frame], axis: str, seed: int) -> list[Frame]:
    """All frames, one of each template before the second of any, in a seeded order."""
    shuffled = sorted(frames, key=lambda frame: key_of("frame", seed, axis, frame.name))
    seen: dict[str, int] = {}
    ranked = []
    for frame in shuffled:
        seen[frame.template] = seen.get(frame.template, 0) + 1
        ranked.append((seen[frame.template], key_of("frame", seed, axis, frame.template), frame))
    return [frame for _, _, frame in sorted(ranked, key=lambda item: item[:2])]


def _deal(
    frames: list[Frame], descriptors: list[Descriptor], share: int
) -> Iterator[tuple[Frame, Descriptor]]:
    """The first `share` pairs: every frame once before any frame twice, descriptors in turn."""
    left = share
    for turn in range(len(descriptors)):
        for place, frame in enumerate(frames):
            fitting = [descriptor for descriptor in descriptors if frame.fits(descriptor)]
            if turn >= len(fitting):
                continue
            if not left:
                return
            left -= 1
            yield frame, fitting[(place + turn) % len(fitting)]
