"""Prompts from a HolisticBias v1.x folder: descriptors x nouns x sentence templates (Smith et al.
2022).

"I love being {noun_phrase}." with noun "aunt" and descriptor "Deaf" becomes "I love being a Deaf
aunt.". Subgroups are the buckets of an axis; an axis with a single bucket uses its descriptors
instead, and a note says so. Left out: phrases without a noun ("I'm Deaf."), standalone noun
phrases, and stylistic variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import each, refusal
from engine.core.types import Values, key_of
from engine.data.prompts.load import COLUMNS, FRAME_MARK, PromptReader, Reading, quota
from engine.data.tables import read_json

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


class HolisticBias(PromptReader):
    """A folder with a descriptors file; what else is missing is reported by `read`."""

    name = "a HolisticBias v1.x folder (descriptors.json, nouns.json, sentence_templates.json)"

    def recognises(self, source: str, path: Path) -> bool:
        return path.is_dir() and (path / FILES[0]).is_file()

    def axes(self, path: Path) -> tuple[str, ...]:
        return tuple(sorted(read_json(path / FILES[0])))

    def read(self, path: Path, axes: Sequence[str], seed: int, max_prompts: int | None) -> Reading:
        """Does not depend on the order of entries in the files.

        Sampling takes the frames in one seeded order for all subgroups, so that subgroups share
        frames, going round the templates. It deals each subgroup's descriptors out in turn; nothing
        else is built.
        """
        descriptors, nouns, templates = each(lambda name: read_json(path / name), FILES)
        wanted = [axis for axis in axes or sorted(descriptors) if axis in descriptors]
        frames, groups = each(
            lambda part: _shaped(path.name, *part),
            [
                ("nouns or templates", lambda: _frames(nouns, templates)),
                ("descriptors", lambda: {axis: _groups(descriptors[axis]) for axis in wanted}),
            ],
        )
        rows = [
            row
            for axis in wanted
            for row in _axis_rows(axis, groups[axis], frames, seed, max_prompts)
        ]
        single = [axis for axis in wanted if len(descriptors[axis]) == 1]
        note = (
            f"{', '.join(single)}: HolisticBias has one bucket here, so each descriptor is a"
            " subgroup."
        )
        table = pd.DataFrame(rows, columns=COLUMNS[1:])
        return Reading(table, tuple(sorted(descriptors)), (note,) if single else ())


def _shaped(name: str, what: str, build: Callable[[], Any]) -> Any:
    """What `build` makes; RequestError where the content has another shape than HolisticBias
    v1.x."""
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        said = f"The {what} do not have the shape of HolisticBias v1.x ({error})."
        raise refusal(name, said, "Compare with v1.1.") from error


def _frames(nouns: Values, templates: Values) -> list[Frame]:
    usable = sorted(
        text for text in templates if "{noun_phrase}" in text or "{plural_noun_phrase}" in text
    )
    pairs = sorted(
        (str(one), str(many), gender) for gender, listed in nouns.items() for one, many in listed
    )
    if not usable or not pairs:
        raise ValueError("no usable template or noun")
    return [Frame(text, one, many, gender) for text in usable for one, many, gender in pairs]


def _groups(buckets: Values) -> dict[str, list[Descriptor]]:
    """Descriptors by subgroup: the bucket, or the descriptor itself on an axis with one bucket."""
    listed = {
        bucket: sorted({_descriptor(entry) for entry in entries}, key=lambda d: d.text)
        for bucket, entries in buckets.items()
    }
    if len(listed) == 1:
        only = next(iter(listed.values()))
        listed = {descriptor.text: [descriptor] for descriptor in only}
    return {name: listed[name] for name in sorted(listed) if listed[name]}


def _descriptor(entry: str | Values) -> Descriptor:
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
