"""The context: one model, its prompts, text and judge, and every measurement of a mask on them.

A measurement is asked for as a `Shard`. All shards of one mask (or of whatever
`Measurement.together` names) are computed in one go, which is what makes batches full. What is
common to all contexts is in engine/audit/measurements.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from engine.audit.measurements import InMemory, Keeper, MeasurementContext
from engine.audit.measurements import Measurement as Base
from engine.core.discover import named
from engine.core.types import Corpus, Decoding, HeadMask, Hooks, PromptSet, Span, Window, digest_of
from engine.data.benchmarks.base import Benchmark
from engine.tracks.language_models.bias import PROMPT

if TYPE_CHECKING:  # these load torch; stating what to measure must not
    from engine.models.judge import Judge
    from engine.models.load_language_model import LanguageModel


FEW_TEST = "few of test"
"""The first FEW_EACH test prompts of every subgroup by id, for a first look at many masks."""
FEW_EACH = 15


@dataclass(frozen=True, order=True)
class Shard:
    """One measurement to make: its name, with which heads cut (flat units), on which axis, split
    and decoding seed.

    arm: the id of what stands in the dense model's place (`Arm`), "" for the model itself; then no
    head is cut.
    """

    kind: str
    cut: tuple[int, ...] = ()
    axis: str = ""
    split: str = ""
    seed: int = 0
    arm: str = ""


class Arm(Protocol):
    """What stands in the dense model's place: the model compressed, or another checkpoint. See
    `arms.py`."""

    @property
    def said(self) -> str:
        """It in words, for progress."""

    def key(self, context: PromptContext) -> Any:
        """All that it depends on besides the dense model, JSON-able."""

    def stand(self, context: PromptContext) -> LanguageModel:
        """The model itself, on the device of the dense one."""

    def bytes(self, lm: LanguageModel) -> tuple[int, int]:
        """Bytes it takes in the way it is stored to be run, and in the smallest way known, with
        zeros left out."""

    def reached(self, lm: LanguageModel) -> float:
        """The share that its level comes to on the dense model; NaN where the level is what it
        saves."""


@dataclass(frozen=True)
class Settings:
    """Everything besides model, mask and data that a measurement depends on."""

    decoding: Decoding = Decoding()
    span: Span = "continuation"
    window: Window = Window()
    plain_case: bool = False
    """Judge lower-cased text without line breaks, as the published code did."""
    max_corpus_tokens: int | None = None
    validation_share: float = 0.2

    def judged_text(self, prompts: Sequence[str], texts: Sequence[str]) -> list[str]:
        """What the judge reads, by scored span."""
        join = {
            "continuation": lambda prompt, text: text,
            "prompt+continuation": lambda prompt, text: f"{prompt} {text}".strip(),
            "prompt": lambda prompt, text: prompt,
        }[self.span]
        joined = [join(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
        return [" ".join(text.lower().split()) for text in joined] if self.plain_case else joined


class Measurement(Base):
    """One kind of measurement of a language model."""

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        """By default those of one mask or arm."""
        return shard.cut, shard.arm


@cache
def measurements() -> Mapping[str, Measurement]:
    """Every measurement there is, by name."""
    return named("engine.tracks.language_models.measurements", Measurement)


@dataclass
class PromptContext(MeasurementContext):
    """Everything needed to measure a mask. `prompts.table` has a `split` column."""

    lm: LanguageModel
    judge: Judge
    prompts: PromptSet
    corpus: Corpus
    settings: Settings = Settings()
    keeper: Keeper = field(default_factory=InMemory)
    hooks: Hooks = Hooks()
    plan: Any = None
    """The plan it was opened for; only processes of a cluster read it."""
    benchmarks: Sequence[Benchmark] = ()
    """Bias benchmarks that the model is measured on beside its texts."""
    arms: Mapping[str, Arm] = field(default_factory=dict)
    """What may stand in the dense model's place, by id."""
    hidden: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    """The dense model's last hidden states of windows of the text, by split, beginning and how many
    were read at once."""
    _stands: dict[str, LanguageModel] = field(default_factory=dict, init=False, repr=False)
    """The one of them that is loaded now: they take turns."""

    @property
    def device(self) -> Any:
        return self.lm.device

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return str(self.lm.dtype).removeprefix("torch.")

    def recipe(self) -> tuple[str, Any]:
        """The plan, and what silenced heads hand over, which is not computed again: machines round
        differently."""
        return "engine.tracks.language_models.opening:remote_context", (self.plan, self.lm.means)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Prompts in an order that does not depend on the file's."""
        return self.prompts.table.sort_values("prompt_id").reset_index(drop=True)

    @cached_property
    def _parts(self) -> dict[tuple[str, str], pd.DataFrame]:
        found = {
            (str(axis), str(split)): part.reset_index(drop=True)
            for (axis, split), part in self.table.groupby(["axis", "split"])
        }
        few = {
            (axis, FEW_TEST): part.groupby("subgroup").head(FEW_EACH).reset_index(drop=True)
            for (axis, split), part in found.items()
            if split == "test"
        }
        return {**found, **few}

    def rows(self, axis: str, split: str) -> pd.DataFrame:
        """Prompts of one axis and split; FEW_TEST is the first of test."""
        return self._parts.get((axis, split), self.table.iloc[:0])

    @cached_property
    def rows_digest(self) -> Callable[[str, str], str]:
        """Of an axis and a split: the digest of its prompts' ids."""
        return cache(lambda axis, split: digest_of(self.rows(axis, split)["prompt_id"].tolist()))

    def judged(
        self, cut: tuple[int, ...], axis: str, split: str, seeds: Sequence[int]
    ) -> pd.DataFrame:
        """Verdicts of all seeds, with the columns of their prompts that bias is read by."""
        parts = self.fetch([Shard("verdicts", cut, axis, split, seed) for seed in seeds])
        prompts = self.rows(axis, split)[PROMPT]
        return prompts.merge(pd.concat(parts), on="prompt_id", validate="one_to_many")

    @cached_property
    def tokens(self) -> dict[str, list[int]]:
        """The corpus as token ids: its own text for validation where it has one, else its first
        part; the rest for test."""
        from engine.tracks.language_models.likelihoods import corpus_tokens

        most = self.settings.max_corpus_tokens
        tokens = corpus_tokens(self.lm, self.corpus.text)[:most]
        if self.corpus.validation is not None:
            return {
                "validation": corpus_tokens(self.lm, self.corpus.validation)[:most],
                "test": tokens,
            }
        at = int(len(tokens) * self.settings.validation_share)
        return {"validation": tokens[:at], "test": tokens[at:]}

    def benchmark(self, name: str) -> Benchmark:
        """The benchmark of this name, which is one of those that the context has."""
        return next(one for one in self.benchmarks if one.name == name)

    def prove(self) -> None:
        """See `MeasurementContext`."""
        from engine.surgery.heads.mask import prove_mask_works

        prove_mask_works(self.lm, self.hooks.check)

    def mask(self, cut: Sequence[int]) -> HeadMask:
        return HeadMask.from_units(self.lm.n_layers, self.lm.n_heads, cut)

    def standing(self, arm: str) -> LanguageModel:
        """What stands in the dense model's place, made or loaded when first asked for, until
        another is."""
        if arm not in self._stands:
            self._stands.clear()
            self._stands[arm] = self.arms[arm].stand(self)
        return self._stands[arm]

    @contextmanager
    def applied(self, shard: Shard) -> Iterator[LanguageModel]:
        """Within it, the model of a shard: the audited one with the shard's heads off, or its
        arm."""
        if shard.arm:
            yield self.standing(shard.arm)
            return
        from engine.surgery.heads.mask import masked  # loads torch

        with masked(self.lm, self.mask(shard.cut)):
            yield self.lm

    def kind(self, name: str) -> Measurement:
        return measurements()[name]

    def key(self, shard: Shard) -> str:
        """Digest of all the shard's numbers depend on. Device type is part of it: devices round
        differently."""
        kind = self.kind(shard.kind)
        model = [
            self.lm.weight_hash,
            self.lm.reading_digest,
            str(self.lm.dtype),
            str(self.lm.device).split(":")[0],
        ]
        model += [self.lm.means_digest] if self.lm.means_digest else []
        model += [self.arms[shard.arm].key(self)] if shard.arm else []
        return digest_of([kind.name, kind.version, model, list(shard.cut), kind.parts(self, shard)])

    def describe(self, shard: Shard) -> str:
        """A shard in words, 0-based as in mask.json."""
        if shard.arm:
            return self.arms[shard.arm].said
        if not shard.cut:
            return "dense model"
        if len(shard.cut) == 1:
            layer, head = divmod(shard.cut[0], self.lm.n_heads)
            return f"layer {layer}, head {head} off"
        return f"{len(shard.cut)} heads off"


def per_prompt(table: pd.DataFrame, values: np.ndarray, name: str) -> pd.DataFrame:
    """A table of one value per prompt, columns prompt_id and `name`; values [rows] in the order of
    `table`."""
    return pd.DataFrame({"prompt_id": table["prompt_id"].to_numpy(), name: values})
