"""Tables that every audit of a classifier writes, and those of image classifiers, from finished
measurements. Columns: docs/TABLES.md."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.metrics import roc_auc_score

from engine.classifiers.groups import OVO, OVR, Arm, GroupMeasure, degenerate
from engine.classifiers.images.context import DENSE, TEST, ImageContext, ImageShard
from engine.classifiers.images.request import ImagePlan, recipe_of
from engine.core.errors import MaskError, RequestError, refusal
from engine.core.files import write_json
from engine.core.types import POOLED, Values, rng
from engine.core.words import is_by_hand
from engine.data.images.load import ImageSet
from engine.stats.clustered import benjamini_hochberg
from engine.store.runs import Run, pack, unpack, where, within

Check = Callable[[], None]


class Repeats(ABC):
    """One variant that stands for several models: cut or trained again with other seeds."""

    @property
    @abstractmethod
    def pooled(self) -> str:
        """The variant's id."""

    @abstractmethod
    def shards(self) -> list[Any]:
        """The measurements that hold the answers of its models."""

    def number(self, shard: Any) -> int:
        return int(shard.trial)

    def id_of(self, shard: Any) -> str:
        """The variant's id of one of its models."""
        return f"{self.pooled}#{self.number(shard)}"


RepeatsT = TypeVar("RepeatsT", bound=Repeats)


def measured_arms(
    answers: Callable[[Any], np.ndarray],
    arms: Iterable[RepeatsT],
    measure: GroupMeasure,
    check: Check,
) -> dict[RepeatsT, Arm]:
    """Every variant measured by group; answers: the probabilities [items, classes] of a shard."""
    found = {}
    for arm in arms:
        check()
        found[arm] = measure.variant([answers(one).astype(np.float64) for one in arm.shards()])
    return found


