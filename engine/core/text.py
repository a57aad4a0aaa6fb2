"""Text that a model wrote or a user brought, made harmless to look at. The one place that says
which characters are not given out as they are, for pages, terminal, reports and files alike."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_JOINED = "\u0600-\u08ff\u0900-\u0dff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
"""Scripts whose spelling needs joiners, and emoji, which are put together with them."""
CONTROL = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
    f"|[\u200c\u200d](?![{_JOINED}])|(?<![{_JOINED}])[\u200c\u200d]"
)
"""Characters that steer a terminal, turn the direction of what follows or cannot be seen, and
halves of characters; line breaks and tabs are left alone."""
MARK = "\ufffd"
_FORMULA = re.compile(r"[\s\ufffd']*[=+\-@\t\r＝＋－＠]")
"""How a cell begins that a spreadsheet runs, also behind blanks, which some of them pass over."""


def visible(text: str) -> str:
    """The text with a mark in the place of every character that steers, turns or hides."""
    return CONTROL.sub(MARK, text)


def one_line(text: str) -> str:
    """The text without line breaks: a name that has some could write a line that looks like
    ours."""
    return " ".join(text.splitlines())


def words(text: str) -> tuple[str, ...]:
    """The words of a list that is written as a text."""
    return tuple(text.split())


def harmless(value: Any) -> Any:
    """The same lists, tuples and mappings with every text in them, names too, made `visible`."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {harmless(name): harmless(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(harmless, value))
    return value


def cell(value: Any) -> Any:
    """What a spreadsheet may be given in its place: a text made `visible`, with an apostrophe
    before what it would run as a formula; anything else as it is."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text


def json_text(value: Any, **options: Any) -> str:
    """JSON (`options` as for json.dumps) that reads back the same and holds none of these
    characters as they are: they are written as escapes."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=options.pop("allow_nan", False), **options
    )
    return escapes(text)


def escapes(text: str) -> str:
    """JSON, with escapes for what JSON allows as it is and a terminal would obey."""
    return CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], text)
