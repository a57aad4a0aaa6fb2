"""Words of our own vocabulary inside sentences, explained where one points at them or comes to them
by keyboard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from engine.core import words
from pages.shared.safe import escaped


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