def numbers_of(
    measure: GroupMeasure,
    measured: Mapping[RepeatsT, Arm],
    check: Check,
    dense: Mapping[str, int] = MappingProxyType({}),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `results` and `groups`: the dense model, then every variant and its models.

    dense: the dense models behind the mean by the variant's id, where every trial has its own.
    """
    parts = [measure.dense()]
    parts += [measure.dense_arm.trial(number, name) for name, number in dense.items()]
    for arm, mine in measured.items():
        check()
        parts.append(mine.pooled(arm.pooled))
        parts += [mine.trial(arm.number(shard), arm.id_of(shard)) for shard in arm.shards()]
    results, groups = (
        pd.concat([getattr(part, name) for part in parts], ignore_index=True)
        for name in ("results", "groups")
    )
    return results, groups


DIFFERENCE_COLUMNS = (
    *("axis", "metric", "group", "value", "low", "high"),
    *("p", "q", "n", "n_trials", "verdict"),
)


def differences_table(
    parts: Iterable[pd.DataFrame], *first: str, rates: bool = True
) -> pd.DataFrame:
    """The table `arm_differences`, from rows of `arm_difference`, with false discovery rates per
    metric if wanted; `first`: columns that say which arms."""
    found, columns = list(parts), [*first, *DIFFERENCE_COLUMNS]
    if not rates:
        columns.remove("q")
    if not found:
        return pd.DataFrame(columns=columns)
    table = pd.concat(found, ignore_index=True)
    q = table.groupby("metric")["p"].transform(benjamini_hochberg)
    return table.assign(q=q)[columns]


def variant_row(name: str, method: str, first: Values, **more: Any) -> dict[str, Any]:
    """A row of the table `variants`; first: what stands before the columns that all tracks of
    classifiers have. Later values replace earlier ones in their place."""
    usual = {
        "target_axis": "",
        "gamma": np.nan,
        "sparsity": 0.0,
        "realised": 0.0,
        "n_cut": 0,
        "seed": POOLED,
        "pooled": "",
        "chosen": True,
        "degenerate": 0,
    }
    return {"variant": name, "method": method, **first, **usual, **more}


UNCUT = {"met": True, "cut": "{}", "history": "[]", "mask_digest": "", "max_logit_difference": 0.0}
"""What the row of a model says that lost no filter."""


def over_repeats(rows: Sequence[Values], *means: str) -> Values:
    """What the row of a variant says of its models': the mean of `means`, how many are degenerate,
    the largest difference to the masked model."""
    return {
        **{name: float(np.mean([row[name] for row in rows])) for name in means},
        "degenerate": sum(row["degenerate"] for row in rows),
        "max_logit_difference": max(row["max_logit_difference"] for row in rows),
        "cut": "",
    }


def over_cuts(rows: Sequence[Values], *means: str) -> Values:
    """The same of models that lost filters: also how many on average, and whether all met their
    target."""
    return {
        **over_repeats(rows, *means),
        "n_cut": round(float(np.mean([row["n_cut"] for row in rows]))),
        "met": all(row["met"] for row in rows),
        "history": "",
    }


def image_variants(
    context: ImageContext,
    arms: Iterable[Any],
    first: Values,
    about: Callable[[Any], Values],
    of_model: Callable[[Any, Any], Values],
    means: Sequence[str],
    **more: Any,
) -> pd.DataFrame:
    """The table `variants` of an audit of images: the dense model, then every arm and its models.

    first, more: the track's own columns of the dense model, before and after those of all tracks.
    about: what rows say of an arm, of_model: of one model of it; means: what an arm's row says as
    the mean over its models.
    """
    dense = variant_row(DENSE, DENSE, first, **UNCUT, **more, flops=context.graph.flops())
    rows = [dense]
    for arm in arms:
        same, models = {**dense, **about(arm)}, []
        for shard in arm.shards():
            arrays, plain = context.without_weights(shard)
            own = {
                "variant": arm.id_of(shard),
                "seed": arm.number(shard),
                "pooled": arm.pooled,
                "chosen": False,
                "degenerate": int(degenerate(arrays["probabilities"])),
                "history": json.dumps(plain["history"]),
                "max_logit_difference": plain["max_logit_difference"],
                "flops": plain["flops"],
            }
            models.append({**same, **own, **of_model(arm, shard)})
        rows += [{**same, "variant": arm.pooled, **over_cuts(models, "flops", *means)}, *models]
    return pd.DataFrame(rows)


def answers_table(answers: Mapping[str, np.ndarray], items: pd.DataFrame, key: str) -> pd.DataFrame:
    """The table `predictions`, from the answers [items, classes] by variant, in the order of
    `items`. Columns: variant, the key of the items, p_0, p_1, … float32."""
    columns = [f"p_{place}" for place in range(next(iter(answers.values())).shape[1])]
    parts = [
        pd.DataFrame(found.astype(np.float32), columns=columns).assign(
            variant=name, **{key: items[key].to_numpy()}
        )
        for name, found in answers.items()
    ]
    return pd.concat(parts, ignore_index=True)[["variant", key, *columns]]


def curves_table(parts: Iterable[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """The table `curves`, of the curves that there are."""
    found = [part for part in parts if len(part)]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    return table.reindex(columns=list(columns))


def curve_of(arrays: Mapping[str, np.ndarray], variant: str, phase: str) -> pd.DataFrame:
    """The curve that a fit left among its arrays, empty where it left none."""
    found = pd.DataFrame(within(dict(arrays), "curve/")).rename(columns={"epoch": "step"})
    return found.assign(variant=variant, phase=phase)


def test_images(context: ImageContext) -> pd.DataFrame:
    """The table `images`: one row per test image, columns image_id, split, label and one per group
    column."""
    table = context.images.table.iloc[context.rows(TEST)].reset_index(drop=True)
    return table[["image_id", "split", "label", *context.images.groups]]


def image_tables(
    context: ImageContext,
    arms: Sequence[Any],
    measure: GroupMeasure,
    measured: Mapping[Any, Arm],
    variants: pd.DataFrame,
    layers: Mapping[str, Sequence[tuple[str, int, int]]],
    shown: Sequence[Any],
    check: Check,
) -> dict[str, pd.DataFrame]:
    """The tables that audits of image classifiers have in common. arms: `Repeats`, each with the
    measurement of its `cost`; shown: those whose first models' pictures are kept."""
    dense, images = context.answers(ImageShard("")), test_images(context)
    answers = {arm.id_of(shard): context.answers(shard) for arm in arms for shard in arm.shards()}
    firsts = [context.answers(arm.shards()[0]) for arm in shown]
    results, groups = numbers_of(measure, measured, check)
    return {
        "variants": variants,
        "results": results,
        "groups": groups,
        "images": images,
        "predictions": answers_table({DENSE: dense, **answers}, images, "image_id"),
        "thumbs": thumbnails(context, firsts, dense),
        "layers": layers_table(layers),
        "costs": costs_table(context, {arm.pooled: arm.cost for arm in arms}, variants),
    }


def fitted(context: ImageContext) -> dict[str, np.ndarray]:
    """Weights of a dense model that the audit fitted, by name; none where it came trained."""
    if context.settings.train is None:
        return {}
    return within(context.fetch_arrays(ImageShard("dense_weights"))[0], "weights/")


def layers_table(widths: Mapping[str, Sequence[tuple[str, int, int]]]) -> pd.DataFrame:
    """The table `layers`: one row per trial and group with columns variant, layer, group, filters,
    kept.

    widths: (group, filters, kept) of every group of every trial.
    """
    rows = [
        (name, place, group, width, kept)
        for name, layers in widths.items()
        for place, (group, width, kept) in enumerate(layers)
    ]
    return pd.DataFrame(rows, columns=["variant", "layer", "group", "filters", "kept"])


def costs_table(context: ImageContext, shards: Values, variants: pd.DataFrame) -> pd.DataFrame:
    """The table `costs`: one row for the dense model and one for each of `shards`, by variant.

    variants: the table `variants`, of which max_logit_difference is carried over.
    """
    shards = {DENSE: ImageShard("cost"), **shards}
    tables = context.fetch(list(shards.values()))
    found = pd.concat(
        [table.assign(variant=name) for name, table in zip(shards, tables, strict=True)],
        ignore_index=True,
    )
    worst = variants.set_index("variant")["max_logit_difference"]
    return found.assign(max_logit_difference=found["variant"].map(worst), agrees=True)


def kept_models(
    context: ImageContext, kept: Iterable[tuple[str, Any]], arrays: Callable[[Any], Values]
) -> dict[str, pd.DataFrame]:
    """The table `weights` by its name, none where no model is kept: a dense model that was fitted
    here, and of each shard in `kept`, by variant, what `arrays` gives."""
    dense = fitted(context)
    found = ((name, arrays(shard)) for name, shard in kept)
    table = weights_table(chain([(DENSE, dense)] if dense else [], found))
    return {"weights": table} if len(table) else {}


def weights_table(kept: Iterable[tuple[str, Mapping[str, np.ndarray]]]) -> pd.DataFrame:
    """The table `weights`, one row per tensor: columns variant, name, shape, dtype, data.

    Of `kept`, pairs of variant and tensors by name.
    """
    parts = [pack(dict(arrays)).assign(variant=name) for name, arrays in kept]
    columns = ["variant", "name", "shape", "dtype", "data"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


MOST = 400
"""Pictures kept per run."""
LARGEST = 64
"""Their longest side, in pixels."""


def thumbnails(
    context: ImageContext, firsts: Iterable[np.ndarray], dense: np.ndarray
) -> pd.DataFrame:
    """image_id and png (bytes) of at most MOST images; small groups first get their full share.

    firsts: probabilities of the test images by the first trial of each variant; dense: by the dense
    model, [images, classes] each. An image counts as changed when the first trial of any variant
    predicts another class than the dense model.
    """
    changed = np.zeros(len(dense), dtype=int)
    for answers in firsts:
        changed += answers.argmax(axis=1) != dense.argmax(axis=1)
    rows = context.rows(TEST)
    table = context.images.table.iloc[rows].reset_index(drop=True)
    places = chosen(table, list(context.images.groups), np.flatnonzero(changed > 0))
    pixels = (
        context.images.read(rows[places]) if len(places) else np.zeros((0, 1, 1, 3), dtype=np.uint8)
    )
    return pd.DataFrame(
        {"image_id": table["image_id"].to_numpy()[places], "png": [_png(one) for one in pixels]}
    )


def chosen(table: pd.DataFrame, groups: list[str], changed: np.ndarray) -> np.ndarray:
    """At most MOST of the changed images, dealt out evenly over the cells of class and groups,
    seeded.

    table: one row per test image with label and `groups`; changed and the result: row positions,
    [n] int.
    """
    if len(changed) <= MOST:
        return changed
    shuffled = rng("gallery").permutation(changed)
    cells = table.iloc[shuffled].groupby(["label", *groups], sort=True).cumcount().to_numpy()
    return np.sort(shuffled[np.argsort(cells, kind="stable")][:MOST])


def _png(pixels: np.ndarray) -> bytes:
    """PNG bytes of an image [height, width, 3] uint8, made smaller where it is larger than
    LARGEST."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((LARGEST, LARGEST))
    memory = io.BytesIO()
    picture.save(memory, "PNG", optimize=True)
    return memory.getvalue()


def first_repeat(run: Run, variant: Values) -> Values:
    """The row of a trial or seed itself; the first one's for a pooled variant."""
    table = run.table("variants")
    seeds = table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values(
        "seed"
    )
    return variant if seeds.empty else seeds.iloc[0].to_dict()


def not_one_cut(variant: Values, repeat: str) -> RequestError:
    """What is wrong with a row of which no one mask can be made; repeat: "trial" or "seed"."""
    what = f"stands for several {repeat}s." if variant["n_cut"] else "cuts nothing."
    fix = f"Choose that of a {repeat}, such as one ending in #0."
    return refusal("variant", f"{variant['variant']!r} {what}", fix)


def hold_or_refuse(folder: Path, found: Values) -> None:
    """Write agreement.json; MaskError where the reloaded model is another one, or answers
    otherwise."""
    write_json(folder / "agreement.json", found)
    if not found["same_weights"] or found.get("holds") is False:
        raise MaskError(
            f"The saved model does not answer as the audit says ({json.dumps(found)}); nothing was"
            " kept."
        )


def kept_weights(run: Run, variant: str) -> dict[str, np.ndarray]:
    """Weights of a model by name, in the shapes they had when kept. RequestError where the audit
    kept none of it."""
    table = run.table("weights") if run.has("weights") else None
    mine = None if table is None else table[table["variant"] == variant]
    if mine is None or mine.empty:
        kept = run.request.get("keep_weights", "first")
        what = f"{variant!r} has no weights in this audit, which kept those of: {kept}."
        raise refusal(
            "variant", what, "Choose the first one, or audit again with --keep-weights all."
        )
    return unpack(mine.drop(columns="variant"))[0]


def input_notes(images: ImageSet, of_model: Sequence[str], is_fresh: bool = False) -> list[str]:
    """What audits and evaluate say of their input before they measure.

    of_model: notes of the classifier; is_fresh: it was fitted on these images.
    """
    found = [*([images.stand_in] if images.stand_in else []), *images.notes, *of_model]
    if not is_fresh and any(note.startswith("No split is given") for note in images.notes):
        found.append(
            "The images were split here. If the model was trained on these test images, every "
            "change looks worse."
        )
    return found


def model_warnings(plan: ImagePlan) -> list[str]:
    """Notes of a model that came trained; for one that was fitted here, that it was."""
    request = plan.request
    if request.train is None:
        return list(plan.model.notes)
    epochs = recipe_of(request.train).epochs
    start = (
        "from random weights"
        if request.weights is None and plan.is_fresh
        else "from the weights given"
    )
    return [
        f"The dense model was fitted by this audit {start}, for {epochs}"
        f" epoch{'s' * (epochs > 1)} on the training images."
    ]


def brought_warnings(results: pd.DataFrame) -> list[str]:
    """That outputs may stand in another order than was said: the AUC of the dense model betrays it.

    results: the table `results`.
    """
    auc = where(results, variant="dense", metric="auc", axis="")["value"]
    low = [value for value in auc.head(1) if value < 0.5]
    return [
        f"The dense model's AUC of {one:.3f} is below one half: are its outputs in another order?"
        for one in low
    ]


def uncut_warnings(context: ImageContext) -> list[str]:
    """Which convolutions are left alone, and why."""
    graph, found = context.graph, []
    if graph.whole:
        found.append(f"{len(graph.whole)} convolutions cannot be cut and stay whole.")
    if graph.unsafe:
        first, count = ", ".join(graph.unsafe[:4]), len(graph.unsafe)
        found.append(
            f"Of these, {count} for which a trial cut gave other answers than silencing: {first}."
        )
    return found


# Whether the numbers of a classifier's run follow from its stored answers: AUC and accuracy are
# computed again.


TOLERANCE = 1e-6
TRIED, TRIED_ITEMS = "tried_predictions", "tried_items"
"""Tables of additions: answers of a set that was tried by hand, and what it was tried on."""


def again_from_answers(
    results: pd.DataFrame,
    answers: pd.DataFrame,
    items: pd.DataFrame,
    key: str,
    multi_class: str = OVO,
    split: str = "test",
) -> list[dict[str, Any]]:
    """AUC and accuracy of every variant, computed again from its answers and compared with the
    stored results.

    results: the table `results`. answers: one row per variant and item with p_0, p_1, …. items:
    their labels, by `key`. multi_class: the AUC of more than two classes. split: of the items.
    Returns one check {"what", "ok"} per metric.
    """
    columns = [name for name in answers if name.startswith("p_")]
    checks = []
    for metric in ("auc", "accuracy"):
        rows = where(results, metric=metric, axis="", split=split)
        stored = rows.set_index("variant")["value"]
        again = {
            str(name): _again(
                metric, part, columns, items.loc[part[key], "label"].to_numpy(), multi_class
            )
            for name, part in answers.groupby("variant", sort=False)
        }
        worst = max(apart(stored[name], value) for name, value in again.items())
        what = (
            f"{len(again)} values of {metric} follow from the stored answers (largest difference"
            f" {worst:.1e})"
        )
        checks.append({"what": what, "ok": bool(worst <= TOLERANCE)})
    return checks


def again_from_tried(run: Run, key: str, multi_class: str = OVO) -> list[Values]:
    """The same of sets that were tried by hand, from their answers to what they were tried on:
    tables of additions."""
    parts = {
        name: [one.table(name) for one in run.added if one.has(name)]
        for name in (TRIED, TRIED_ITEMS)
    }
    if not parts[TRIED]:
        return []
    answers = pd.concat(parts[TRIED]).drop_duplicates(["variant", key], keep="last")
    items = pd.concat(parts[TRIED_ITEMS]).drop_duplicates(key).set_index(key)
    results = run.table("results")
    split = next(name for name in ("validation", "train") if (results["split"] == name).any())
    sets = answers[answers["variant"].map(is_by_hand)]
    checks = again_from_answers(results, sets, items, key, multi_class, split)
    return [{**check, "what": f"tried on the {split} split: {check['what']}"} for check in checks]


def apart(one: float, other: float) -> float:
    """Their distance; two that are not defined agree."""
    return (
        0.0
        if np.isnan(one) and np.isnan(other)
        else float(np.nan_to_num(abs(one - other), nan=np.inf))
    )


def _again(
    metric: str, part: pd.DataFrame, columns: list[str], truth: np.ndarray, multi_class: str
) -> float:
    """One metric of one variant, from its rows of answers and the true classes [rows] int."""
    answers = part[columns].to_numpy(dtype=float)
    if metric == "accuracy":
        return float((answers.argmax(axis=1) == truth).mean())
    if len(columns) == 2 and len(np.unique(truth)) == 2:
        return float(roc_auc_score(truth, part[columns[1]].to_numpy(dtype=float)))
    if multi_class == OVR:
        there = np.unique(truth)
        rest = (
            [roc_auc_score(truth == name, answers[:, name]) for name in there]
            if len(there) > 1
            else [np.nan]
        )
        return float(np.mean(rest))
    pairs = [pair for pair in combinations(range(len(columns)), 2) if np.isin(pair, truth).all()]
    return (
        float(np.mean([_of_pair(truth, answers, *pair) for pair in pairs]))
        if pairs
        else float("nan")
    )


def _of_pair(truth: np.ndarray, answers: np.ndarray, one: int, other: int) -> float:
    """Mean of both AUCs of a pair of classes, on the images of these two (Hand and Till 2001).

    truth [images] int, answers [images, classes].
    """
    mine = (truth == one) | (truth == other)
    return float(
        np.mean([roc_auc_score(truth[mine] == name, answers[mine, name]) for name in (one, other)])
    )


def pooled_are_means(run: Run) -> dict[str, Any]:
    """Pooled variants are the means of their trials."""
    variants, results = run.table("variants"), run.table("results")
    trials = variants[variants["pooled"] != ""].set_index("variant")["pooled"]
    rows = where(results, metric="auc", axis="", split="test")
    auc = rows.set_index("variant")["value"]
    trials = trials[
        trials.index.isin(auc.index)
    ]  # sets by hand that were only tried have none of test items
    means = auc[trials.index].groupby(trials).mean()
    worst = float(np.abs(means - auc[means.index]).max()) if len(means) else 0.0
    what = (
        f"{len(means)} pooled values of auc are the means of their trials (largest difference"
        f" {worst:.1e})"
    )
    return {"what": what, "ok": worst <= TOLERANCE}
