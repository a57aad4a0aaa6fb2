"""The form of a new audit of a text classifier. Plain values out; whether they hold up is decided by the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from engine.core.errors import Fault, RequestError
from engine.data.texts.load import TextInfo, look_texts
from engine.data.texts.readers.glue_tasks import GLUE_TASKS
from engine.models import catalog
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.presets import SCORE_TEXTS, tune_of
from engine.tracks.text_classifiers.procedures import procedures
from engine.tracks.text_classifiers.scores.base import head_importances
from pages.shared import request_form, state, uploads
from pages.shared.controls import axis_label, capital
from pages.shared.safe import plain

EMBEDDED = ("remarks", "topics")
FIXED = "As it is brought"
OWN = "Fine-tuned here, with every seed"
USUAL = "Usual: fine-tuned here where it has no head"
RETUNE = {USUAL: None, OWN: True, FIXED: False}
KEEP = {"first": "Of the first seed", "all": "Of every seed", "none": "Of none"}


def ask() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of a TextRequest as JSON-able values, and what could not be read."""
    faults: list[Fault] = []
    left, right = st.columns(2, gap="large")
    with left:
        request, info = _what()
    with right:
        request |= _how(faults)
    with st.expander("How heads are scored"):
        request |= _scoring(request["methods"])
    with st.expander("Fine-tuning"):
        request |= _training(request["model"])
    with st.expander("More settings"):
        request |= _more(info)
    return {**request, "track": "text_classifiers"}, faults


def _what() -> tuple[dict[str, Any], TextInfo | None]:
    """Model, pre-trained weights, texts, groups."""
    names = [entry.name for entry in catalog.list_text_classifiers()]
    model = st.selectbox(
        "Model",
        names,
        accept_new_options=True,
        index=0 if names else None,
        key=_key("model"),
        placeholder="Hub name or folder",
        help="A text classifier, or an encoder without a classification head (bert-base-uncased), which is then "
        "fine-tuned here. BERT, DistilBERT or RoBERTa, with safetensors weights.",
    )
    pretrained = st.text_input(
        "Pre-trained weights", key=_key("pretrained"), placeholder="those the model brings along, if any",
        help="Hub name or folder of the weights before fine-tuning. A winning ticket is trained from them.",
    ).strip() or None  # fmt: skip
    data, typed = _data()
    info = _look(data)
    chosen = {"model": (model or "").strip(), "pretrained": pretrained, "data": data}
    return {**chosen, **_columns(info, typed)}, info


def _data() -> tuple[str, bool]:
    """Embedded, a GLUE task, a path; or an upload. Whether something was typed or uploaded at all."""
    options = [*EMBEDDED, *(f"glue:{task}" for task in GLUE_TASKS)]
    data = st.selectbox(
        "Texts",
        options,
        accept_new_options=True,
        key=_key("data"),
        help="Embedded (remarks, topics), a GLUE task from the hub, or a path: the folder of a GLUE task, or a CSV "
        "with columns text and label, perhaps text_b, split and group columns.",
    )
    file = st.file_uploader("Or a file of your own", type=["csv", "tsv"], key=_key("file"))
    if file:
        return str(uploads.kept(file)), True
    text = str(data or "").strip()
    is_path = text not in options
    return (str(Path(text).expanduser()) if is_path and text else text), is_path


def _look(data: str) -> TextInfo | None:
    """What the source offers; None where nothing can read it, which the check will say. Downloads nothing."""
    if not data or data.startswith("glue:"):
        return None
    try:
        return look_texts(data)
    except RequestError:
        return None


def _columns(info: TextInfo | None, typed: bool) -> dict[str, Any]:
    """Which columns are text and label where that is open, and by which people are told apart."""
    if info is None:
        st.caption("Groups: length and class; more once the texts can be read.")
        known, usual = ["length", "class"], ["length"]
        return {"axes": _axes(known, usual), "text": None, "text_b": None, "target": None}
    columns: dict[str, Any] = {"text": None, "text_b": None, "target": None}
    if typed and info.columns:
        columns = _roles(info)
    known = list(dict.fromkeys([*info.default_groups, *info.groups, "class"]))
    taken = set(filter(None, columns.values()))
    usual = list(info.default_groups) or ["class"]
    axes = _axes([axis for axis in known if axis not in taken], [axis for axis in usual if axis not in taken])
    if info.note:
        st.caption(plain(info.note))
    return {"axes": axes, **columns}


def _roles(info: TextInfo) -> dict[str, Any]:
    """Columns of a file: text, second text, label."""
    columns, none = list(info.columns), "none"
    place = {"text": info.default_text, "text_b": "text_b", "target": info.default_target}
    first, second, third = st.columns(3, gap="small")
    with first:
        text = _column("Text", columns, place["text"], "text")
    with second:
        other = _column("Second text", [none, *columns], place["text_b"], "text_b")
    with third:
        target = _column("Label", columns, place["target"], "target")
    return {"text": text, "text_b": "" if other == none else other, "target": target}


