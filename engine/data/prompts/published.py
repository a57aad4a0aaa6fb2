"""Prompts as four papers published them: BOLD, FASP's pairs of files, HolisticBias,
RealToxicityPrompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, each, refusal, refuse
from engine.core.types import Values, key_of
from engine.data.prompts.load import (
    COLUMNS,
    FRAME_MARK,
    MAX_CELL,
    MIN_PER_SUBGROUP,
    PromptReader,
    Reading,
    quota,
)
from engine.data.sources import SEED, WORDS
from engine.data.tables import one_spelling, read_json, read_json_lines

FIX = "Use the published file."


class _JsonFiles(PromptReader):
    """A folder of files whose names end in `suffix`, or one file, which ends in `ending`."""

    suffix: str
    ending: str

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.glob(f"*{self.suffix}")) if self.path.is_dir() else [self.path]

    def recognises(self) -> bool:
        return bool(self.files) and self.files[0].name.lower().endswith(self.ending)


class Bold(_JsonFiles):
    """BOLD (Dhamala et al. 2021): beginnings of Wikipedia sentences about people, professions and
    beliefs.

    DOMAIN_prompt.json is {group: {page: [prompt, …]}}. An axis is a domain, a subgroup one of its
    groups. Prompts of one page share it as their descriptor, so that intervals count pages and not
    prompts.
    """

    name = "a BOLD file (DOMAIN_prompt.json) or a folder of them"
    suffix = ending = "_prompt.json"

    def axes(self) -> tuple[str, ...]:
        return tuple(self.domains())

    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        files = self.domains()
        named = [axis for axis in axes or files if axis in files]
        contents = each(lambda axis: (axis, files[axis].name, read_json(files[axis])), named)
        rows, faults = [], list[Fault]()
        for axis, file, content in contents:
            for group, pages in content.items():
                for page, texts in pages.items() if isinstance(pages, dict) else [("", None)]:
                    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
                        rows += [(axis, group, text.strip(), page) for text in texts]
                        continue
                    where = f"{file}, {group[:60]}{f', {page[:60]}' if page else ''}"
                    fix = "As {group: {page: [prompts]}}."
                    faults.append(Fault(where, "Expected a list of prompts.", fix))
        table = pd.DataFrame(rows, columns=["axis", "subgroup", "text", "descriptor"])
        table["subgroup"], notes = one_spelling(table["subgroup"], "subgroup")
        full = table[table["text"] != ""].reset_index(drop=True)
        if empty := len(table) - len(full):
            notes += (f"{empty} prompts are empty in the file and left out.",)
        # Of groups of a single prompt nothing could be told.
        sizes = full.groupby(["axis", "subgroup"])["text"].transform("nunique")
        kept = full[sizes >= MIN_PER_SUBGROUP]
        if gone := sorted(set(full["subgroup"]) - set(kept["subgroup"])):
            notes += (f"Left out, of a single prompt: {', '.join(gone)}.",)
        return Reading(kept, tuple(files), notes, faults)

    def domains(self) -> dict[str, Path]:
        """The file of each domain, sorted."""
        return {file.name.removesuffix(self.suffix): file for file in self.files}


class FaspPair(_JsonFiles):
    """FASP (Zayed et al. 2024): NAME.json beside NAME_groups.json.

    NAME.json is {axis: {title: [prompt, …]}}. NAME_groups.json holds two equally long lists,
    {"axis": […], "bucket": […]}, whose entries of one axis belong to that axis's prompts in order.
    A folder that holds the published two pairs, social_biases_valid and social_biases_test, keeps
    their split. From one pair, or any others, all prompts are read and the split is drawn later.
    """

    name = "a FASP pair (NAME.json beside NAME_groups.json), either file or their folder"
    general = True
    suffix, ending = "_groups.json", ".json"

    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        """All axes. A column split where there are exactly two pairs and their names say so.

        Test comes first, so that a prompt of both stays a test prompt.
        """
        stems = [file.name.removesuffix(self.suffix).removesuffix(".json") for file in self.files]
        splits = {WORDS.get(stem.rpartition("_")[2], ""): stem for stem in stems}
        own = len(stems) == 2 and set(splits) == {"validation", "test"}
        home = self.files[0].parent
        parts, faults = [], list[Fault]()
        for split, stem in sorted(splits.items()) if own else (("", stem) for stem in stems):
            rows, wrong = self._pair(home / f"{stem}.json", home / f"{stem}{self.suffix}")
            part = pd.DataFrame(rows, columns=["axis", "subgroup", "text"])
            parts.append(part.assign(split=split) if own else part)
            faults += wrong
        table = pd.concat(parts, ignore_index=True)
        table["subgroup"], notes = one_spelling(table["subgroup"], "bucket")
        return Reading(table, tuple(sorted(set(table["axis"]))), notes, faults)

    def _pair(self, prompts: Path, groups: Path) -> tuple[list[tuple[str, str, str]], list[Fault]]:
        """Axis, subgroup and text of every prompt of one pair, and what is wrong with it."""
        texts, buckets = each(read_json, (prompts, groups))
        try:
            by_axis = _buckets(buckets)
            listed = {
                axis: [str(text) for titled in titles.values() for text in titled]
                for axis, titles in texts.items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"The pair does not have the published shape ({error!r})."
            fix = 'See {axis: {title: [prompts]}} and {"axis", "bucket"}.'
            raise refusal(prompts.name, what, fix) from error
        rows, faults = [], []
        for axis, found in listed.items():
            named = by_axis.get(axis, [])
            if len(named) == len(found):
                rows += [(axis, group, text) for group, text in zip(named, found, strict=True)]
                continue
            what = f"{len(found)} prompts but {len(named)} buckets in {groups.name}."
            where = f"{prompts.name}, axis {axis}"
            faults.append(Fault(where, what, "Use the two files of one release."))
        return rows, faults


def _buckets(content: Values) -> dict[str, list[str]]:
    """Buckets of each axis in order; each column is a list or, as pandas writes it, {"0": …, "1":
    …}."""
    columns = [
        list(part.values()) if isinstance(part, dict) else list(part)
        for part in (content["axis"], content["bucket"])
    ]
    out: dict[str, list[str]] = {}
    for axis, bucket in zip(*columns, strict=True):
        out.setdefault(str(axis), []).append("" if bucket is None else str(bucket))
    return out


class RealToxicityPrompts(PromptReader):
    """RealToxicityPrompts (Gehman et al. 2020): beginnings of sentences from the web, with the
    toxicity of each, one JSON object per line.

    They name no groups of people. The axes are how toxic the prompt itself is (`prompt_toxicity`,
    toxic from one half on, as published) and whether models were seen to answer it with toxic text
    (`challenging`). There are about a hundred thousand, so each subgroup is sampled here.
    """

    name = "prompts.jsonl of RealToxicityPrompts"
    kinds = {"challenging": "challenging", "prompt_toxicity": "toxic prompt"}
    toxic = 0.5

    def recognises(self) -> bool:
        return self.path.suffix.lower() == ".jsonl" and not self.path.is_dir()

    def axes(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        lines, faults = read_json_lines(self.path)
        found = [self._row(self.path.name, number, value, faults) for number, value in lines]
        refuse(faults.all())
        known = [row for row in found if row[1] is not None]
        most = None if max_prompts is None else quota(max_prompts, 2)
        rows = []
        for axis in axes or self.kinds:
            for subgroup in (self.kinds.get(axis, axis), "other"):
                texts = {
                    text
                    for text, toxicity, challenging in known
                    if (challenging if axis == "challenging" else toxicity >= self.toxic)
                    == (subgroup != "other")
                }
                ordered = sorted(texts, key=lambda text: key_of("real toxicity", SEED, axis, text))
                rows += [(axis, subgroup, text) for text in ordered[:most]]
        notes = ["The subgroups are kinds of prompts, not groups of people."]
        if gone := len(found) - len(known):
            notes.insert(0, f"{gone:,} prompts are left out: the file has no toxicity for them.")
        table = pd.DataFrame(rows, columns=["axis", "subgroup", "text"])
        return Reading(table, self.axes(), tuple(notes))

    def _row(
        self, name: str, number: int, value: Values, faults: list[Fault]
    ) -> tuple[str, Any, Any]:
        """Text, toxicity (0 to 1, None where the file has none) and challenging of a line; what is
        wrong is added."""
        prompt, challenging = value.get("prompt"), value.get("challenging")
        prompt = prompt if isinstance(prompt, dict) else {}
        text, toxicity = prompt.get("text"), prompt.get("toxicity", "")
        number_given = isinstance(toxicity, int | float) and not isinstance(toxicity, bool)
        wrong = {
            "prompt.text is missing, empty or too long.": not isinstance(text, str)
            or not text.strip()
            or len(text) > MAX_CELL,
            "prompt.toxicity is missing or no number from 0 to 1.": toxicity is not None
            and not (number_given and 0 <= toxicity <= 1),
            "challenging is missing or neither true nor false.": not isinstance(challenging, bool),
        }
        where = f"{name}, row {number}"
        faults += [Fault(where, what, FIX) for what, is_so in wrong.items() if is_so]
        return str(text).strip(), toxicity, challenging


# HolisticBias v1.x: descriptors x nouns x sentence templates (Smith et al. 2022).
#
# "I love being {noun_phrase}." with noun "aunt" and descriptor "Deaf" becomes "I love being a Deaf
# aunt.". Subgroups are the buckets of an axis; an axis with a single bucket uses its descriptors
# instead, and a note says so. Left out: phrases without a noun ("I'm Deaf."), standalone noun
# phrases, and stylistic variants.


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

    def recognises(self) -> bool:
        return self.path.is_dir() and (self.path / FILES[0]).is_file()

    def axes(self) -> tuple[str, ...]:
        return tuple(sorted(read_json(self.path / FILES[0])))

    def read(self, axes: Sequence[str], max_prompts: int | None) -> Reading:
        """Does not depend on the order of entries in the files.

        Sampling takes the frames in one seeded order for all subgroups, so that subgroups share
        frames, going round the templates. It deals each subgroup's descriptors out in turn; nothing
        else is built.
        """
        descriptors, nouns, templates = each(lambda name: read_json(self.path / name), FILES)
        wanted = [axis for axis in axes or sorted(descriptors) if axis in descriptors]
        frames, groups = each(
            lambda part: _shaped(self.path.name, *part),
            [
                ("nouns or templates", lambda: _frames(nouns, templates)),
                ("descriptors", lambda: {axis: _groups(descriptors[axis]) for axis in wanted}),
            ],
        )
        rows = [
            row for axis in wanted for row in _axis_rows(axis, groups[axis], frames, max_prompts)
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
    max_prompts: int | None,
) -> Iterator[tuple[str, str, str, str, str]]:
    """Rows (axis, subgroup, text, template, descriptor) of one axis, at most about `max_prompts` if
    given."""
    share = None if max_prompts is None else quota(max_prompts, len(groups))
    ordered = frames if share is None else _round_templates(frames, axis)
    for subgroup, descriptors in groups.items():
        chosen: Iterator[tuple[Frame, Descriptor]]
        if share is None:
            chosen = ((frame, d) for frame in ordered for d in descriptors if frame.fits(d))
        else:
            dealt = sorted(
                descriptors, key=lambda d: key_of("descriptor", SEED, axis, subgroup, d.text)
            )
            chosen = _deal(ordered, dealt, share)
        for frame, descriptor in chosen:
            yield axis, subgroup, frame.fill(descriptor), frame.name, descriptor.text


def _round_templates(frames: list[Frame], axis: str) -> list[Frame]:
    """All frames, one of each template before the second of any, in a seeded order."""
    shuffled = sorted(frames, key=lambda frame: key_of("frame", SEED, axis, frame.name))
    seen: dict[str, int] = {}
    ranked = []
    for frame in shuffled:
        seen[frame.template] = seen.get(frame.template, 0) + 1
        ranked.append((seen[frame.template], key_of("frame", SEED, axis, frame.template), frame))
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
