"""An audit told in five steps, one sentence of at most `LONGEST` words, one picture, one footnote
each.

The story is told of one choice; it computes nothing and picks nothing: its numbers are those of the
run's tables.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.core import words
from engine.core.text import visible
from engine.report import phrasing, verdict
from engine.report.charts import lookup
from engine.report.charts.cost import cost
from engine.report.charts.headline import kind_of
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice, Panel
from engine.report.charts.what_was_cut import before_after, what_was_cut
from engine.report.figures import drawing, larger
from engine.report.tracks import track_of
from engine.report.verdict import advice
from engine.store.runs import Run

LONGEST = 30
"""Words of a step's sentence."""
TITLES = {
    "problem": "The problem",
    "cut": "The cut",
    "who_pays": "Who pays",
    "how_sure": "How sure are we",
    "recommendation": "What we recommend",
}
"""The steps in order, and what each is called."""
LONGEST_NAME = 40
"""Characters of a name from the user's files."""


@dataclass(frozen=True)
class Step:
    """One step of the story. `picture` may have no chart: then the sentence stands alone. Texts are
    unescaped."""

    name: str
    sentence: str
    picture: Panel | None
    footnote: str

    @property
    def title(self) -> str:
        return TITLES[self.name]


def step(run: Run, choice: Choice, name: str) -> Step:
    """One step of the story of a choice; `name` is one of TITLES."""
    return _STEPS[name](View(run, choice))


def in_short(run: Run, choice: Choice) -> str:
    """The verdict, as a list of audits says it: whole, since it is read and not heard."""
    return verdict.sentence(View(run, choice))[0]


def _problem(view: View, name: str = "problem") -> Step:
    """How the uncut model treats its best-off and worst-off subgroup."""
    uncut = replace(view.choice, method="dense", level=view.track.level.none)
    few, axis = view.reading.group.few, _named(words.axis_name(view.choice.measured))
    said = verdict.uncut_ends(view, lambda group: f"“{_named(words.group_name(group))}”")
    sentence = f"Before any cut, {said}."
    if not said:
        sentence = f"Too few {few} to say how the uncut model treats subgroups of {axis}."
    picture = _picture(View(view.run, uncut), "harm" if view.is_whole else "group")
    return Step(name, sentence, picture, _measured(View(view.run, uncut)))


def _cut(view: View) -> Step:
    """How much is cut, of what, and who chose it."""
    run, variant, track = view.run, view.variant, view.track
    if view.is_dense:
        return Step("cut", f"Nothing is cut here: this is the {track.nouns.whole}.", None, "")
    method, how = (
        lookup.method_label(run, variant["method"]),
        track.methods.definition(variant["method"]),
    )
    verb = ":" if track.ways.instead(variant) else " cuts"
    sentence = f"{phrasing.sentence(method)}{verb} {track.variants.cut_of(run, variant)}."
    return Step("cut", sentence, what_was_cut(run, view.choice), _first_sentence(how))


def _who_pays(view: View) -> Step:
    """For which subgroups it clearly gets worse, for which better, as far as their intervals carry
    it."""
    if view.is_dense:
        return _problem(view, "who_pays")
    sentence, measure = verdict.sentence(view)
    view = _told_of(view, sentence)
    name = verdict.about_of(view, measure)
    return Step("who_pays", sentence, _picture(view, name), _measured(view, name))


def _told_of(view: View, sentence: str) -> View:
    """Of what a verdict is about, the part that the sentence names first."""
    places = [
        (sentence.find(one.reading.group.name) % len(sentence), at, one)
        for at, one in enumerate(lookup.views(view.run, view.choice))
    ]
    return min(places, key=lambda one: one[:2])[2]


def _picture(view: View, about: str) -> Panel:
    """The chart of what is told: the harm, the quality, what is saved, or that of the groups."""
    charts = view.track.charts
    drawn = {"harm": before_after, "quality": charts.quality, "cost": cost}
    return drawn.get(about, charts.groups)(view.run, view.choice)


def _how_sure(view: View) -> Step:
    """The interval of the change, and what chance alone would give."""
    picture = before_after(view.run, view.choice)
    return Step("how_sure", view.wrong or _sure(view), picture, _measured(view))


def _sure(view: View) -> str:
    measure, row, is_dense = view.reading.harm, view.harm, view.is_dense
    name = measure.name
    if row is None or not math.isfinite(row["value"]):
        return f"We cannot say: the {name} was not measured here."
    is_claimed = kind_of(view, measure, row) in ("better", "worse")
    if view.was_chance and not (is_dense or is_claimed):
        before = "before" if view.track.ways.instead(view.variant) else "before the cut"
        return f"The {name} {before} could be chance alone, so we claim no change."
    kind = phrasing.direction(row)
    if math.isnan(row["low"]) if is_dense else kind == "unknown":
        what = "" if is_dense else " change of the"
        return f"We cannot say: too few {measure.few} for an interval of the{what} {name}."
    if is_dense:
        low, high = phrasing.apart(row["low"], row["high"])
        return f"The {name} may lie anywhere from {low} to {high}."
    low, high = abs(row["delta_low"]), abs(row["delta_high"])
    if kind == "unclear":
        fall, rise = phrasing.apart(low, high)
        return f"We cannot tell: the {name} may have fallen by {fall} or risen by {rise}."
    least, most = phrasing.apart(*sorted((low, high)))
    is_chance = kind == "fell" and phrasing.inside_null(row)
    chance = " What is left could be chance." * is_chance
    return f"The {name} {kind} by between {least} and {most} (95 % interval).{chance}"


