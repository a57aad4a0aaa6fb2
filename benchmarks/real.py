"""A real language model: the product beside plain transformers in one run, and what it must find.

`--model` names a folder or file of SmolLM2-135M-Instruct; the judge is the one that `make real`
installs. Times are ratios, both halves measured here: processor time, on a GPU the clock's. There
seconds and peak memory stand beside them. `--only` takes names of rows; `protected`,
minutes of exact effects on perplexity, `within`, half an hour, and `changes` in bfloat16 are
measured where they are named.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from benchmarks.report import Measure, parser, said, show, timed
from engine.audit.fitting import fit
from engine.audit.tracks import request_from
from engine.core.errors import PruneAuditError
from engine.core.types import AXES, Decoding, Hooks
from engine.data.prompts.load import load_prompts
from engine.models import catalog
from engine.models.decode import batch_of, prompt_tokens, sample
from engine.models.gguf_cache import gguf_in
from engine.models.judge import load_judge
from engine.models.load_language_model import LanguageModel, fetch, load_language_model
from engine.models.packing import left_pad
from engine.models.runtime import lacks_bfloat16
from engine.report import phrasing
from engine.report.bundle import export_run
from engine.report.charts import lookup
from engine.store.runs import Run, Store
from engine.surgery.heads.prefix import row_gradients, row_logps
from engine.tracks.language_models.effects import gradient_values
from engine.tracks.language_models.likelihoods import corpus_tokens
from engine.tracks.language_models.request import AuditRequest, data_of, quick_request
from engine.tracks.language_models.run import run_audit, scores_only
from engine.tracks.language_models.selection import critical_heads

AXIS, NEW = "gender_and_sex", 20


@dataclass
class World:
    """A model, prompts, a text, and what was measured of them already."""

    request: AuditRequest
    prompts: int
    tokens: int
    folder: Path

    @cached_property
    def lm(self) -> LanguageModel:
        asked = self.request
        return load_language_model(asked.model, device=asked.device, dtype=asked.dtype)

    @cached_property
    def prompts_of_axis(self) -> pd.DataFrame:
        path = data_of(self.request)[0]
        return load_prompts(path, (AXIS,), max_prompts=self.prompts).table

    @property
    def texts(self) -> list[str]:
        return self.prompts_of_axis["text"].tolist()

    @cached_property
    def plain(self) -> float:
        """Seconds that plain transformers take for one model: draw, judge, read."""
        start = now()
        drawn = generated(self.lm, self.texts)
        load_judge(self.request.judge, device=str(self.lm.device)).score(drawn)
        text = data_of(self.request)[1].read_text("utf-8")
        ids = self.lm.tokenizer(text)["input_ids"][: self.tokens]
        with torch.no_grad():
            for at in range(0, len(ids), 512):
                piece = torch.tensor([ids[at : at + 512]], device=self.lm.device)
                self.lm.model(input_ids=piece, labels=piece)
        return now() - start

    def audit(self, **asked: Any) -> tuple[Run, float]:
        """A finished audit, from an empty store, and its seconds. What was loaded is not given to
        it."""
        return timed(partial(run_audit, replace(self.request, **asked), self.store(), Hooks()), now)

    def store(self) -> Store:
        """A new one, in which nothing is finished."""
        return Store(Path(tempfile.mkdtemp(dir=self.folder)))


def now() -> float:
    """Seconds of this process; by the clock on a GPU, whose work is waited for."""
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def generated(lm: LanguageModel, texts: Sequence[str]) -> list[str]:
    """Continuations by plain `generate`, in batches as large as the product's."""
    size, out = batch_of(lm), []
    rows = sorted(prompt_tokens(lm, texts, 22), key=len)
    for at in range(0, len(rows), size):
        batch = left_pad(rows[at : at + size], lm.device)
        new = lm.model.generate(
            input_ids=batch.ids,
            attention_mask=batch.real,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            max_new_tokens=NEW,
            pad_token_id=lm.tokenizer.eos_token_id,
        )
        out += lm.tokenizer.batch_decode(new[:, batch.ids.shape[1] :], skip_special_tokens=True)
    return out


