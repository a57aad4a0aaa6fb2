"""The frozen dataclasses that every stage hands to the next: masks, prompts, decoding, settings,
progress."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from engine.core.errors import Fault, unknown

Values: TypeAlias = Mapping[str, Any]
"""Values by name: a row of a table, the fields of a request, an object of JSON."""

Reading = Literal["group_means", "subgroup_mean_of_means", "paired_prompts"]
Span = Literal["continuation", "prompt+continuation", "prompt"]
Kind = Literal[
    "text",
    "path",
    "source",
    "integer",
    "number",
    "flag",
    "choice",
    "names",
    "product",
    "numbers",
    "settings",
    "settings per method",
    "pairs",
    "changes",
]
"""Of a value that is asked for; of a method's settings text, integer, number, flag or choice. path:
a file or folder, None for the embedded one. source: a name or a path. product: names made of
several lists. settings: of one method.
pairs: NAME=VALUE. changes: things by name, each with its settings."""

READINGS = ("group_means", "subgroup_mean_of_means", "paired_prompts")
ABLATIONS = ("zero", "mean")
SPANS = ("continuation", "prompt+continuation", "prompt")
AXES = (
    "gender_and_sex",
    "race_ethnicity",
    "religion",
    "sexual_orientation",
    "nationality",
)
POOLED = -1
"""Value of a `seed` column where all seeds were pooled."""


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a JSON-able value, keys sorted. Never of arrays or printed objects."""
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class HeadMask:
    """Which attention heads are cut. A selection as data: layers and heads are 0-based.

    Example: HeadMask(2, 4, ((0, 1), (1, 3))) cuts head 1 of layer 0 and head 3 of layer 1 of a 2x4
    model.
    """

    n_layers: int
    n_heads: int
    cut: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted({(int(layer), int(head)) for layer, head in self.cut}))
        if len(ordered) != len(self.cut):
            raise ValueError("a head is named twice in the mask")
        for layer, head in ordered:
            if not (0 <= layer < self.n_layers and 0 <= head < self.n_heads):
                raise ValueError(
                    f"head {head} of layer {layer} is outside {self.n_layers} layers x"
                    f" {self.n_heads} heads"
                )
        object.__setattr__(self, "cut", ordered)

    @classmethod
    def from_units(cls, n_layers: int, n_heads: int, units: Iterable[int]) -> HeadMask:
        """From flat 0-based indices, unit = layer * n_heads + head."""
        return cls(
            n_layers, n_heads, tuple((int(unit) // n_heads, int(unit) % n_heads) for unit in units)
        )

    @property
    def units(self) -> tuple[int, ...]:
        """Flat 0-based indices of the heads that are cut, ascending."""
        return tuple(layer * self.n_heads + head for layer, head in self.cut)

    @property
    def total(self) -> int:
        """Heads of the whole model."""
        return self.n_layers * self.n_heads

    @property
    def sparsity(self) -> float:
        """Share of heads cut, as realised."""
        return len(self.cut) / self.total

    def cut_in(self, layer: int) -> tuple[int, ...]:
        """Heads cut in one layer."""
        return tuple(head for at, head in self.cut if at == layer)

    def keep(self) -> np.ndarray:
        """1.0 where a head stays, 0.0 where it is cut; [layers, heads] float32."""
        gates = np.ones((self.n_layers, self.n_heads), dtype=np.float32)
        for layer, head in self.cut:
            gates[layer, head] = 0.0
        return gates

    @property
    def digest(self) -> str:
        return digest_of([self.n_layers, self.n_heads, [list(pair) for pair in self.cut]])


@dataclass(frozen=True)
class FilterMask:
    """Which filters of a CNN are cut. A group is what must be cut together, named by its first
    convolution.

    Example: FilterMask((("conv1", 4), ("layer1.0.conv1", 4)), (("conv1", (0, 3)),)) cuts filters 0
    and 3 of conv1 and all that residual sums or depthwise convolutions tie to them. `widths` has
    (group, filters) of every group in the order of the network; flat units count through the groups
    in that order.
    """

    widths: tuple[tuple[str, int], ...]
    cut: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        known = dict(self.widths)
        ordered = {}
        for group, indices in self.cut:
            found = tuple(sorted({int(index) for index in indices}))
            if group not in known:
                raise ValueError(f"the mask names a group {group!r} that is not among the widths")
            if len(found) != len(indices) or group in ordered:
                raise ValueError(f"a filter of {group} is named twice in the mask")
            if found and not (found[0] >= 0 and found[-1] < known[group]):
                raise ValueError(f"a filter of {group} is outside its {known[group]} filters")
            ordered[group] = found
        kept = tuple((group, ordered[group]) for group, _ in self.widths if ordered.get(group))
        object.__setattr__(self, "cut", kept)

    @classmethod
    def from_keep(cls, widths: tuple[tuple[str, int], ...], keep: np.ndarray) -> FilterMask:
        """From one truth value per flat unit, [units] bool: True stays."""
        cut, start = [], 0
        for group, width in widths:
            gone = np.flatnonzero(~np.asarray(keep[start : start + width], dtype=bool))
            cut.append((group, tuple(int(index) for index in gone)))
            start += width
        return cls(widths, tuple(cut))

    @property
    def total(self) -> int:
        """Filters of the whole model that can be cut; groups count once."""
        return sum(width for _, width in self.widths)

    @property
    def n_cut(self) -> int:
        """Filters cut."""
        return sum(len(indices) for _, indices in self.cut)

    @property
    def sparsity(self) -> float:
        """Share of filters cut, as realised; groups count once."""
        return self.n_cut / self.total

    def keep(self) -> np.ndarray:
        """True where a filter stays, [units] bool."""
        gone = dict(self.cut)
        return np.concatenate(
            [~np.isin(np.arange(width), gone.get(group, ())) for group, width in self.widths]
        )

    def to_dict(self) -> dict[str, list[int]]:
        """JSON-able: group -> indices cut; groups that stay whole are left out."""
        return {group: list(indices) for group, indices in self.cut}

    @property
    def digest(self) -> str:
        return digest_of([[list(pair) for pair in self.widths], self.to_dict()])


@dataclass(frozen=True)
class PromptSet:
    """Prompts about subgroups. `table` columns: prompt_id, axis, subgroup, text, template,
    descriptor (all str).

    prompt_id is unique and does not depend on row order; template and descriptor name the clusters
    used by intervals and by the null band. `notes` are sentences the screen must show. `own_split`:
    the source says itself which prompts are for validation and which for test (a column `split`),
    so that nothing is drawn.
    """

    name: str
    table: pd.DataFrame
    digest: str
    notes: tuple[str, ...] = ()
    own_split: bool = False


@dataclass(frozen=True)
class Corpus:
    """Plain text for perplexity. `validation`: text of its own for scores and γ; None: the first
    part of `text`."""

    name: str
    text: str
    digest: str
    validation: str | None = None


@dataclass(frozen=True)
class Decoding:
    """How continuations are drawn. Lengths in tokens; top_k = 0 and top_p = 1 mean off (pure
    sampling)."""

    max_new_tokens: int = 40
    max_prompt_tokens: int = 22
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @classmethod
    def published(cls) -> Decoding:
        """What the FASP code really did: transformers' implicit top_k = 50."""
        return cls(top_k=50)


@dataclass(frozen=True)
class Window:
    """Sliding window of the perplexity, in tokens. None = min(1024, n_positions), and half of that
    as stride.

    published=True reproduces the FASP code: windows of n_positions / 4 tokens at every 512th, and
    their means averaged.
    """

    length: int | None = None
    stride: int | None = None
    published: bool = False


@dataclass(frozen=True)
class Setting:
    """One declared setting of a method; the screen draws its widget from this and never names the
    method."""

    name: str
    kind: Kind
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    label: str = ""
    """The name the screen shows; `name` itself where this is empty."""
    technical: bool = False
    """Whether it changes no number, so that forms do not ask for it."""
    above: float | None = None
    below: float | None = None
    """Bounds that are not allowed themselves."""

    @property
    def names(self) -> tuple[str, ...]:
        """The values allowed; none where it takes any."""
        return self.choices

    def allows(self, value: Any) -> bool:
        """Whether a value, or each part of a list of numbers, is of this kind and in range."""
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "choice":
            return value in self.names or not self.names
        if self.kind == "text":
            return isinstance(value, str)
        kinds = (int,) if self.kind == "integer" else (int, float)
        return (
            isinstance(value, kinds)
            and not isinstance(value, bool)
            and -math.inf < value < math.inf
            and (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )

    def allowed(self) -> str:
        """What it allows, in words."""
        if self.kind == "choice":
            return f"one of {', '.join(self.names)}"
        if self.kind in ("flag", "text"):
            return "true or false" if self.kind == "flag" else "a text"
        one = {"integer": "a whole number", "numbers": "numbers"}.get(self.kind, "a number")
        is_above, has_low = self.above is not None, self.minimum is not None
        bounds = {
            "from": self.minimum,
            "above": self.above,
            "and up to" if is_above else "to": self.maximum,
            "and below" if is_above else "to below" if has_low else "below": self.below,
        }
        said = (f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        return " ".join([one, *said])


def setting_faults(
    declared: Sequence[Setting], given: Values, where: str = "setting"
) -> list[Fault]:
    """Settings that are unknown, of the wrong kind or out of range."""
    known = {setting.name: setting for setting in declared}
    faults = []
    for name, value in given.items():
        if name not in known:
            faults.append(unknown(where, name, known))
        elif not known[name].allows(value):
            what, fix = f"{value!r} is not allowed.", f"Give {known[name].allowed()}."
            faults.append(Fault(f"{where}, {name}", what, fix))
    return faults


@dataclass(frozen=True)
class Event:
    """Progress of long work. `done` and `total` count work units; `eta` is seconds left, None when
    unknown."""

    phase: str
    done: int
    total: int
    what: str = ""
    eta: float | None = None
    note: str = ""
    """A sentence to keep on screen, such as the prediction."""


@dataclass(frozen=True)
class Hooks:
    """How long work reports to the program that started it. report and check are called at least
    once per batch."""

    report: Callable[[Event], None] = field(default=lambda event: None)
    check: Callable[[], None] = field(default=lambda: None)
    """Raises `Cancelled` when the user asked to stop."""
    point: Callable[[Mapping[str, Any]], None] = field(default=lambda row: None)
    """Takes a row of a training curve as soon as it is known."""
    inside: Callable[[float], None] = field(default=lambda share: None)
    """Hears how much is done of the very call that was given these hooks, 0 to 1."""

    def within(self, start: float, width: float) -> Hooks:
        """For a part of the call: it begins where the share `start` is done, and is `width` of it
        all."""
        return replace(self, inside=lambda share: self.inside(start + width * share))


# Ids of levels, and randomness that does not depend on batch size, order or device.
#
# Every prompt owns a stream. A number is a pure function of (key, step, token). So a variant of a
# model that meets the same prompt draws the same numbers as the dense model (common random
# numbers). Levels (how much is cut: a sparsity, a speedup, a strength, a γ) are told apart by an
# id, never compared as floats.


def key_of(*parts: object) -> int:
    """A 63-bit key from any printable parts; the same on every machine and Python version."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream_keys(seed: int, prompt_ids: Sequence[str]) -> np.ndarray:
    """One stream key per prompt, [prompts] int64."""
    return np.array([key_of("prompt", seed, prompt_id) for prompt_id in prompt_ids], dtype=np.int64)


def rng(*parts: object) -> np.random.Generator:
    """A numpy generator keyed by its purpose, e.g. rng("bootstrap", seed, axis)."""
    return np.random.Generator(np.random.Philox(key=key_of(*parts)))


MILLION = 1_000_000
ROUNDING = 1e-9
"""Products that are whole numbers but for their last digits count as such."""


def level_id(value: float) -> int:
    """The level in millionths: two numbers that were asked for as the same level have the same
    id."""
    return round(value * MILLION)


def at_level(column: pd.Series, value: float) -> pd.Series:
    """Which entries of a column of levels are this level (bools); an entry that is NaN is at no
    level."""
    return (column * MILLION).round() == level_id(value)


def is_level(value: float, levels: Iterable[float]) -> bool:
    """Whether a level is one of several."""
    return level_id(value) in map(level_id, levels)


def exact_count(share: float, total: int) -> int:
    """int(share * total) as Algorithm 1 of FASP has it, without floating-point surprises: 0.29 of
    100 is 29, not 28."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is outside [0, 1]")
    return int(share * total + ROUNDING)
