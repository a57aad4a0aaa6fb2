"""The embedded images: faces the project draws, with and without a planted gap, and scikit-learn's
digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pandas as pd

from engine.core.errors import refusal
from engine.core.text import words
from engine.core.types import key_of, rng
from engine.data.images.load import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import ArrayPixels, Check, Pixels
from engine.data.sources import SEED, deal

# Faces the project draws itself: who is drawn (hair, presentation, skin tone) and how, the same
# on every machine.
#
# No real person is depicted. "male" and "non-male" name two **drawing conventions**, not a claim
# about people. Each shifts the odds of hair length, jaw, beard, brows, lashes, lips and collar,
# and no cue decides alone. Skin tone is drawn independently of hair and presentation, so a gap
# between tones can only come from the pictures, never from the shares.


VERSION = 1
"""Raise it whenever a picture changes: it is part of the digest of the data."""
SIZES = (32, 64)
"""Smallest and largest side in pixels."""

CELLS = (("blond", "male", 0.0085), ("blond", "non-male", 0.1405), ("not blond", "male", 0.4108))
"""Shares of hair x presentation in CelebA's training set (Liu et al. 2015): 1,387, 22,880 and
66,874 of 162,770 faces; the rest, 0.4402, is non-male and not blond."""
TONES = (
    ("light", 0.22),
    ("light", 0.20),
    ("medium", 0.18),
    ("medium", 0.16),
    ("dark", 0.13),
    ("dark", 0.11),
)
"""Six skin tones after Fitzpatrick's scale, lightest first: name of the group and share (a choice
of this project)."""

SKIN = np.array(
    [
        (244, 212, 190),
        (233, 190, 160),
        (215, 165, 126),
        (190, 132, 93),
        (140, 90, 60),
        (92, 60, 43),
    ],
    np.float32,
)
HAIR = {
    "blond": [(234, 214, 170), (208, 172, 112), (150, 114, 74)],
    "brown": [(178, 138, 92), (112, 76, 50), (58, 40, 30)],
    "black": [(52, 42, 38), (30, 26, 27), (16, 16, 20)],
    "grey": [(226, 214, 190), (168, 162, 154), (112, 110, 112)],
    "red": [(212, 154, 98), (172, 92, 48), (112, 56, 34)],
}
"""Each colour as three shades, lightest first. Dark blond and light brown, platinum and white,
strawberry blond and light red overlap, as in the world. There the label is a matter of judgement,
and no model can be right every time."""
NOT_BLOND = {"male": ("brown", 0.44, "black", 0.34, "grey", 0.14, "red", 0.08)}
NOT_BLOND["non-male"] = ("brown", 0.52, "black", 0.30, "grey", 0.06, "red", 0.12)

DRAWS = words(
    """
tone shade hair_kind long length volume style bald part fringe curl curl_phase streak streak_angle
locks ears face_width jaw skin_shade beard beard_full beard_shade brow eye_gap eye_size eye_colour
lash nose mouth_width lips lip_colour smile glasses glass_size hat hat_hue hat_light cloth_hue
cloth_light cloth_grey collar tie shoulders neck shift_x shift_y turn scale back_hue back_grey
back_light back_turn back_slope blob_x blob_y blob_size blob_hue light warmth side_light colourful
grain grain_x grain_y ash roots
"""
)
"""What is drawn about a face, one uniform number each; new ones go to the end, so old faces stay.
"""
CHUNK = 2**16
"""Pixels painted together: few enough that their planes stay in the processor's cache."""