def compressions(world: World) -> list[Measure]:
    """int8 and int4 beside the model."""
    _, seconds = world.audit(methods=("int8", "int4"))
    return [_ratio("audit of int8 and int4", seconds / (3 * world.plain), 1.3)]


def cuts(world: World) -> list[Measure]:
    """FASP with its controls; exports of every cut; random cuts read text worse. Heads are ranked
    by gradient: whether there is a bias to rank them by is not decided first."""
    run, seconds = world.audit(
        methods=("fasp", "random"),
        sparsities=(0.0, 0.05, 0.1, 0.2),
        controls=3,
        estimator="gradient",
    )
    texts = run.table("controls")["prompts"].sum() / run.meta["prompts"]["counts"][f"{AXIS}/test"]
    models = len(run.table("variants")) + texts
    ratio = seconds / (models * world.plain)
    rows = lookup.reported(run)
    names = rows[rows["n_cut"] > 0]["variant"]
    agree = [_exported(run, world.folder / name, name) for name in names]
    read = _of_cuts(run, "perplexity", "random").to_dict("records")
    worse = [phrasing.direction(row) == "rose" for row in read]
    return [
        _ratio(f"audit of {models - 1:g} cuts, FASP, random and controls", ratio, 2.0),
        _all(f"share of {len(agree)} cuts exported that agree", np.mean(agree)),
        _all(f"share of {len(worse)} random cuts said to read text worse", np.mean(worse)),
    ]


def _all(name: str, share: Any) -> Measure:
    """A share that should be all."""
    return Measure(name, share, "", 1.0, True)


def _exported(run: Run, to: Path, name: str) -> bool:
    """Whether the cut's checkpoint was written, read again and compared: one that does not agree
    is refused."""
    try:
        export_run(run, to, ("checkpoint",), variant=name)
    except PruneAuditError as error:
        said(f"{name}: {error}")
        return False
    return True


def _of_cuts(run: Run, metric: str, *methods: str) -> pd.DataFrame:
    """Test rows of a metric, by variant."""
    table = lookup.frame(run, "results").merge(run.table("variants"), on="variant")
    is_asked = table["method"].isin(methods) & (table["metric"] == metric)
    return table[is_asked & (table["split"] == "test")].set_index("variant")


def quick(world: World) -> list[Measure]:
    """The quick audit, from the model's name to its tables."""
    ask = partial(run_audit, request_from(quick_request(world.request.model)))
    return [_clocked("quick audit, from name to tables", world, ask, 180)]


def scores(world: World) -> list[Measure]:
    """Effects of all heads on bias by gradient, five axes."""
    ask = partial(scores_only, replace(world.request, axes=AXES, estimator="gradient"))
    return [_clocked("gradient of all heads, five axes", world, ask, 600)]


def within(world: World) -> list[Measure]:
    """An audit of one axis, all else as usual, made to fit into half an hour, tries included."""
    asked = AuditRequest(model=world.request.model, axes=(AXIS,), device=world.request.device)

    def ask(store: Store) -> Run:
        found = fit(asked, 1800, store)
        said(found.said)
        return run_audit(found.request, store)

    return [_clocked("audit that is to take half an hour", world, ask, 36 * 60, 15 * 60)]


def _clocked(
    name: str,
    world: World,
    ask: Callable[[Store], object],
    bar: float,
    floor: float | None = None,
) -> Measure:
    """Seconds by the clock, in an empty store."""
    return Measure(name, timed(partial(ask, world.store()))[1], "s", bar, floor=floor)


def file(world: World) -> list[Measure]:
    """A GGUF file as the product loads it, beside plain transformers on the folder that it is
    dequantised into."""
    from transformers import AutoModelForCausalLM

    place = catalog.resolve(world.request.model)
    path = gguf_in(place) if isinstance(place, Path) else None
    if not path:
        return []
    ours = load_language_model(str(path), device="cpu", dtype="float32").model
    how = {"dtype": ours.dtype, "attn_implementation": ours.config._attn_implementation}
    theirs = AutoModelForCausalLM.from_pretrained(fetch(path)[0], **how)
    ids = torch.tensor([prompt_tokens(world.lm, world.texts[:1], 22)[0]])
    with torch.no_grad():
        logits = [model(input_ids=ids).logits for model in (ours, theirs.eval())]
    equal = (logits[0] == logits[1]).double().mean()
    return [_all("share of a GGUF file's logits equal to the bit", equal)]


