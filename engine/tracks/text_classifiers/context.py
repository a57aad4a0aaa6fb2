"""The context of a text classifier: its texts, its pre-trained weights, how it is fine-tuned, and
every measurement."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.audit.measurements import InMemory, Keeper, Measurement
from engine.classifiers.audit import ArrayContext
from engine.core.types import HeadMask, Hooks, Values, digest_of
from engine.data.texts.load import TextSet
from engine.store.runs import within
from engine.training.recipe import Keep, Nowhere, Recipe

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier

TRAIN, TEST = "train", "test"
FILTERS = ("quantiles", "deviation")
"""Which texts are of usual length: between two quantiles, or within some standard deviations of the
mean."""
PRETRAINED, TUNED = "pre-trained", "fine-tuned"
KEPT_MODELS = 2
"""Models with weights of their own that are held in memory at a time."""


@dataclass(frozen=True, order=True)
class TextShard:
    """One measurement of a classifier in one trial.

    stage: the pre-trained weights with a new head, or the fine-tuned ones. trained: heads that were
    cut from the pre-trained weights before they were fine-tuned; off: heads masked afterwards (flat
    units). score: the importance.
    n_cut: how many heads each of many masks silences, where a shard is about masks that are not
    named one by one.
    """

    kind: str
    trained: tuple[int, ...] = ()
    off: tuple[int, ...] = ()
    score: str = ""
    trial: int = 0
    stage: str = TUNED
    n_cut: int = 0


@dataclass(frozen=True)
class TextSettings:
    """Everything besides model and texts that the numbers depend on.

    tune: how pre-trained weights are fine-tuned. retune: whether the full model is fine-tuned here,
    in every trial, rather than taken as it was brought. scores: settings per score. score_texts:
    training texts a score reads.
    length_filter: one of FILTERS. random_masks: masks of as many random heads that an arm which
    trains nothing is compared with. truth: whether every head is silenced alone.
    """

    tune: Recipe = Recipe(epochs=3, rate=2e-5, batch=32, schedule="linear", weight_decay=0.0)
    retune: bool = True
    scores: Mapping[str, Values] = field(default_factory=dict)
    score_texts: int = 2000
    length_filter: str = "quantiles"
    random_masks: int = 0
    truth: bool = False
    first_seed: int = 0
    batch: int = 64
    """Texts per forward pass of an evaluation."""


@dataclass
class TextContext(ArrayContext):
    """`start` makes the pre-trained model with a head drawn from a seed, None where only a
    fine-tuned one is there. `brought` is the fine-tuned model as it came, None where every trial
    fine-tunes its own.
    """

    start: Callable[[int], TextClassifier] | None
    brought: TextClassifier | None
    identity: Sequence[Any]
    """What names the weights of both: hashes, JSON-able."""
    texts: TextSet
    settings: TextSettings
    kinds: Mapping[str, Measurement]
    keeper: Keeper = field(default_factory=InMemory)
    hooks: Hooks = Hooks()
    partial: Callable[[str], Keep] = lambda key: Nowhere()
    """Where the state of an unfinished fine-tuning is kept, by key."""
    proof: Values = field(default_factory=dict)
    """How far this model's conductance is from Captum's, JSON-able; empty where that was not tried.
    """
    plan: Any = None
    """The plan it was opened for; only processes of a cluster read it."""
    _models: OrderedDict[tuple[Any, ...], TextClassifier] = field(
        default_factory=OrderedDict, repr=False
    )
    _starts: dict[int, TextClassifier] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> Any:
        return self.any_model.device

    def recipe(self) -> tuple[str, Any]:
        return "engine.tracks.text_classifiers.run:context_of", self.plan

    def key(self, shard: TextShard) -> str:
        kind = self.kind(shard.kind)
        own = list(astuple(shard)[1:])
        settings = [self.settings.tune.to_dict(), self.settings.retune, self.settings.first_seed]
        device = str(self.any_model.device).split(":")[0]
        return digest_of(
            [
                kind.name,
                kind.version,
                list(self.identity),
                self.any_model.reading_digest,
                self.any_model.max_length,
                settings,
                self.content,
                device,
                own,
                kind.parts(self, shard),
            ]
        )

    @cached_property
    def content(self) -> str:
        """Digest of which texts there are, their classes and splits: no measurement reads their
        groups."""
        rows = self.texts.table.sort_values("text_id")[
            ["text_id", "label", "split"]
        ].values.tolist()
        return digest_of([list(self.texts.classes), self.texts.metric, rows])

    def describe(self, shard: TextShard) -> str:
        cut = len(shard.trained) + len(shard.off)
        which = f"{cut} heads off" if cut else "full model"
        score = f"{shard.score} of the " if shard.score else ""
        stage = f"{PRETRAINED} " if shard.stage == PRETRAINED else ""
        return f"{score}{stage}{which}, trial {shard.trial}"

    @cached_property
    def any_model(self) -> TextClassifier:
        """The fine-tuned or the pre-trained model, for what both share: device, shape, classes,
        encoding of texts."""
        if self.brought is not None:
            return self.brought
        return self.pretrained(0)

    @property
    def n_units(self) -> int:
        return self.any_model.n_layers * self.any_model.n_heads

    def prove(self) -> None:
        """See `MeasurementContext`."""
        from engine.surgery.heads.mask import prove_mask_works

        prove_mask_works(self.any_model, self.hooks.check)

    def mask(self, units: Sequence[int]) -> HeadMask:
        return HeadMask.from_units(self.any_model.n_layers, self.any_model.n_heads, units)

    def table(self, split: str) -> pd.DataFrame:
        """The texts of a split, in an order that does not depend on the file's."""
        rows = self.texts.table[self.texts.table["split"] == split]
        return rows.sort_values("text_id").reset_index(drop=True)

    def pairs(self, table: pd.DataFrame) -> tuple[list[str], list[str] | None]:
        """First and second texts of some rows; None where the task has one text."""
        second = table["text_b"].tolist() if self.texts.pair else None
        return table["text"].tolist(), second

    def parameters_after(self, units: Sequence[int]) -> int:
        """Numbers left in the model once these heads are cut for real."""
        model = self.any_model
        gone = [
            part.numel()
            for layer, head in self.mask(units).cut
            for part in model.adapter.head_tensors(model.model, layer, head)
        ]
        return model.n_parameters - sum(gone)

    def dense_shard(self, trial: int) -> TextShard:
        """The full model of a trial: one and the same where it was brought."""
        return TextShard("tuned", trial=trial if self.settings.retune else 0)

    def tuned_shard(self, trained: tuple[int, ...], trial: int) -> TextShard:
        """Where a fine-tuned model comes from."""
        return TextShard("tuned", trained, trial=trial) if trained else self.dense_shard(trial)

    def model_shards(self, shard: TextShard) -> list[TextShard]:
        """What has to be finished before the classifier of a shard is there."""
        tuned = self.tuned_shard(shard.trained, shard.trial)
        return [tuned] if shard.stage == TUNED else []

    def model_of(self, shard: TextShard) -> TextClassifier:
        """The classifier a shard is about, without its mask: cut before fine-tuning where heads
        were."""
        trial = shard.trial
        if shard.stage == TUNED and not shard.trained and not self.settings.retune:
            return self.any_model
        found = (shard.stage, shard.trained, trial)
        if found not in self._models:
            self._models[found] = self._built(shard)
            while len(self._models) > KEPT_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(found)
        return self._models[found]

    def _built(self, shard: TextShard) -> TextClassifier:
        if shard.stage == PRETRAINED:
            return self.pretrained(shard.trial)
        from engine.surgery.filters.graph import with_weights

        base = self.untrained(shard)

        arrays, _ = self.fetch_arrays(self.tuned_shard(shard.trained, shard.trial))
        return with_weights(base, within(arrays, "weights/"))

    def untrained(self, shard: TextShard) -> TextClassifier:
        """The pre-trained weights with this trial's head, cut before fine-tuning: a copy to be
        trained."""
        from engine.surgery.heads.mask import cut

        if shard.trained:
            return cut(self.pretrained(shard.trial), self.mask(shard.trained))
        whole = self.pretrained(shard.trial)
        return replace(whole, model=copy.deepcopy(whole.model))

    def pretrained(self, trial: int) -> TextClassifier:
        """The pre-trained weights with this trial's head; one object, read from disk once per
        trial."""
        if trial not in self._starts:
            assert self.start is not None, "no weights before fine-tuning are known"
            self._starts.clear()
            self._starts[trial] = self.start(self.seed("head", trial))
        return self._starts[trial]

    def answers(self, shard: TextShard) -> np.ndarray:
        """Probabilities of the test texts in the order of `table(TEST)`, [n, classes] float32."""
        return self.without_weights(shard)[0]["probabilities"]

    def exact(self, shards: Sequence[TextShard]) -> list[np.ndarray]:
        """The answers of several shards, as `answers`, float64."""
        return [self.answers(shard).astype(np.float64) for shard in shards]
