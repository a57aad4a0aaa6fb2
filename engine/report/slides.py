"""An audit in five steps as a PowerPoint file: slides with title, sentence, chart and notes."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from engine.core.text import visible
from engine.report import story
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.figures import figure_image, larger, one_browser
from engine.report.tracks import track_of
from engine.store.runs import Run

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
    with one_browser():
        for name in story.TITLES:
            told = story.step(run, choice, name)
            _slide(deck.slides.add_slide(deck.slide_layouts[5]), told, _source(run))
    written = io.BytesIO()
    deck.save(written)
    return written.getvalue()


def _slide(slide: Any, told: story.Step, source: str) -> None:
    from pptx.util import Inches, Pt

    title, width = slide.shapes.title, Inches(ROOM[0])
    title.left, title.top, title.width, title.height = Inches(LEFT), Inches(TOP), width, Inches(0.5)
    _write(title.text_frame, told.title, Pt(20))
    box = slide.shapes.add_textbox(Inches(LEFT), Inches(TOP + 0.55), width, Inches(1.2))
    _write(box.text_frame, told.sentence, Pt(28), bold=True)
    notes = [told.sentence, told.footnote]
    if told.picture is not None and told.picture.has_chart:
        _picture(slide, told.picture)
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


def _picture(slide: Any, panel: Panel) -> None:
    """The chart as large as there is room for, named by its answer."""
    from pptx.util import Inches

    wide, room = (round(PIXELS * side) for side in ROOM)
    figure = larger(panel.whole(), LARGER)
    drawn = replace(panel, figure=figure, parts=())
    image = io.BytesIO(figure_image(drawn, "png", wide, room))
    shape = slide.shapes.add_picture(image, Inches(LEFT), Inches(2.3), height=Inches(ROOM[1]))
    shape._element.nvPicPr.cNvPr.set("descr", _said(f"{panel.question} {panel.answer}"))


def _source(run: Run) -> str:
    return f"{track_of(run).about.capitalize()}. Audit {run.id} of {run.meta['model']['name']}."


def _said(text: str) -> str:
    """Text that XML can hold."""
    return visible(text).translate({0xFFFE: None, 0xFFFF: None})