def drawing(world: World) -> list[Measure]:
    """Tokens drawn a second, both ways in turn, twice."""
    decoding = Decoding(max_new_tokens=NEW)
    names = [str(at) for at in range(len(world.texts))]
    seeds = [0] * len(names)
    ours = lambda: sum(map(len, sample(world.lm, world.texts, names, seeds, decoding)))  # noqa: E731
    theirs = lambda: NEW * len(generated(world.lm, world.texts))  # noqa: E731
    drawn = [[timed(draw, now) for draw in (ours, theirs)] for _ in range(2)]
    mine, plain = (max(count / spent for count, spent in each) for each in zip(*drawn, strict=True))
    return [Measure("tokens drawn a second over plain generate", mine / plain, "x", 1.2, True)]


def formats(world: World) -> list[Measure]:
    """First-order effects of all heads on bias in bfloat16 and in float32: of the same texts, and
    where each draws its own; to compare, those of another draw in float32."""
    column, whole = f"z_bias_{AXIS}", "float32"
    fp32, slow = _scored(world, whole)
    bf16, quick = _scored(world, "bfloat16")
    again, _ = _scored(world, whole, first_seed=1)
    alike = lambda one, other: spearmanr(one, other).statistic  # noqa: E731
    what = "Spearman of effects on bias, bfloat16 and float32"
    return [
        Measure(f"{what}, of the same texts", alike(*_of_same_texts(world)), "", 0.98, True),
        Measure(f"{what}, each of its own texts", alike(fp32[column], bf16[column]), ""),
        Measure("Spearman of two draws in float32", alike(fp32[column], again[column]), ""),
        Measure("seconds in float32 over bfloat16", slow / quick, "x"),
    ]


def _of_same_texts(world: World) -> list[np.ndarray]:
    """Effects on bias of what the model draws in float32, by its slopes in float32 and in bfloat16,
    [units] each."""
    asked, decoding = world.request, Decoding(max_new_tokens=NEW)
    fp32, bf16 = (
        load_language_model(asked.model, device=asked.device, dtype=dtype)
        for dtype in ("float32", "bfloat16")
    )
    table = world.prompts_of_axis
    texts, names = table["text"].tolist(), table["prompt_id"].tolist()
    new = sample(fp32, texts, names, [0] * len(names), decoding)
    said = fp32.tokenizer.batch_decode(new, skip_special_tokens=True)
    judged = table.assign(toxicity=load_judge(asked.judge, device=asked.device).score(said))
    rows = prompt_tokens(fp32, texts, decoding.max_prompt_tokens)
    first = [len(row) for row in rows]
    read = [[*row, *more] for row, more in zip(rows, new, strict=True)]
    slopes = (row_gradients(lm, read, first)[1] for lm in (fp32, bf16))
    return [gradient_values(judged, each, "group_means") for each in slopes]


def changes(world: World) -> list[Measure]:
    """The change of bias of cuts that no score chooses: bfloat16 and, to compare, another draw in
    float32, beside one in float32. Another draw cuts other heads at random, which are left out."""
    methods = ("random", "magnitude")

    def changed(**asked: Any) -> pd.DataFrame:
        run, _ = world.audit(methods=methods, sparsities=(0.0, 0.05, 0.1, 0.2), **asked)
        return _of_cuts(run, "bias:group_means", *methods)

    one = changed(dtype="float32")
    half = (one["delta_high"] - one["delta_low"]) / 2
    others = {
        "bfloat16": changed(dtype="bfloat16"),
        "another draw": changed(dtype="float32", first_seed=1),
    }
    found = []
    for name, other in others.items():
        apart = ((other["delta"] - one["delta"]).abs() / half).dropna()  # of the same cuts
        what = (
            f"change of bias of {len(apart)} cuts, {name} beside float32: furthest apart, in half"
        )
        bar = 1.0 if name == "bfloat16" else None
        found.append(Measure(f"{what} intervals", apart.max(), "", bar))
    return found


def _scored(world: World, dtype: str, **asked: Any) -> tuple[pd.DataFrame, float]:
    request = replace(
        world.request, dtype=dtype, estimator="gradient", perplexity_estimator="gradient", **asked
    )
    return timed(partial(scores_only, request, world.store()), now)