def _column(label: str, options: list[str], usual: str, key: str) -> str:
    index = options.index(usual) if usual in options else 0
    return st.selectbox(label, options, index, format_func=plain, key=_key(key))


def _axes(known: list[str], usual: list[str]) -> list[str]:
    """Other texts have other groups, so what was chosen of these is not carried over."""
    key = state.key_of(_key("axes"), *known)
    more = {"default": usual, "selection_mode": "multi", "wrap": True, "format_func": _axis, "key": key}
    return list(st.pills("Groups", known, **more))


def _how(faults: list[Fault]) -> dict[str, Any]:
    """Arms, shares, seeds."""
    chosen = st.pills(
        "Procedures", list(procedures()), default=["one-shot-isp", "once"], selection_mode="multi", wrap=True,
        format_func=lambda name: capital(own.procedure_name(name)), key=_key("procedures"),
    )  # fmt: skip
    scores = st.pills(
        "Scores", [*filter(head_importances().__contains__, own.IMPORTANCE)], default=["conductance", "random"],
        selection_mode="multi", wrap=True, format_func=lambda name: capital(own.importance_name(name)),
        key=_key("scores"), help="Random choice is the control: what a cut costs without any knowledge of the heads.",
    )  # fmt: skip
    for name in chosen:
        if name in own.PROCEDURES:
            st.caption(f"**{capital(own.procedure_name(name))}**: {own.PROCEDURES[name].definition}")
    text = st.text_input("Sparsities (percent of heads cut, separated by commas)", "25, 50, 75", key=_key("sparsities"))
    left, right = st.columns(2)
    with left:
        trials = st.number_input(
            "Seeds", value=3, key=_key("trials"), help="Fine-tunings of everything. Three at least for a ticket."
        )
    with right:
        most = st.number_input(
            "Texts per split at most", value=None, step=1, key=_key("most"), placeholder="all of them"
        )
    return {
        "methods": [f"{procedure}:{score}" for procedure in chosen for score in scores],
        "sparsities": request_form.shares(text, faults),
        "trials": int(trials), "max_texts": None if most is None else int(most),
    }  # fmt: skip


def _scoring(arms: list[str]) -> dict[str, Any]:
    """What the chosen scores declare to be set, how many texts they read, how much goes in a round."""
    left, right = st.columns(2, gap="large")
    with left:
        texts = st.number_input(
            "Training texts a score reads", value=SCORE_TEXTS, key=_key("score_texts"),
            help="Drawn in equal numbers from the classes, of usual length.",
        )  # fmt: skip
    with right:
        step = st.slider("Heads cut in one iteration (percent)", 1, 50, 10, key=_key("step"))
    settings: dict[str, Any] = {}
    for name in dict.fromkeys(arm.partition(":")[2] for arm in arms):
        declared = [setting for setting in head_importances()[name].settings if setting.name != "at_once"]
        if not declared:
            continue
        st.markdown(f"**{capital(own.importance_name(name))}**")
        with st.container(horizontal=True):
            settings[name] = {setting.name: request_form.widget(setting, f"text_{name}") for setting in declared}
    return {"score_settings": settings, "score_texts": int(texts), "step": step / 100}


def _training(model: str) -> dict[str, Any]:
    usual = tune_of(model)
    full = st.segmented_control(
        "The full model", list(RETUNE), default=USUAL, required=True, key=_key("retune"),
        help="What tickets are compared with. Fine-tuned here: with every seed, as the subnetworks are.",
    )  # fmt: skip
    with st.container(horizontal=True):
        tune = {
            "epochs": int(st.number_input("Epochs", value=usual["epochs"], key=_key("epochs"))),
            "rate": float(st.number_input("Learning rate", value=usual["rate"], format="%.6f", key=_key("rate"))),
            "batch": int(st.number_input("Texts per batch", value=usual["batch"], key=_key("batch"))),
        }
    return {"retune": RETUNE[full], "tune": {name: value for name, value in tune.items() if value != usual[name]}}


def _more(info: TextInfo | None) -> dict[str, Any]:
    left, middle, right = st.columns(3, gap="medium")
    with left:
        length = st.number_input(
            "Tokens of a text at most", value=None, step=1, key=_key("length"), placeholder="128, or what the model can"
        )
    with middle:
        keep = st.selectbox("Keep the weights of cut models", list(KEEP), format_func=KEEP.get, key=_key("keep"))
    with right:
        title = st.text_input("Title", key=_key("title"), placeholder="as the model and texts")
        seed = st.number_input("First seed", value=0, key=_key("seed"))
    return {
        "max_length": None if length is None else int(length), "keep_weights": keep, "title": title.strip(),
        "first_seed": int(seed),
    }  # fmt: skip


def _axis(axis: str) -> str:
    return plain(axis_label(axis))


def _key(name: str) -> str:
    return state.form_key(f"text_{name}")
