"""One text classifier on one set of texts: the same measures as an audit's, without pruning anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from engine.audit.class_order import in_order_of
from engine.audit.evaluate import GROUPS, Evaluation
from engine.audit.text_request import CLASS_AXIS, usual_axes
from engine.data.texts import SPLITS, TextAsk, TextSet, load_texts
from engine.errors import Fault, RequestError, unknown
from engine.metrics.borkan import BORKAN, BorkanMeasure
from engine.metrics.classifier_groups import GroupMeasure
from engine.metrics.task_metric import MATTHEWS, TaskMetric
from engine.surgery.record import MASK_FILE


def evaluate_text(
    model: str, data: str, target: str | None, axes: tuple[str, ...], split: str, max_texts: int | None, device: str
) -> Evaluation:
    """A classifier, whole or cut, group by group. RequestError where the model, the texts or the split are wrong."""
    from engine.models.load_text_classifier import inspect_text_model, load_text_classifier
    from engine.surgery.text_replay import load_cut_classifier

    if split not in SPLITS:
        raise RequestError(unknown("split", split, SPLITS))
    axes = axes or usual_axes(data)
    groups = tuple(dict.fromkeys(part for axis in axes for part in axis.split("+") if part != CLASS_AXIS))
    texts = load_texts(data, TextAsk(target=target, groups=groups, max_texts=max_texts))
    if (Path(model).expanduser() / MASK_FILE).is_file():
        classifier = load_cut_classifier(model, device)
        texts = in_order_of(texts, classifier.classes)
    else:
        info = inspect_text_model(model)
        if not info.has_head:
            what = "has no classification head, so it answers nothing yet."
            raise RequestError(Fault(info.name, what, "Give a fine-tuned classifier."))
        texts = in_order_of(texts, info.classes)
        classifier = load_text_classifier(model, texts.classes, device=device, max_length=min(128, info.n_positions))
    if len(texts.classes) != len(classifier.classes):
        what = f"{model} tells {len(classifier.classes)} classes apart, {texts.name} has {len(texts.classes)}."
        raise RequestError(Fault("data", what, "Choose other texts."))
    return _measured(model, classifier, texts, split, axes)


def _measured(model: str, classifier: object, texts: TextSet, split: str, axes: tuple[str, ...]) -> Evaluation:
    from engine.models.text_answers import probabilities_of

    table = texts.table.iloc[texts.rows(split)].reset_index(drop=True)
    if table.empty:
        raise RequestError(Fault("split", f"{texts.name} has no {split} texts.", "Choose another split."))
    second = table["text_b"].tolist() if texts.pair else None
    answers = probabilities_of(classifier, table["text"].tolist(), second).astype(np.float64)
    frame = table.rename(columns={"text_id": "image_id"})
    plain = GroupMeasure(frame, texts.classes, axes, answers, split=split).dense()
    borkan = BorkanMeasure(frame, texts.classes, axes, answers, split=split).dense_arm.pooled("dense")
    whole = [plain.results[plain.results["axis"] == ""]]
    if texts.metric == MATTHEWS:
        whole.append(TaskMetric(frame, texts.classes, answers, split=split).dense_arm.pooled("dense"))
    parts = [plain.groups[plain.groups["metric"].isin(GROUPS)], borkan[borkan["metric"].isin(BORKAN)]]
    gaps = plain.results[plain.results["metric"].str.endswith("_gap")]
    rows = [row for part in (*whole, *parts, gaps) if isinstance(part, pd.DataFrame) for row in part.to_dict("records")]
    return Evaluation(model, texts.name, len(table), rows)