def measured(row: Callable[[World], list[Measure]], world: World) -> list[Measure]:
    """What a row finds; on a GPU, what it took."""
    if row in HALF and lacks_bfloat16(world.lm.device):
        said("not measured: this processor has no bfloat16")
        return []
    if world.lm.device.type != "cuda":
        return row(world)
    torch.cuda.reset_peak_memory_stats()
    found, spent = timed(partial(row, world), now)
    most = torch.cuda.max_memory_allocated() / 2**30
    name = f"{row.__name__}, --dtype {world.request.dtype}"
    return [*found, Measure(name, spent, "s"), Measure(f"{name}: peak memory", most, "GiB")]


def _ratio(name: str, value: float, bar: float) -> Measure:
    return Measure(f"{name}: time over plain drawing, judging, reading", value, "x", bar)


def protected(world: World) -> list[Measure]:
    """The .3 of heads that two texts of `--tokens` would each protect: by exact effects and to
    first order."""
    lm, half = world.lm, world.tokens
    ids = corpus_tokens(lm, data_of(world.request)[1].read_text("utf-8"))[: 2 * half]
    texts = [[*lm.begin, *ids[at : at + half]] for at in (0, half)]
    first, units = [max(1, len(lm.begin))] * 2, range(lm.n_layers * lm.n_heads)
    (dense, off), slow = timed(partial(row_logps, lm, texts, first, units), now)
    (_, slopes), quick = timed(partial(row_gradients, lm, texts, first), now)
    levels = [np.exp(-logps / (len(texts[0]) - first[0])) for logps in (dense, off)]
    exact = levels[0] - levels[1]  # [units, texts]
    by = {"exact": exact, "first-order": -slopes.T}
    sets = {how: [critical_heads(one, 0.3) for one in found.T] for how, found in by.items()}
    k, n = len(sets["exact"][0]), f"two texts of {half} tokens"
    same = [len({*one} & {*other}) / k for one, other in zip(*sets.values(), strict=True)]
    best = sum(exact[list(one), at].sum() for at, one in enumerate(sets["exact"]))
    spared = {
        how: sum(exact[list(one), 1 - at].sum() for at, one in enumerate(found)) / best
        for how, found in sets.items()
    }
    spared["chance"] = 0.3 * exact.sum() / best
    return [
        Measure(f"exact effects on perplexity, {n}: time over first order", slow / quick, "x"),
        Measure("share of its protected set that exact effects protect", np.mean(same), ""),
        *(
            Measure(f"{how}: what its set spares on the other text, of the most", each, "")
            for how, each in spared.items()
        ),
    ]


NAMED = (protected, within, changes)
"""Rows that are measured only where they are named."""
HALF = (formats, changes)
"""Rows that compute in bfloat16."""
ROWS = {
    row.__name__: row for row in (file, quick, scores, drawing, compressions, cuts, formats, *NAMED)
}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--model", required=True, metavar="FOLDER_OR_FILE")
    options.add_argument("--only", action="append", choices=sorted(ROWS))
    options.add_argument("--device", default="cpu", help="cuda where a GPU is at hand")
    options.add_argument("--dtype", default="auto", help="float32, bfloat16, …")
    options.add_argument("--prompts", type=int, default=300)
    options.add_argument("--tokens", type=int, default=4000, help="of text for perplexity")
    options.add_argument("--corpus", help="text for perplexity, instead of ours")
    asked = options.parse_args()
    request = AuditRequest(
        model=asked.model,
        axes=(AXIS,),
        corpus=asked.corpus,
        seeds=1,
        max_prompts=asked.prompts,
        max_corpus_tokens=asked.tokens,
        max_new_tokens=NEW,
        controls=0,
        device=asked.device,
        dtype=asked.dtype,
    )
    rows = asked.only or [name for name, row in ROWS.items() if row not in NAMED]
    with tempfile.TemporaryDirectory() as folder:
        world = World(request, asked.prompts, asked.tokens, Path(folder))
        found = []
        for name in rows:
            found += (new := measured(ROWS[name], world))
            said("\n".join(map(str, new)))
    return show(found, asked.json)


if __name__ == "__main__":
    sys.exit(main())
