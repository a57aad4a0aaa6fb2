"""The form of an audit of tickets: arms are procedures with scores, columns are those of the
file."""

import pytest

from tests.pages.checks import html_of
from tests.pages.forms import asked, drawn, key

TEXTS = "text_classifiers"


def test_nothing_is_downloaded_to_draw_a_form(monkeypatch, tmp_path):
    at = drawn(TEXTS, monkeypatch, tmp_path)
    at.selectbox(key=key(TEXTS, "data")).set_value("glue:rte").run()
    assert asked(at)["request"]["axes"] == ["length"]


@pytest.fixture
def form_of(monkeypatch, tmp_path):
    """The form once a file with this content is named."""
    path = tmp_path / "mine.csv"

    def drawn_with(content):
        path.write_bytes(content)
        return drawn(TEXTS, monkeypatch, tmp_path, data=str(path))

    return drawn_with


def test_columns_of_a_file_are_asked_for_and_are_no_groups(form_of):
    rows = "".join(f"w{n} w{n + 1},{n % 2},{n % 3}\n" for n in range(60))
    request = asked(form_of(f"remark,verdict,people\n{rows}".encode()))["request"]
    assert request["data"].endswith("mine.csv") and {"text", "text_b", "target"} <= set(request)
    assert request["text_b"] == "" and request["text"] in ("remark", "verdict", "people")
    assert not {request["text"], request["target"]} & set(request["axes"])


def test_a_file_is_shown_as_soon_as_it_is_named(form_of):
    rows = "".join(f"w{n};1;f{n % 3}\n" for n in range(60))
    captions = form_of(f"text;label;sex\n{rows}".encode()).caption
    said = "\n".join(item.value for item in captions).replace("\\", "")
    assert "Rows: 60." in said and "text" not in said
    assert "label: 1 60" in said and "sex: f0 20, f1 20, f2 20" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"text,label\nw,1\nv,0,2\n", "It has 3 fields where the header has 2."),
        (b"text,label\n\xff,1\n", "Not UTF-8 text (byte 11, line 2)."),
    ],
)
def test_a_fault_of_a_file_stands_beside_its_field_at_once(form_of, content, said):
    assert said in html_of(form_of(content))