def _recommendation(view: View) -> Step:
    """What the evidence carries, or why it carries nothing; what must be read with it stands
    below."""
    found = advice(view.run, view.choice)
    said = found.said or "No recommendation: nothing was cut here, or nothing that can be compared."
    head = sentence = _first_sentence(said)
    rest = said.removeprefix(head).strip()
    if len(head.split()) > LONGEST:
        sentence = "The recommendation is too long for a slide: the summary has it in full."
        rest = said
    view = _told_of(view, head)
    footnote = " ".join(filter(None, (rest, _measured(view, found.about))))
    return Step("recommendation", sentence, _picture(view, found.about), footnote)


_STEPS: Mapping[str, Callable[[View], Step]] = {
    "problem": _problem,
    "cut": _cut,
    "who_pays": _who_pays,
    "how_sure": _how_sure,
    "recommendation": _recommendation,
}


def _measured(view: View, about: str = "harm") -> str:
    """n of what is told, and what the bars are; those of what is saved are no intervals."""
    row = view.row(view.reading.quality) if about == "quality" else view.harm
    bars = [] if about == "cost" else ["bars: 95 % intervals"]
    return phrasing.sentences([lookup.measured_on(view.run, row), *bars])


def _named(name: str) -> str:
    """A name short enough to be read from afar."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    head, stop, _ = text.partition(". ")
    return f"{head}." if stop else text


# An audit in five steps as a PowerPoint file: slides with title, sentence, chart and notes.


KIND = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
WIDE, HIGH = 13.333, 7.5
"""Inches of a slide."""
LEFT, TOP = 0.6, 0.4
"""Inches that stay free at each side, and above the title."""
ROOM = (WIDE - 2 * LEFT, 4.65)
"""Inches of a chart, wide and high."""
PIXELS = 96
"""Of a chart per inch."""
LARGER = 1.4
"""How much larger letters and marks are than on a page."""


def slides(run: Run, choice: Choice) -> bytes:
    """The file's bytes. PruneAuditError where no browser is, which draws the charts."""
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(WIDE), Inches(HIGH)
    deck.core_properties.title = _said(lookup.title_of(run))
    with drawing() as draw:
        for name in TITLES:
            told = step(run, choice, name)
            _slide(
                deck.slides.add_slide(deck.slide_layouts[5]),
                told,
                draw,
                f"{track_of(run).nouns.about.capitalize()}. Audit {run.id} of {run.model['name']}.",
            )
    written = io.BytesIO()
    deck.save(written)
    return written.getvalue()


def _slide(slide: Any, told: Step, draw: Any, source: str) -> None:
    from pptx.util import Inches, Pt

    title, width = slide.shapes.title, Inches(ROOM[0])
    title.left, title.top, title.width, title.height = Inches(LEFT), Inches(TOP), width, Inches(0.5)
    _write(title.text_frame, told.title, Pt(20))
    box = slide.shapes.add_textbox(Inches(LEFT), Inches(TOP + 0.55), width, Inches(1.2))
    _write(box.text_frame, told.sentence, Pt(28), bold=True)
    notes = [told.sentence, told.footnote]
    if told.picture is not None and told.picture.has_chart:
        _slides_picture(slide, told.picture, draw)
        notes += [told.picture.answer, told.picture.mind, told.picture.caveat]
    slide.notes_slide.notes_text_frame.text = _said("\n".join(filter(None, [*notes, source])))


def _write(frame: Any, text: str, size: Any, bold: bool = False) -> None:
    """One paragraph, on the left, in letters of this size."""
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN

    frame.word_wrap, frame.vertical_anchor = True, MSO_ANCHOR.TOP
    frame.margin_left = frame.margin_right = 0
    paragraph = frame.paragraphs[0]
    paragraph.text, paragraph.alignment = _said(text), PP_ALIGN.LEFT
    paragraph.font.size, paragraph.font.bold = size, bold


def _slides_picture(slide: Any, panel: Panel, draw: Any) -> None:
    """The chart as large as there is room for, named by its answer."""
    from pptx.util import Inches

    wide, room = (round(PIXELS * side) for side in ROOM)
    image = io.BytesIO(draw(larger(panel.whole(), LARGER), wide, room).result()[1])
    shape = slide.shapes.add_picture(image, Inches(LEFT), Inches(2.3), height=Inches(ROOM[1]))
    shape._element.nvPicPr.cNvPr.set("descr", _said(f"{panel.question} {panel.answer}"))


def _said(text: str) -> str:
    """Text that XML can hold."""
    return visible(text).translate({0xFFFE: None, 0xFFFF: None})
