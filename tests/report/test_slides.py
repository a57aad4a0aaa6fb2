"""Slides as a PowerPoint file: what the page Present says, charts as pictures, and notes."""

import io

import pytest

from engine.audit.tracks import tracks
from engine.core.errors import PruneAuditError
from engine.report import figures, story
from engine.report.contents import default_choice
from engine.report.story import slides
from tests.made_up import small

pptx = pytest.importorskip("pptx")


def test_slides_say_what_present_says_each_with_its_chart_and_notes(tmp_path, monkeypatch):
    run = small(next(iter(tracks())), tmp_path, "small-run")
    choice = default_choice(run)
    if figures.find_browser() is None:
        with pytest.raises(PruneAuditError, match="Chromium"):
            slides(run, choice)
        pytest.skip("no browser draws the charts")
    deck = pptx.Presentation(io.BytesIO(slides(run, choice)))
    assert deck.slide_width / deck.slide_height == pytest.approx(16 / 9, abs=0.001)
    for slide, name in zip(deck.slides, story.TITLES, strict=True):
        told = story.step(run, choice, name)
        texts = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
        assert texts == [told.title, told.sentence]
        pictures = [shape for shape in slide.shapes if shape.shape_type == 13]
        assert len(pictures) == bool(told.picture and told.picture.has_chart)
        for shape in slide.shapes:
            assert shape.left >= 0 and shape.left + shape.width <= deck.slide_width
            assert shape.top >= 0 and shape.top + shape.height <= deck.slide_height
        for picture in pictures:
            assert picture.image.blob.startswith(b"\x89PNG")
        notes = slide.notes_slide.notes_text_frame.text
        assert told.footnote in notes and run.id in notes