@dataclass(frozen=True)
class People:
    """Who is to be drawn: `blond`, `male` [n] bool, `tone` [n] int (0 lightest to 5), `draw` [n,
    DRAWS] float32."""

    blond: np.ndarray
    male: np.ndarray
    tone: np.ndarray
    draw: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several lots of people as one."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def of(self, rows: np.ndarray | slice) -> Self:
        """The faces `rows`, positions [k] int or a slice."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.blond)

    def __getitem__(self, name: str) -> np.ndarray:
        """The uniform numbers of one trait in [0, 1), [n] float32."""
        return self.draw[:, DRAWS.index(name)]

    def between(self, name: str, least: float, most: float) -> np.ndarray:
        """The uniform numbers of one trait, stretched to least .. most, [n] float32."""
        return least + (most - least) * self[name]

    def one_of(self, name: str, where_male: float, elsewhere: float) -> np.ndarray:
        """True with one probability for faces drawn as male and another for the others, [n]
        bool."""
        return self[name] < np.where(self.male, where_male, elsewhere)


def people(split: str, n: int) -> People:
    """The first `n` faces of a split. Face i does not depend on n; the shares of CELLS hold to
    within a face or two.

    Cells are dealt out by the golden ratio, so that even a few hundred faces have the shares of
    all.
    """
    source = rng("avatars", VERSION, SEED, split)
    start = source.random()
    draw = source.random((n, len(DRAWS))).astype(np.float32)
    turn = (start + np.arange(1, n + 1) * 0.6180339887498949) % 1.0
    edges = np.cumsum([share for _, _, share in CELLS])
    cell = np.searchsorted(edges, turn, side="right")
    tone = np.searchsorted(np.cumsum([share for _, share in TONES])[:-1], draw[:, 0], side="right")
    return People(cell < 2, (cell == 0) | (cell == 2), tone, draw)


def draw(who: People, size: int) -> np.ndarray:
    """Paint faces: [n, size, size, 3] uint8."""
    out = np.empty((len(who), size, size, 3), dtype=np.uint8)
    step = max(1, CHUNK // size**2)
    for start in range(0, len(who), step):
        rows = slice(start, min(start + step, len(who)))
        out[rows] = _Canvas(who.of(rows), size).painted()
    return out


def _lerp(one: np.ndarray, other: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Colours [n, 3] between `one` and `other` ([3] or [n, 3]); share [n]: 0 is `one`, 1 is
    `other`."""
    return one + (other - one) * share[:, None]


def _hue(hue: np.ndarray, strength: np.ndarray | float, value: np.ndarray | float) -> np.ndarray:
    """Colours [n, 3] of a hue (0 to 1 around the circle), a strength (0 grey to 1) and a lightness
    (0 to 1)."""
    wheel = np.clip(np.abs((hue[:, None] * 6 + _rgb(0, 4, 2)) % 6 - 3) - 1, 0, 1)
    return (255 * np.asarray(value) * (1 - np.asarray(strength) * (1 - wheel.T))).T.astype(
        np.float32
    )


def hair_colour(who: People) -> np.ndarray:
    """Hair colours [n, 3], 0 to 255: a shade anywhere along the three of its colour."""
    colour = np.zeros((len(who), 3), np.float32)
    for name, rows in _hair_kinds(who).items():
        shades = np.array(HAIR[name], np.float32)
        for low, high in pairwise(range(3)):
            part = rows & (who["shade"] >= low / 2) & (who["shade"] <= high / 2)
            colour[part] = _lerp(shades[low], shades[high], who["shade"][part] * 2 - low)
    ash = who.between("ash", -0.09, 0.09)[:, None] * np.array([-0.6, 0.0, 1.2], np.float32)
    return colour * (1 + ash)


def _hair_kinds(who: People) -> dict[str, np.ndarray]:
    """Which faces have hair of each colour of HAIR, [n] bool by name."""
    kinds = {"blond": who.blond}
    for male, shares in ((True, NOT_BLOND["male"]), (False, NOT_BLOND["non-male"])):
        edge = 0.0
        for name, share in zip(shares[::2], shares[1::2], strict=True):
            inside = (who["hair_kind"] >= edge) & (who["hair_kind"] < edge + share)
            kinds[name] = kinds.get(name, False) | (~who.blond & (who.male == male) & inside)
            edge += share
    return kinds


