"""A made-up finished run for tests of screens and exports. Nothing in it was measured on a model.

A latent effect per head moves the toxicity of each subgroup and the perplexity; cuts are then
chosen and every table is computed from the same made-up verdicts by the engine itself, so that the
tables agree with each other. Deterministic.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Progress
from engine.core.types import Corpus, PromptSet, rng
from engine.store.runs import Run, Store
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.tables import Measured
from engine.tracks.language_models.variants import all_variants, variant_table, with_gamma
from tests.builders import hash_of, options_of, shared
from tests.tracks.language_models.made_up_world import (
    GAMMA,
    GROUPS,
    HEADS,
    HOSTILE,
    LAYERS,
    SPARSITIES,
    UNITS,
    World,
    draw_world,
    text_of,
    toxicity_of,
)

__all__ = ["GROUPS", "HEADS", "HOSTILE", "LAYERS", "SPARSITIES", "make_run"]
FEW = {"per_group": 13}
"""Options of a small run, with groups just large enough to be ranked."""


def make_run(folder: Path | str, run_id: str = "synthetic-run", **options: Any) -> Run:
    """Write the made-up run below the store `folder` and return it.

    Options: null_bias (subgroups of the first axis do not differ, so its bias lies inside its null
    band); per_group and small_group (prompts of a full and of the small subgroup: 16, 6); seeds
    (2); judge (name); created (ISO time); title; stream (re-draws all). Numbers are computed once
    per process for the same options, whatever the judge, the title and the time.
    """
    title = "Synthetic run (made-up numbers, for tests)"
    every, computed = options_of(
        options,
        {"title": title, "created": "2026-01-01T12:00:00+00:00", "judge": "demo-judge"},
        null_bias=False,
        per_group=16,
        small_group=6,
        seeds=2,
        stream=0,
    )
    world, tables = _computed(computed)
    return Store(folder).write(run_id, _meta(replace(world, options=every)), tables)


class MadeUp(PromptContext):
    """The context of an audit whose verdicts follow from a latent world."""

    def __init__(self, world: World) -> None:
        prompts = PromptSet("synthetic prompts", world.prompts, "")
        super().__init__(SimpleNamespace(vocab_size=50_000), None, prompts, Corpus("", "", ""))
        self.world = world

    @cached_property
    def place(self) -> pd.Series:
        return pd.Series(np.arange(len(self.table)), self.table["prompt_id"])

    def fetch(self, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [getattr(self, shard.kind)(shard, self.world.cost_of(shard.cut)) for shard in shards]

    def _of_prompts(self, shard: Shard, **columns: Any) -> pd.DataFrame:
        return self.rows(shard.axis, shard.split)[["prompt_id"]].assign(**columns)

    def floor(self, shard: Shard, _: float) -> pd.DataFrame:
        found = self._of_prompts(shard)
        fifth = [int(name[:4], 16) % 5 for name in found["prompt_id"]]
        return found.assign(toxicity=0.04 + 0.004 * np.array(fifth))

    def verdicts(self, shard: Shard, _: float) -> pd.DataFrame:
        found = self._of_prompts(shard)
        mine = toxicity_of(self.world, shard.cut, shard.seed)[self.place[found["prompt_id"]]]
        return found.assign(toxicity=mine)

    def texts(self, shard: Shard, _: float) -> pd.DataFrame:
        found = self.verdicts(shard, 0.0)
        start = 46 * shard.seed + 92 * len(shard.cut)
        return found.assign(
            text=[text_of(one, start + at) for at, one in enumerate(found["toxicity"])]
        )

    def prompt_nll(self, shard: Shard, cost: float) -> pd.DataFrame:
        codes = self.rows(shard.axis, shard.split)["subgroup"].factorize(sort=True)[0]
        return self._of_prompts(shard, nll=8 * (1.5 + 0.08 * codes + cost), tokens=8)

    def windows(self, shard: Shard, cost: float) -> pd.DataFrame:
        n = len(self.world.windows)
        slope = 1 + 0.2 * rng("synthetic ppl", shard.cut).normal(size=n)
        nll = 128 * (self.world.windows + cost * slope)
        return pd.DataFrame({"window": 128 * np.arange(n), "nll": nll, "tokens": 128})

    def cost(self, shard: Shard, _: float) -> pd.DataFrame:
        n_cut = len(shard.cut)
        latency = 41.0 - 0.55 * n_cut + rng("synthetic latency", shard.cut).normal(0, 0.4)
        parameters = 800_000 - 8_224 * n_cut
        row = {
            "parameters": parameters,
            "bytes": 4 * parameters,
            "n": 20,
            "latency_ms": latency,
            "latency_low": latency - 0.7,
            "latency_high": latency + 0.8,
            "dense_latency_ms": 41.1,
            "speedup": 41.1 / latency,
            "speedup_low": 40.7 / latency,
            "speedup_high": 41.5 / latency,
            "max_logit_difference": 2.1e-6 * (n_cut > 0),
            "greedy_equal": True,
            "agrees": True,
        }
        return pd.DataFrame([row])


@shared
def _computed(options: tuple[tuple[str, Any], ...]) -> tuple[World, dict[str, pd.DataFrame]]:
    """World and tables of the run with these options."""
    world = draw_world(dict(options))
    request, scores = _request(world), _scores(world)
    variants = with_gamma(all_variants(request, scores, UNITS), GAMMA)
    tables = Measured(MadeUp(world), request, Progress(lambda _: None)).tables(variants)
    return world, {
        **tables,
        "generations": pd.concat(tables["generations"].each(), ignore_index=True),
        "scores": scores,
        "variants": variant_table(variants, LAYERS, HEADS),
    }


def _scores(world: World) -> pd.DataFrame:
    rows = []
    for unit in range(UNITS):
        place = {"unit": unit, "layer": unit // HEADS, "head": unit % HEADS, "note": "", "n": 20}
        for axis, effect in world.effects.items():
            seeds = range(world.options["seeds"])
            noise = rng("synthetic scores", axis, unit).normal(0, 0.02, len(seeds))
            same = place | {"score": "z_bias", "estimator": "generate", "axis": axis}
            for seed in seeds:
                rows.append(same | {"seed": seed} | _ends(effect[unit] + noise[seed], 0.06))
            value = effect[unit] + noise.mean()
            p = float(np.exp(-((value / 0.03) ** 2)))
            rows.append(same | {"seed": -1, "p": p, "q": min(1.0, p * 4)} | _ends(value, 0.04))
        ppl, norm = -3.6 * np.expm1(world.cost[unit]), 2 + 5 * world.cost[unit] + unit % 3 / 10
        same = place | {"axis": "", "seed": -1, "estimator": "exact"}
        ends = {"value": ppl, "low": ppl * 1.1 - 0.005, "high": ppl * 0.9 + 0.005}
        drawn = {"seed": 0, "value": rng("synthetic random", unit).random()}
        rows += [
            same | {"score": "z_ppl"} | ends,
            same | {"score": "magnitude", "value": norm},
            same | {"score": "random"} | drawn,
        ]
    names = "unit layer head score estimator axis seed value low high p q n note"
    return pd.DataFrame(rows).reindex(columns=names.split())


def _ends(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def _request(world: World) -> AuditRequest:
    return AuditRequest(
        model="demo-gpt2",
        axes=tuple(GROUPS),
        methods=("fasp", "bias_only", "magnitude", "random", "random_noncritical"),
        estimator="generate",
        gamma="search",
        sparsities=SPARSITIES,
        seeds=world.options["seeds"],
        judge=world.options.get("judge", "demo-judge"),
        device="cpu",
    )


def _meta(world: World) -> dict[str, Any]:
    options = world.options
    counts = world.prompts.groupby(["axis", "split"]).size()
    return {
        "track": "language_models",
        "created": options["created"],
        "title": options["title"],
        "request": _request(world).to_dict(),
        "model": {
            "name": "synthetic-gpt2",
            "revision": None,
            "weight_hash": hash_of("weights"),
            "model_type": "gpt2",
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "parameters": 800_000,
        },
        "prompts": {
            "name": "synthetic prompts",
            "digest": hash_of("prompts", len(world.prompts)),
            "notes": ["In religion the subgroup is the descriptor."],
            "counts": {f"{axis}/{split}": int(n) for (axis, split), n in counts.items()},
        },
        "corpus": {
            "name": "synthetic corpus",
            "digest": hash_of("corpus"),
            "tokens": {"test": 48 * 128, "validation": 1600},
        },
        "judge": {
            "name": options["judge"],
            "hash": hash_of(options["judge"]),
            "note": "Made-up scores.",
        },
        "gamma": GAMMA,
        "provenance": {
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "device": "cpu",
            "dtype": "float32",
            "code": hash_of("code")[:12],
        },
        "warnings": ["Synthetic run: every number is made up."],
        "spent": {"scores": 61.2, "variants": 33.5, "costs": 4.1},
    }
