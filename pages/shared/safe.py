"""The only place that shows text which a model wrote or a user brought.

It may be hostile (HTML, Markdown) or hurtful. It is escaped, and generated text reaches the browser
only when the reader asked for it: until then its place holds crosses of the same length, blurred.
"""

from __future__ import annotations

import base64
import contextlib
import html
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import streamlit as st

from engine.core import words
from engine.core.errors import PruneAuditError, RequestError
from engine.core.text import visible

PARTS = "\u2060"
"""Takes no room, and parts what stands beside it."""
_FOUND = re.compile(r"https?(?=://)|www(?=\.)|:(?=[\w+/-]+:)", re.IGNORECASE)
"""Before what Streamlit's Markdown would make a link, a symbol or a picture of."""


def escaped(text: object) -> str:
    """HTML that prints exactly this text. Control and direction-changing characters become a
    visible mark."""
    return html.escape(visible(str(text)), quote=True).replace("\n", "<br>")


def unbroken(text: object) -> str:
    """`escaped`, with numbers on one line with their percent sign."""
    return escaped(text).replace(" %", "\u00a0%")


def veil(text: str) -> str:
    """Crosses as long as the text, with its spaces, shown in its place until the reader asks for
    it."""
    return re.sub(r"\S", "x", text[:400])


def passage(text: str, label: str = "") -> None:
    """Text a user brought (a prompt, a name), as it is."""
    st.html(f'<div class="pa-passage">{_tag(label)}<span>{escaped(text)}</span></div>')


def generated(
    text: str, label: str, note: str, shown: bool, marked: tuple[int, int] | None = None
) -> None:
    """Text a model wrote, below a label and a note in our own words (for instance a judge's score).
    `marked`: the characters that stand out, from and to; where these are none, a sign stands there.
    """
    head = (
        f'<div class="pa-passage-head">{_tag(label)}<span'
        f' class="pa-note">{escaped(note)}</span></div>'
    )
    if shown:
        body = f'<div class="pa-generated">{_marked(text, marked) or "<em>(empty)</em>"}</div>'
    else:
        body = (
            '<div class="pa-generated"><span class="pa-sr">Hidden until asked for.</span>'
            f'<span class="pa-veil" aria-hidden="true">{_marked(veil(text), marked)}</span></div>'
        )
    st.html(f'<div class="pa-passage">{head}{body}</div>')


def _marked(text: str, marked: tuple[int, int] | None) -> str:
    """HTML of the text, one part of it marked."""
    if marked is None:
        return escaped(text)
    before, part, after = text[: marked[0]], text[slice(*marked)], text[marked[1] :]
    return (
        f"{escaped(before)}<mark"
        f' class="pa-mark">{escaped(part) or "&#8718;"}</mark>{escaped(after)}'
    )


def weighed(
    words: Sequence[str],
    values: Sequence[float],
    largest: float,
    colours: tuple[str, str],
    label: str,
    note: str,
) -> None:
    """Words a user brought, each on a ground as strong as its value: colours of values below zero
    (dashed below) and above (a solid line)."""
    shown = "".join(map(partial(_weighed, largest=largest, colours=colours), words, values))
    head = (
        f'<div class="pa-passage-head">{_tag(label)}<span'
        f' class="pa-note">{escaped(note)}</span></div>'
    )
    st.html(f'<div class="pa-passage">{head}<div class="pa-words">{shown}</div></div>')


def _weighed(word: str, value: float, largest: float, colours: tuple[str, str]) -> str:
    share = min(1.0, abs(value) / largest) if largest else 0.0
    colour, line = (colours[0], "dashed") if value < 0 else (colours[1], "solid")
    look = f"background: color-mix(in srgb, {colour} {60 * share:.0f}%, transparent)"
    if share > 0.25:
        look += f"; border-bottom: 2px {line} {colour}"
    return f'<span style="{look}" title="{value:+.3f}">{escaped(word)}</span> '


PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_PICTURE = 200_000
"""Bytes of a picture that is still shown in a gallery."""


@dataclass(frozen=True)
class Shot:
    """One picture of a gallery, with text in our words and the user's; `tone`: "good", "bad" or "".
    `maps`: the same picture with something laid over it, each with the model's name."""

    png: bytes | None
    title: str
    lines: tuple[str, ...]
    tone: str = ""
    maps: tuple[tuple[str, bytes], ...] = ()


def gallery(shots: Sequence[Shot]) -> None:
    """Small pictures with captions, loaded as they come into view. What is no PNG is not shown as
    one."""
    wide = " pa-wide" if any(shot.maps for shot in shots) else ""
    st.html(f'<div class="pa-gallery{wide}">{"".join(map(_shot, shots))}</div>')


