"""Text files."""

import pytest

from engine.core.errors import RequestError
from engine.data.texts.load import load_corpus


def test_a_corpus_keeps_its_text_and_names_the_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\ufeff" + "Once there was a small café. " * 20, encoding="utf-8")
    corpus = load_corpus(path)
    assert corpus.name == "text.txt" and corpus.text.startswith("Once") and len(corpus.digest) == 64


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"short", "too short"),
        (b"caf\xe9 " * 500, "UTF-8"),
        (b"a \0" * 500, "zero bytes"),
        (
            b'[{"text": "Once upon a time"},\n' + b'{"text": "there was"},\n' * 20 + b"{}]",
            "It is JSON",
        ),
        (b'{"text": "Once upon a time"}\n' * 20, "It is JSON"),
        (None, "no such file"),
    ],
)
def test_corpus_faults(tmp_path, content, said):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        load_corpus(path)


def test_lines_end_alike_whichever_system_wrote_them(tmp_path):
    """With the returns of Windows left in, the perplexity of a model of stories rose from 20 to
    994."""
    for name, end in (("one", "\n"), ("two", "\r\n"), ("three", "\r")):
        (tmp_path / name).write_bytes(("[Once] upon a time." + end).encode() * 20)
    found = [load_corpus(tmp_path / name) for name in ("one", "two", "three")]
    assert len({(one.text, one.digest) for one in found}) == 1 and "\r" not in found[0].text
