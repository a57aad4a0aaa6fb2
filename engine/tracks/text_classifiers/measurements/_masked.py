"""Measurements of one trial's fine-tuned model under masks, with nothing trained again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import pandas as pd

from engine.audit.measurements import Measurement
from engine.tracks.text_classifiers.context import TextContext, TextShard


class UnderMasks(Measurement):
    """One table per trial, which needs the trial's full model first."""

    any_threads = True

    def together(self, context: TextContext, shard: TextShard) -> Hashable:
        return shard

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return [context.dense_shard(shard.trial)]

    def compute(self, context: TextContext, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        return [self.of_trial(context, shard) for shard in shards]

    @abstractmethod
    def of_trial(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        """The table of one trial."""