def _shot(shot: Shot) -> str:
    body = _image(shot.png, "Test image") or '<div class="pa-nothing">no picture kept</div>'
    if shot.maps:
        # HTML of what is laid over the picture, with the model's name below.
        seen = "".join(
            f"<div>{_image(png, f'Where the {name} model looks')}<span"
            f' class="pa-note">{escaped(name)}</span></div>'
            for name, png in shot.maps
        )
        body = f'<div class="pa-maps">{body}{seen}</div>'
    tone = {"good": "pa-good", "bad": "pa-bad"}.get(shot.tone, "")
    lines = "".join(f"<div>{escaped(line)}</div>" for line in shot.lines)
    title = f'<div class="pa-shot-title {tone}">{escaped(shot.title)}</div>'
    return f'<figure class="pa-shot">{body}<figcaption>{title}{lines}</figcaption></figure>'


def _image(png: bytes | None, alt: str) -> str:
    """HTML of a picture; "" for what is no PNG, or too large."""
    if not isinstance(png, bytes) or not png.startswith(PNG) or len(png) > LARGEST_PICTURE:
        return ""
    data = base64.b64encode(png).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escaped(alt)}" loading="lazy">'


def _tag(label: str) -> str:
    return f'<span class="pa-tag">{escaped(label)}</span>' if label else ""


def plain(text: str) -> str:
    """Text that Markdown leaves alone: names are users', error messages quote what they typed.

    Addresses and names of pictures are found in text that is escaped too, so that something unseen
    parts them.
    """
    text = _FOUND.sub(lambda match: f"{match[0]}{PARTS}", visible(text)).replace("@", f"{PARTS}@")
    return "".join(
        f"\\{letter}" if letter in r"\`*_{}[]<>()#+-.!|~$:" else letter for letter in text
    )


def caption(*texts: str) -> None:
    """Each in small print as it stands, whoever wrote it; nothing of one that is empty."""
    for text in filter(None, texts):
        st.caption(plain(text))


def header(text: str) -> None:
    """A heading of a part of a page. Markdown is read in it."""
    st.header(text, anchor=False)


# Words of our own vocabulary inside sentences, explained where one points at them or comes to
# them by keyboard.


class Marker:
    """Marks up the sentences of one panel: the first time that one of the words with `meanings`
    stands there.

    Text is escaped before, and only our own words and their meanings become markup: a name of a
    user's that is such a word is at most explained.
    """

    def __init__(self, meanings: Mapping[str, str] | None = None) -> None:
        self.meanings = words.terms() if meanings is None else meanings
        self.told: set[str] = set()

    def marked(self, text: str) -> str:
        """HTML of a text: escaped, numbers on one line with their percent sign, words explained."""
        return _pattern(tuple(self.meanings)).sub(self._one, escaped(text)).replace(" %", "\u00a0%")

    def _one(self, found: re.Match[str]) -> str:
        word = found.group()
        meaning = _of(self.meanings, word)
        if meaning in self.told:
            return word
        self.told.add(meaning)
        tip = f'<span class="pa-tip" role="tooltip">{escaped(meaning)}</span>'
        return f'<span class="pa-term" tabindex="0">{word}{tip}</span>'


@lru_cache(maxsize=16)
def _pattern(known: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the words, the longest first, standing alone; never inside a character reference such
    as &lt;."""
    names = sorted((escaped(name) for name in known), key=len, reverse=True)
    return re.compile(rf"(?<![\w&#-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")


def _of(meanings: Mapping[str, str], word: str) -> str:
    return next(meaning for name, meaning in meanings.items() if escaped(name) == word)


def show_errors(texts: Iterable[str]) -> None:
    """What is wrong, one below the other."""
    for text in texts:
        st.error(plain(text), icon=":material/error:")


_log = logging.getLogger("pruneaudit")


@contextlib.contextmanager
def boundary() -> Iterator[None]:
    """Turns every exception into words. Tracebacks go to the log, never to the screen."""
    try:
        yield
    except PruneAuditError as error:
        show_errors(faults_of(error))
    except Exception:
        _log.exception("a page failed")
        show_errors(
            [
                "This part could not be drawn. Nothing was changed. The details are in the terminal"
                " where the app runs."
            ]
        )


def faults_of(error: PruneAuditError) -> list[str]:
    """What an error says, one text for each thing that is wrong."""
    told = error.faults if isinstance(error, RequestError) else [error]
    return [_KEPT.sub("", str(one)) for one in told]


_KEPT = re.compile(r"[^\s'\"]*/uploads/[0-9a-f]{16}/")
"""Where an upload is kept: its name says enough."""