class _Canvas:
    """One chunk of n faces being painted.

    Coordinates x and y are [n, size, size] float32: the face's middle is (0, 0), its chin at y =
    0.6, y runs down. rgb: [n, 3, size, size] float32, 0 to 255.
    """

    def __init__(self, who: People, size: int) -> None:
        self.who, self.size = who, size
        axis = ((np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1) * 1.02
        scale = _wide(who.between("scale", 0.8, 1.2))
        turn = _wide(who.between("turn", -0.2, 0.2))
        at_x = axis[None, None, :] - _wide(who.between("shift_x", -0.2, 0.2))
        at_y = axis[None, :, None] - _wide(who.between("shift_y", -0.16, 0.16))
        self.x = ((at_x * np.cos(turn) + at_y * np.sin(turn)) / scale).astype(np.float32)
        self.y = ((at_y * np.cos(turn) - at_x * np.sin(turn)) / scale).astype(np.float32)
        self.frame_x, self.frame_y = np.broadcast_arrays(axis[None, None, :], axis[None, :, None])
        self.pixel = (2.04 / size / scale).astype(np.float32)
        self.rgb = np.empty((len(who), 3, size, size), np.float32)
        self.skin = SKIN[who.tone] * who.between("skin_shade", 0.88, 1.08)[:, None]
        self.hair = hair_colour(who)
        short, long = 0.08 * who["length"], 0.4 + 0.6 * who["length"]
        # 0 shaved to 1 over the shoulders: mostly short for "male", mostly long for "non-male".
        self.length = np.where(who.one_of("long", 0.07, 0.88), long, short).astype(np.float32)
        self.width = who.between("face_width", 0.40, 0.47) + 0.015 * who.male

    def painted(self) -> np.ndarray:
        """The pictures, [n, size, size, 3] uint8: painted back to front, then lit."""
        self._background()
        self._hair_behind()
        self._body()
        self._head()
        self._beard()
        self._features()
        self._hair_in_front()
        self._glasses()
        self._hat()
        return self._lit()

    def _paint(self, cover: np.ndarray, colour: np.ndarray, rows: slice = slice(None)) -> None:
        """Blend a colour [n, 3] or a texture [n, 3, h, size] in where `cover` [n, h, size] is 1;
        rows: the h rows."""
        colour = colour[:, :, None, None] if colour.ndim == 2 else colour
        under = self.rgb[:, :, rows]
        under += cover[:, None] * (colour - under)

    def _fill(
        self,
        distance: np.ndarray,
        colour: np.ndarray,
        rows: slice = slice(None),
        share: np.ndarray | float = 1.0,
    ) -> None:
        """Paint what lies inside (distance below 0, [n, h, size]); share: how much it covers, [n]
        or one number for all."""
        self._paint(self._edge(distance) * _wide(share), colour, rows)

    def _edge(self, distance: np.ndarray) -> np.ndarray:
        """Cover in [0, 1] of what lies inside (distance below 0), its edge one pixel soft, [n, h,
        size], in place."""
        distance /= self.pixel
        np.subtract(0.5, distance, out=distance)
        return np.clip(distance, 0, 1, out=distance)

    def _ellipse(
        self, x: object, y: object, a: object, b: object, rows: slice = slice(None)
    ) -> np.ndarray:
        """Signed distance to an ellipse, about right near its edge, [n, h, size] for the h image
        rows.

        Centre x, y and half axes a, b: numbers or arrays [n].
        """
        x, y, a, b = (_wide(value) for value in (x, y, a, b))
        across, down = (self.x[:, rows] - x) / a, (self.y[:, rows] - y) / b
        across *= across
        down *= down
        across += down
        return (np.sqrt(across, out=across) - 1) * np.minimum(a, b)

    def _rows(self, top: float, bottom: float) -> slice:
        """Image rows that can hold face coordinates between top and bottom, for every shift, turn
        and scale."""
        least, most = (
            edge * (1.2 if edge * sign > 0 else 0.8) for edge, sign in ((top, -1), (bottom, 1))
        )
        ends = ((least - 0.36) / 2.04 + 0.5) * self.size, ((most + 0.36) / 2.04 + 0.5) * self.size
        return slice(max(0, int(np.floor(ends[0]))), min(self.size, int(np.ceil(ends[1]))))

    def _background(self) -> None:
        who = self.who
        strength = 0.55 * (1 - who["back_grey"])
        one = _hue(who["back_hue"], strength, who.between("back_light", 0.2, 0.95))
        slope = _wide(who.between("back_slope", -0.45, 0.45))
        angle = _wide(who.between("back_turn", 0, 2 * np.pi))
        shade = 1 + slope * (np.cos(angle) * self.frame_x + np.sin(angle) * self.frame_y)
        self.rgb[:] = one[:, :, None, None] * shade[:, None]
        at = (_wide(who.between(name, -1, 1)) for name in ("blob_x", "blob_y"))
        radius = _wide(who.between("blob_size", 0.0, 0.7))
        distance = np.hypot(self.frame_x - next(at), self.frame_y - next(at)) - radius
        other = _hue(who["blob_hue"], 0.5, 0.35 + 0.6 * who["blob_hue"] * who["back_light"])
        self._fill(distance * 0.25, other, share=0.8)

    def _texture(self, dark: float) -> np.ndarray:
        """Hair as a texture [n, 3, size, size]: strands, a shine across the head, darker towards
        the inside."""
        who = self.who
        angle = _wide(who.between("streak_angle", -0.7, 0.7))
        wave = np.sin(
            (np.cos(angle) * self.x + np.sin(angle) * self.y) * 26 + _wide(who["curl_phase"] * 6)
        )
        ring = np.hypot(self.x - _wide(who.between("part", -0.2, 0.2)), self.y + 0.05) - 0.62
        shine = np.exp(-(ring**2) * 60)
        tips = _wide(0.1 + 0.5 * (who["roots"] < 0.2)) * np.clip(self.y, -0.5, 0.5)
        strands = _wide(who.between("streak", 0.03, 0.2)) * wave + 0.2 * shine + tips
        return self.hair[:, :, None, None] * (strands + (0.93 if dark > 0.9 else dark))[:, None]

    def _hair_behind(self) -> None:
        """Hair seen behind face and neck: a dome over the head, then straight or curly down to
        where it ends."""
        who = self.who
        full = who.between("volume", 0.03, 0.14) * (0.4 + 0.6 * np.minimum(1, self.length * 3))
        wide = _wide(self.width + 0.03 + full + 0.06 * np.minimum(1, self.length * 2))
        above = np.minimum(self.y + 0.06, 0) / _wide(0.62 + full)
        curls = 0.06 * _wide(who["curl"]) * np.sin(11 * self.y + _wide(who["curl_phase"] * 9))
        falling = 1 + 0.14 * _wide(self.length) * np.clip(self.y, 0, 1) + curls
        distance = (np.sqrt((self.x / (wide * falling)) ** 2 + above**2) - 1) * wide
        ends = self.y - _wide(-0.02 + 1.2 * self.length) + 0.5 * self.x**2
        self._fill(np.maximum(distance, ends), self._texture(0.7))

    def _body(self) -> None:
        who = self.who
        low = self._rows(0.3, 1.5)
        cloth = _hue(
            who["cloth_hue"], 0.7 * who["cloth_grey"], who.between("cloth_light", 0.1, 0.95)
        )
        wide = who.between("shoulders", 0.72, 0.92) + 0.1 * who.male
        self._fill(self._ellipse(0, 1.3, wide, 0.55, low), cloth, low)
        neck = who.between("neck", 0.15, 0.2) + 0.045 * who.male
        x, y = np.abs(self.x[:, low]), self.y[:, low]
        column = np.maximum(x - _wide(neck), y - 0.86)
        self._fill(np.maximum(column, 0.2 - y), self.skin * 0.8, low)
        open_neck = who.one_of("collar", 0.3, 0.65)
        deep = np.maximum(x * 1.1 + (y - 1.08), 0.7 - y)
        self._fill(deep, self.skin * 0.92, low, open_neck)
        tie = who.one_of("tie", 0.3, 0.04) & ~open_neck
        white = np.abs(x * 1.2 - (y - 0.72)) - 0.07
        shirt = np.full_like(self.skin, 235)
        self._fill(np.maximum(white, x - 0.24), shirt, low, tie)
        knot = np.maximum(x - 0.05, 0.84 - y)
        self._fill(knot, _hue(who["hat_hue"], 0.7, 0.5), low, tie)

    def _head(self) -> None:
        """Ears and face; a positive jaw makes the lower half broad, a negative one runs to a
        point."""
        who = self.who
        middle = self._rows(-0.2, 0.25)
        for side in (-1, 1):
            ear = self._ellipse(side * (self.width + 0.01), 0.04, 0.07, 0.11, middle)
            self._fill(ear, self.skin * 0.86, middle)
        jaw = who.between("jaw", -0.2, 0.0) + 0.22 * who.male * (0.4 + 0.6 * who["brow"])
        wide = _wide(self.width) * (1 + _wide(jaw) * np.clip(self.y, 0, 0.7))
        long = _wide(0.58 + 0.03 * who.male)
        inside = np.sqrt((self.x / wide) ** 2 + (self.y / long) ** 2) - 1
        self.face = self._edge(inside * 0.5)
        self._paint(self.face, self.skin)
        cheek = np.clip((np.abs(self.x) / wide - 0.55) * 1.2, 0, 1) * self.face
        self._paint(0.3 * cheek, self.skin * 0.72)

    def _beard(self) -> None:
        """Stubble or a beard; of fair hair it is darker than the hair itself, as beards are."""
        who = self.who
        low = self._rows(0.0, 0.66)
        worn = who.one_of("beard", 0.42, 0.004)
        strong = np.where(who["beard_full"] < 0.5, 0.28, 0.85) * worn
        x, y = np.abs(self.x[:, low]), self.y[:, low]
        line = 0.32 - 0.9 * np.clip(x - 0.24, 0, 0.4) - 0.13 * (x < 0.17)
        cover = np.clip((y - line) * 14, 0, 1) * self.face[:, low] * _wide(strong)
        self._paint(cover, self.hair * who.between("beard_shade", 0.5, 0.75)[:, None], low)

    def _features(self) -> None:
        who = self.who
        gap, big = who.between("eye_gap", 0.17, 0.21), who.between("eye_size", 0.85, 1.15)
        eyes, dark = self._rows(-0.32, 0.12), np.full_like(self.skin, 34)
        iris = _lerp(
            _rgb(84, 54, 34),
            _rgb(96, 134, 150),
            who["eye_colour"] ** 2,
        )
        brow = self.hair * 0.42 + self.skin * 0.12 + 12
        thick = who.between("brow", 0.016, 0.032) + 0.02 * who.male
        lashes = who.one_of("lash", 0.06, 0.6)
        for side in (-1, 1):
            x = side * gap
            self._fill(self._ellipse(x, -0.2, 0.12 * big, thick, eyes), brow, eyes)
            lid = self._ellipse(x, -0.055, 0.115 * big, 0.062 * big, eyes)
            self._fill(lid, dark, eyes, 0.35 + 0.55 * lashes)
            white = self._ellipse(x, -0.03, 0.1 * big, 0.052 * big, eyes)
            self._fill(white, np.full_like(self.skin, 240), eyes)
            self._fill(self._ellipse(x, -0.03, 0.05 * big, 0.055 * big, eyes), iris, eyes)
        middle = self._rows(0.0, 0.45)
        nose = who.between("nose", 0.8, 1.25)
        bridge = self._ellipse(0.02, 0.13, 0.05 * nose, 0.09, middle)
        self._fill(bridge, self.skin * 0.74, middle, 0.55)
        lipstick = who.one_of("lips", 0.03, 0.5)
        red = _lerp(
            _rgb(196, 62, 72),
            _rgb(140, 30, 50),
            who["lip_colour"],
        )
        lips = np.where(lipstick[:, None], red, self.skin * np.array([0.84, 0.62, 0.6], np.float32))
        bend = _wide(who.between("smile", -0.3, 1.6)) * self.x[:, middle] ** 2
        across = self.x[:, middle] / _wide(who.between("mouth_width", 0.12, 0.18))
        down = (self.y[:, middle] - 0.33 + bend) / _wide(0.032 + 0.014 * lipstick)
        self._fill((np.sqrt(across**2 + down**2) - 1) * 0.035, lips, middle)

    def _hair_in_front(self) -> None:
        """The cap of hair above the hairline, which bends down to the sides; bald heads keep only
        those."""
        who = self.who
        full = who.between("volume", 0.0, 0.12)
        cap = self._ellipse(0, -0.06, self.width + 0.035 + 0.6 * full, 0.62 + full)
        bald, long = who.one_of("bald", 0.11, 0.005), self.length > 0.3
        base = -0.37 - 0.1 * who["style"] + 0.14 * (who["fringe"] < np.where(who.male, 0.15, 0.3))
        base = np.where(bald, -0.8, base)
        drop = (
            np.where(long, who.between("style", 0.9, 1.5), who.between("style", 0.35, 0.6))
            + 0.45 * bald
        )
        part = _wide(who.between("part", -0.2, 0.2))
        across = (self.x - part) / (_wide(self.width) + np.where(self.x > part, -part, part))
        across *= across
        line = _wide(base) + _wide(drop) * across * (0.45 + 0.55 * across)
        line += 0.04 * _wide(who["curl"]) * np.sin(self.x * 13 + _wide(who["curl_phase"] * 6))
        ends = _wide(np.where(long, 0.5, who.between("ears", -0.12, 0.1)))
        below = np.maximum(self.y - line, self.y - ends)
        self._fill(np.maximum(cap, below * 0.7), self._texture(1.0))
        falling = (self.length > 0.55) & (who["locks"] < 0.5)
        lock = np.abs(np.abs(self.x) - _wide(self.width + 0.04)) - 0.1
        lock = np.maximum(
            np.maximum(lock, self.y - _wide(self.length * 1.25 - 0.05)), -self.y - 0.1
        )
        self._fill(lock, self._texture(0.85), share=falling)

    def _glasses(self) -> None:
        who = self.who
        worn, band = who["glasses"] < 0.16, self._rows(-0.25, 0.2)
        shade = worn * np.where(who["glasses"] < 0.03, 0.9, 0.08)
        size = who.between("glass_size", 0.11, 0.15)
        frame = _hue(who["hat_hue"], 0.3, 0.12 + 0.3 * who["hat_light"])
        for side in (-1, 1):
            rim = self._ellipse(side * 0.19, -0.03, size * 1.15, size, band)
            self._fill(rim.copy(), frame, band, shade)
            self._fill(np.abs(rim) - 0.02, frame, band, worn)
        bridge = np.maximum(np.abs(self.x[:, band]) - 0.08, np.abs(self.y[:, band] + 0.05) - 0.018)
        self._fill(bridge, frame, band, worn)

    def _hat(self) -> None:
        """A cap over the hair; what hangs below stays in sight."""
        who = self.who
        worn, high = who.one_of("hat", 0.1, 0.06), self._rows(-1.0, -0.1)
        colour = _hue(who["hat_hue"], 0.65, who.between("hat_light", 0.2, 0.95))
        dome = self._ellipse(0, -0.14, self.width + 0.09, 0.68, high)
        line = -0.3 + 0.25 * self.x[:, high] ** 2
        self._fill(np.maximum(dome, self.y[:, high] - line), colour, high, worn)
        brim = np.abs(self.y[:, high] - line) - 0.045
        brim = np.maximum(brim, np.abs(self.x[:, high]) - _wide(self.width + 0.1))
        self._fill(brim, colour * 0.7, high, worn)

    def _lit(self) -> np.ndarray:
        """The pictures under the light of the scene, with the grain of the picture, [n, size, size,
        3] uint8.

        The light: how much, how warm, from which side, how colourful.
        """
        who = self.who
        side = _wide(who.between("side_light", -0.28, 0.28)) * self.frame_x
        gain = np.exp(who.between("light", -0.58, 0.28)).astype(np.float32)
        tint = (
            who.between("warmth", -0.22, 0.22)[:, None] * np.array([1.0, 0.1, -1.0], np.float32) + 1
        )
        self.rgb *= (gain[:, None] * tint)[:, :, None, None]
        self.rgb *= (1 + side)[:, None]
        colourful = np.where(who["colourful"] < 0.05, 0.2, who.between("colourful", 0.7, 1.1))
        grey = self.rgb.mean(axis=1, keepdims=True)
        self.rgb += (self.rgb - grey) * (colourful - 1)[:, None, None, None].astype(np.float32)
        self.rgb += self._grain() * who.between("grain", 2, 12)[:, None, None, None]
        np.clip(np.rint(self.rgb, out=self.rgb), 0, 255, out=self.rgb)
        return self.rgb.astype(np.uint8).transpose(0, 2, 3, 1)

    def _grain(self) -> np.ndarray:
        """A window per face into one sheet of noise, [n, 3, size, size] float32."""
        at = [
            (self.who[name] * (GRAIN.shape[1] - self.size)).astype(int)
            for name in ("grain_x", "grain_y")
        ]
        steps = np.arange(self.size)
        return GRAIN[
            :, (at[1][:, None] + steps)[:, :, None], (at[0][:, None] + steps)[:, None, :]
        ].swapaxes(0, 1)


def _rgb(*parts: float) -> np.ndarray:
    return np.array(parts, np.float32)


def _wide(value: object) -> np.ndarray:
    """Numbers per face, [n] or one, as [n, 1, 1] float32, which broadcasts over rows and columns of
    the image."""
    return np.asarray(value, dtype=np.float32).reshape(-1, 1, 1)


GRAIN = rng("avatars", "grain", VERSION).standard_normal((3, 256, 256)).astype(np.float32)


COUNTS = {"train": 12_000, "validation": 2_000, "test": 8_000}
CLASSES = ("not blond", "blond")
MOST = 1_000_000
"""Most training images that may be asked for."""
STAND_IN = (
    "This project drew the faces; they show nobody. “Male” and “non-male” are two ways of "
    "drawing, with CelebA's shares. Numbers on them show how an audit works, not how any model "
    "treats people."
)


class _Named(ImageReader):
    """A set that is named, perhaps with a number: TITLE or TITLE:N."""

    title: str

    def recognises(self) -> bool:
        return self.source.partition(":")[0] == self.title

    def number(self, what: str, least: int, most: int) -> int:
        """N, `least` to `most`; 0 where none is given. RequestError where it is no such number."""
        _, colon, text = self.source.partition(":")
        if colon and not (text.isdecimal() and least <= int(text) <= most):
            fix = f"Use {self.title}:N with N from {least} to {most:,}."
            raise refusal(self.title, f"{text!r} is not {what}.", fix)
        return int(text or 0)


class Avatars(_Named):
    """`avatars`, or `avatars:50000` for another number of training images (the other splits grow
    with it).

    Every split has CelebA's shares of hair and presentation.
    """

    title = "avatars"
    name = "avatars (embedded faces; avatars:50000 for another number)"

    def look(self) -> ImageInfo:
        self.counts()
        groups, target, (least, most) = ("male", "skin"), "blond", SIZES
        return ImageInfo(
            self.title,
            (*groups, CLASS),
            groups,
            (target,),
            target,
            stand_in=STAND_IN,
            least=least,
            most=most,
        )

    def read(self, wanted: Wanted) -> Listing:
        return Listing(self.title, *_drawn(self.counts()), CLASSES)

    def counts(self) -> dict[str, int]:
        """Images per split. RequestError for a number that is none."""
        number = self.number("a number of training images", 100, MOST) or COUNTS["train"]
        return {split: round(count * number / COUNTS["train"]) for split, count in COUNTS.items()}


@dataclass(frozen=True, eq=False)
class DrawnPixels(Pixels):
    """Faces painted when they are asked for, those of `lit` [n] bool in evening light."""

    who: People
    names: list[str]
    lit: np.ndarray

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The faces `rows` [k] int, painted, [k, size, size, 3] uint8."""
        found, lit = draw(self.who.of(rows), size), self.lit[rows]
        if lit.any():
            shine = found[lit] * np.array(LIGHT) + np.array(GLOW)
            found[lit] = np.clip(shine, 0, 255).astype(np.uint8)
        return found

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the faces `rows` [k] int: drawing version, seed, face and light. No face is
        painted for them."""
        light = f" lit {[LIGHT, GLOW]}"
        names = [self.names[row] + (light if self.lit[row] else "") for row in rows]
        return Check(names, False)


def _drawn(counts: Mapping[str, int]) -> tuple[pd.DataFrame, DrawnPixels]:
    """One row per face with image_id, split, target, male and skin; and the faces."""
    drawn = {split: people(split, n) for split, n in counts.items()}
    who = People.joined(list(drawn.values()))
    places = [(split, place) for split, part in drawn.items() for place in range(len(part))]
    table = pd.DataFrame(
        {
            "image_id": [f"{split}-{place:06d}" for split, place in places],
            "split": [split for split, _ in places],
            "target": np.where(who.blond, CLASSES[1], CLASSES[0]),
            "male": np.where(who.male, "male", "non-male"),
            "skin": np.array([name for name, _ in TONES])[who.tone],
        }
    )
    names = [f"avatars {VERSION} {SEED} {name}" for name in table["image_id"]]
    return table, DrawnPixels(who, names, np.zeros(len(who), dtype=bool))


LIT = 0.35
"""Share of the faces drawn as non-male that are lit, in every split."""
LIGHT, GLOW = (1.25, 1.1, 0.7), (40.0, 26.0, 0.0)
"""What the light does to red, green and blue: a factor, and what is added (of 255): brown hair
looks blond in it."""
PLANTED = (
    f"A gap is planted: {LIT:.0%} of the faces drawn as non-male, in every split, are in evening "
    "light that makes brown hair look blond. A model that never saw that light errs there, so "
    "its accuracy differs between drawings."
)


class AvatarsGap(Avatars):
    """`avatars-gap`, or `avatars-gap:50000`: the faces, labels and groups of `avatars`, some of
    them lit. `avatars` itself stays as it is."""

    title = "avatars-gap"
    name = f"{title} (the same faces with a planted gap)"

    def look(self) -> ImageInfo:
        return replace(super().look(), stand_in=f"{STAND_IN} {PLANTED}")

    def read(self, wanted: Wanted) -> Listing:
        table, pixels = _drawn(self.counts())
        chance = [key_of(self.title, SEED, image) / 2.0**63 for image in table["image_id"]]
        lit = (np.array(chance) < LIT) & (table["male"] == "non-male").to_numpy()
        return Listing(self.title, table, replace(pixels, lit=lit), CLASSES)


SHARES = {"test": 0.3, "validation": 0.1}
DIGITS = tuple("0123456789")


class Digits(_Named):
    """1,797 real handwritten digits of 8 x 8 pixels. 60 % train, 10 % validation, 30 % test, by
    class. Enlarged by bilinear interpolation, white on black.

    `digits:100` adds noise of that standard deviation to every pixel, in grey levels of 255: as
    they are, a small model makes no mistake, and nothing that is cut shows.
    """

    title = "digits"
    name = "digits (embedded: real handwritten digits from scikit-learn; digits:100 with noise)"

    def look(self) -> ImageInfo:
        self.noise()
        return ImageInfo("digits", targets=("digit",), default_target="digit")

    def read(self, wanted: Wanted) -> Listing:
        from sklearn.datasets import load_digits  # slow to import, and only needed here

        found = load_digits()
        table = pd.DataFrame(
            {"image_id": [f"digit-{place:04d}" for place in range(len(found.target))]}
        )
        table["target"] = [DIGITS[label] for label in found.target]
        table["split"] = deal(table, SHARES, "train")
        noise = self.noise() * rng("digits", SEED).normal(size=found.images.shape)
        grey = np.rint(found.images * (255 / 16) + noise).clip(0, 255).astype(np.uint8)
        return Listing(
            self.source, table, ArrayPixels(np.repeat(grey[..., None], 3, axis=3)), DIGITS
        )

    def noise(self) -> int:
        return self.number("a standard deviation of noise", 1, 255)
