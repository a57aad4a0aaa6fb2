"""Text is data on every page: whatever a user or a model named or wrote, nothing that steers or
hides reaches a browser, and no address becomes a link."""

import json
import re

import pandas as pd
import pytest
from google.protobuf.message import Message
from streamlit.testing.v1 import AppTest

from engine.core import words
from engine.core.text import CONTROL
from engine.report.bundle import for_screens
from engine.report.schema import group_or
from engine.report.tracks import tracks
from pages.shared.safe import PARTS, Marker, plain
from tests import made_up
from tests.pages.checks import assert_calm, html_of, opened, own_pages, use_store

LINKED = re.compile(r"https?://|www\.\w|\w@|:smile:")
"""What Streamlit's Markdown makes links or pictures of, escaped or not."""
MARKED = "<b>x"
"""Of MARKUP; what draws HTML must not be given it."""
MARKDOWN = ("title", "header", "subheader", "markdown", "caption")


def texts_of(message):
    """Every text in an element, keys and ids of ours too."""
    for field, value in message.ListFields():
        for one in value if field.is_repeated else [value]:
            if field.type == field.TYPE_STRING:
                yield one
            elif field.type == field.TYPE_MESSAGE and isinstance(one, Message):
                yield from texts_of(one)


def labels_of(message):
    """What stands at a widget as Markdown: its label, its help, options that are buttons."""
    options = (
        [option.content for option in message.options]
        if message.DESCRIPTOR.name == "ButtonGroup"
        else []
    )
    return [
        text
        for text in (getattr(message, "label", ""), getattr(message, "help", ""), *options)
        if text
    ]


def specs_of(message):
    return [json.loads(message.spec)] if hasattr(message, "spec") else []


def texts_in(value):
    """Every text in JSON, names of fields too."""
    if isinstance(value, str):
        yield value
    for one in (
        value
        if isinstance(value, list)
        else [*value, *value.values()]
        if isinstance(value, dict)
        else ()
    ):
        yield from texts_in(one)


CASES = [(name, page) for name, track in tracks().items() for page in own_pages(track)]


@pytest.mark.parametrize(("name", "page"), CASES)
def test_no_page_gives_out_what_steers_or_hides(hostile_store, monkeypatch, name, page):
    """A field for a prompt holds it exactly, since that is what will be asked."""
    use_store(hostile_store.root, monkeypatch)
    at = opened(page, run=f"{name}-run")
    assert_calm(at)
    found = [
        node
        for node in at._tree
        if getattr(node, "proto", None) is not None and node.type != "text_area"
    ]
    assert found
    for node in found:
        drawn = [text for chart in specs_of(node.proto) for text in texts_in(chart)]
        texts = [*texts_of(node.proto), *drawn]
        assert [ascii(text) for text in texts if CONTROL.search(text.replace(PARTS, ""))] == []
        assert [text for text in drawn if MARKED in text] == []
    assert MARKED not in html_of(at)
    for kind in MARKDOWN:
        said = [item.value for item in at.get(kind)]
        assert [one for one in said if LINKED.search(one.replace("\\", ""))] == []
        assert [one for one in said if made_up.MARKUP in one] == []
    labels = [text for node in found for text in labels_of(node.proto)]
    assert labels and [text for text in labels if LINKED.search(text.replace("\\", ""))] == []


def test_tables_and_names_in_markdown():
    name = f"{made_up.MARKUP}{made_up.STEERING}"
    assert not LINKED.search(plain(name).replace("\\", "")) and not CONTROL.search(
        plain(name).replace(PARTS, "")
    )
    table = for_screens(pd.DataFrame({name: [name, "harmless"], "n": [1.5, 2.0]}))
    assert not CONTROL.search("".join([*table.columns, *table.iloc[:, 0]])) and table[
        "n"
    ].tolist() == [1.5, 2.0]


# Names that users give are never taken for a name of the program's own.


def of_changed_items():
    import pandas as pd

    from pages.tabs import changed

    changed._filters(pd.DataFrame({"group": ["(all)", "female"], "kind": ["wrong", "right"]}), 8)


def test_a_subgroup_of_any_name_is_no_choice_of_all_subgroups():
    at = AppTest.from_function(of_changed_items).run()
    assert not at.exception
    assert at.selectbox[0].options == ["All subgroups", "(all)", "Female"]


def test_a_group_that_is_called_as_all_items_are_stands_in_quotes():
    said = group_or("all")
    assert [said(name) for name in ("", "all", "All", "age")] == ["all", "“all”", "“All”", "age"]


# Words explained where one points at them: ours only, once each, and never a way for a name to
# become markup.


KNOWN = {
    "null band": "Where chance puts it <by & large>.",
    "P&F": "Prune, then fair.",
    "PW": "a loss",
    "PW loss": "a loss",
}


@pytest.fixture
def marker():
    return Marker(KNOWN)


def test_the_first_time_a_word_stands_there_it_can_be_reached_by_keyboard(marker):
    html = marker.marked("Inside its null band; the null band is wide.")
    assert html.count('tabindex="0"') == 1 and html.index("pa-term") < html.index(
        "; the null band is wide."
    )
    assert "Where chance puts it &lt;by &amp; large&gt;." in html
    assert "pa-term" not in marker.marked("The null band again."), (
        "once in all sentences of a panel"
    )


def test_words_of_one_meaning_are_explained_once_and_the_longest_is_found(marker):
    html = marker.marked("The PW loss, PW for short, and P&F.")
    assert html.count("pa-term") == 2 and ">PW loss<" in html and ">P&amp;F<" in html


def test_names_stay_text(marker):
    html = marker.marked('<b onclick="x">null band</b> &lt; PW-x')
    assert "<b" not in html and '"x"' not in html and "&amp;lt;" in html
    assert re.findall(r"<(\w+)", html) == [
        "span",
        "span",
    ], "our own two, and only where our word stands alone"


@pytest.mark.parametrize("track", tracks())
def test_every_track_has_words_of_its_own_that_say_what_they_mean(track):
    own = words.terms(track)
    assert len(own) > len(words.terms()) and all(
        len(text) > 15 and text[-1] in ".!?" for text in own.values()
    )
