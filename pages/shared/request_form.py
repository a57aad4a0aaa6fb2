"""The form of a new audit. Returns the request as plain values; whether it holds up is decided by the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from engine.core.errors import Fault, RequestError
from engine.core.types import ABLATIONS, AXES, READINGS, SPANS, Setting
from engine.models import catalog
from engine.tracks.language_models import words as own
from engine.tracks.language_models.scores.base import estimators, method_for
from engine.tracks.language_models.selection.base import selection_methods
from pages.shared import state, uploads
from pages.shared.controls import axis_label, capital, method_label, segmented
from pages.shared.safe import plain

EMBEDDED = "Embedded"
UPLOAD = "Upload"
PATH = "Path on this machine"


WHAT = {
    "language_models": "Attention heads of a language model",
    "text_classifiers": "Attention heads of a text classifier",
    "image_classifiers": "Filters of an image classifier",
    "fair_training": "Filters or weights, with fair training",
}


def ask() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of a request as JSON-able values, and what could not be read."""
    from pages.shared import fair_form, image_form, text_form

    forms = {
        "language_models": _heads,
        "text_classifiers": text_form.ask,
        "image_classifiers": image_form.ask,
        "fair_training": fair_form.ask,
    }
    return forms[segmented("What shall be cut?", list(WHAT), state.form_key("track"), WHAT.get, bind=None)]()


def _heads() -> tuple[dict[str, Any], list[Fault]]:
    faults: list[Fault] = []
    left, right = st.columns(2, gap="large")
    with left:
        request = _what()
    with right:
        request |= _how(faults)
    with st.expander("How heads are scored"):
        request |= _scoring()
    with st.expander("More settings"):
        request |= _more()
    return request, faults


def _what() -> dict[str, Any]:
    """Model, prompts, axes, text."""
    names = [entry.name for entry in catalog.list_models()]
    model = st.selectbox(
        "Model",
        names,
        accept_new_options=True,
        index=0 if names else None,
        key=state.form_key("model"),
        placeholder="Hub name or folder",
        help="Choose one, or type a hub name (EleutherAI/gpt-neo-125m) or a folder with a safetensors checkpoint.",
    )
    about = "A CSV with columns prompt, axis, subgroup. By path also a HolisticBias v1.x folder or the FASP JSON pair."
    prompts = _source("Prompts", "prompts", ["csv"], about)
    known = _known_axes(prompts)
    axes = st.pills(
        "Axes",
        known,
        default=known[:1],
        selection_mode="multi",
        wrap=True,
        format_func=lambda axis: plain(axis_label(axis)),
        key=state.form_key("axes"),
    )
    corpus = _source(
        "Text for perplexity",
        "corpus",
        None,
        "Any UTF-8 text the model should be able to predict.",
    )
    return {"model": (model or "").strip(), "prompts": prompts, "axes": list(axes), "corpus": corpus}


def _several(label: str, options: list[str], chosen: list[str], key: str, named: Callable[[str], str]) -> list[str]:
    """Buttons of which any number can be on."""
    more = {"default": chosen, "selection_mode": "multi", "wrap": True}
    return list(st.pills(label, options, format_func=named, key=state.form_key(key), **more))


def _source(label: str, key: str, kinds: list[str] | None, help_text: str) -> str | None:
    """None for the embedded data, else a path: typed, or where the upload was kept."""
    where = st.segmented_control(
        label, [EMBEDDED, UPLOAD, PATH], default=EMBEDDED, required=True, key=state.form_key(key), help=help_text
    )
    if where == UPLOAD:
        file = st.file_uploader(label, type=kinds, key=state.form_key(f"{key}_file"), label_visibility="collapsed")
        return str(uploads.kept(file)) if file else ""
    if where == PATH:
        text = st.text_input(label, key=state.form_key(f"{key}_path"), label_visibility="collapsed")
        return str(Path(text.strip()).expanduser()) if text.strip() else ""
    return None


def _known_axes(prompts: str | None) -> list[str]:
    """Axes the prompts hold; the five of the paper while that is unknown. Faults wait for the check."""
    from engine.data.prompts.load import known_axes

    try:
        found = known_axes(Path(prompts)) if prompts else list(AXES)
    except RequestError:
        found = []
    return list(found) or list(AXES)


def _how(faults: list[Fault]) -> dict[str, Any]:
    """Methods, sparsities, the protected share, seeds, judge."""
    methods = selection_methods()
    names = [*filter(methods.__contains__, own.METHODS), *sorted(set(methods) - set(own.METHODS))]
    wanted = st.pills(
        "Methods",
        names,
        default=names,
        selection_mode="multi",
        wrap=True,
        format_func=method_label,
        key=state.form_key("methods"),
    )
    label = "Sparsities (percent of heads cut, separated by commas)"
    sparsities = st.text_input(label, "0, 5, 10, 20", key=state.form_key("sparsities"))
    gamma: float | str = 0.3
    if any(methods[name].uses_gamma for name in wanted):
        gamma = _gamma()
    left, right = st.columns(2)
    with left:
        seeds = st.number_input("Seeds per prompt", value=3, key=state.form_key("seeds"))
    with right:
        limit = st.number_input(
            "Prompts per axis at most", value=None, step=1, key=state.form_key("limit"), placeholder="all of them"
        )
    judges = [entry.name for entry in catalog.list_judges()]
    judge = st.selectbox(
        "Toxicity judge", judges, accept_new_options=True, key=state.form_key("judge"), help=own.JUDGE, index=0
    )
    return {
        "methods": list(wanted),
        "sparsities": shares(sparsities, faults),
        "gamma": gamma,
        "seeds": int(seeds),
        "max_prompts": None if limit is None else int(limit),
        "judge": (judge or "").strip(),
    }


def _gamma() -> float | str:
    searched = st.toggle("Search the protected share γ on validation prompts", key=state.form_key("search"))
    if searched:
        return "search"
    percent = st.slider(
        "Protected share γ (percent of heads never cut, most needed for perplexity)", 0, 90, 30, 5,
        key=state.form_key("gamma"),
    )  # fmt: skip
    return percent / 100


def shares(text: str, faults: list[Fault]) -> list[float]:
    """ "0, 5, 10" -> [0.0, 0.05, 0.1]; what is no number is added to the faults."""
    shares = []
    for part in (part.strip().rstrip("%").strip() for part in text.replace(";", ",").split(",")):
        try:
            shares += [round(float(part) / 100, 6)] if part else []
        except ValueError:
            faults.append(Fault("sparsities", f"{part!r} is not a number.", "Write percentages such as 0, 5, 10, 20."))
    return shares


def _scoring() -> dict[str, Any]:
    """The estimators of both effects, and what they declare to be set."""
    from engine.tracks.language_models.request import AuditRequest

    usual, chosen = AuditRequest("", ()), {}
    left, right = st.columns(2, gap="large")
    for column, label, field, score in (
        (left, "Effect on bias", "estimator", "z_bias"),
        (right, "Effect on perplexity", "perplexity_estimator", "z_ppl"),
    ):
        with column:
            names = estimators(score)
            first = names.index(getattr(usual, field))
            chosen[field] = st.selectbox(label, names, first, format_func=_estimator, key=state.form_key(field))
            if chosen[field] in own.ESTIMATORS:
                st.caption(own.ESTIMATORS[chosen[field]].definition)
    with left:
        declared = method_for("z_bias", chosen["estimator"]).settings
        chosen["estimator_settings"] = {setting.name: widget(setting, chosen["estimator"]) for setting in declared}
    with right:
        key = state.form_key("ablation")
        chosen["ablation"] = st.selectbox("A head that is off is set", ABLATIONS, format_func=_ablation, key=key)
        st.caption(own.ABLATIONS[chosen["ablation"]].definition)
    return chosen


def widget(setting: Setting, method: str) -> Any:
    """The widget a declared setting asks for. Out of range is refused by the engine: with limits here, Streamlit would
    go on with the last number that was in range."""
    about = {"key": state.form_key(f"{method}_{setting.name}"), "help": setting.help}
    label = setting.label or capital(setting.name.replace("_", " "))
    if setting.kind == "flag":
        return st.toggle(label, bool(setting.default), **about)
    if setting.kind == "choice":
        return st.selectbox(label, setting.choices, setting.choices.index(setting.default), **about)
    kind = int if setting.kind == "integer" else float
    return kind(st.number_input(label, value=kind(setting.default), **about))


def _estimator(name: str) -> str:
    return capital(own.estimator_name(name))


def _more() -> dict[str, Any]:
    left, middle, right = st.columns(3, gap="medium")
    with left:
        reading = st.selectbox("Reading of bias", READINGS, format_func=_reading, key=state.form_key("reading"))
        span = st.selectbox("What the judge reads", SPANS, format_func=_span, key=state.form_key("span"))
        published = st.toggle("Decode as in the published code (top-k 50)", key=state.form_key("published"))
    with middle:
        new = st.number_input("New tokens per text", value=40, key=state.form_key("new_tokens"))
        prompt = st.number_input("Prompt tokens at most", value=22, key=state.form_key("prompt_tokens"))
        tokens = st.number_input(
            "Tokens of text for perplexity at most", value=None, step=1, key=state.form_key("tokens"), placeholder="all"
        )
    with right:
        title = st.text_input("Title", key=state.form_key("title"), placeholder="as the model and axes")
        first = st.number_input("First seed", value=0, key=state.form_key("first_seed"))
        revision = st.text_input("Revision of a hub model", key=state.form_key("revision"), placeholder="commit or tag")
        pin = st.text_input("SHA-256 of a local judge", key=state.form_key("pin"), placeholder="64 hexadecimal digits")
    return {
        "reading": reading, "span": span, "top_k": 50 if published else 0,
        "max_new_tokens": int(new),
        "max_prompt_tokens": int(prompt), "max_corpus_tokens": None if tokens is None else int(tokens),
        "first_seed": int(first), "title": title.strip(), "revision": revision.strip() or None,
        "judge_sha256": pin.strip() or None,
    }  # fmt: skip


def _reading(reading: str) -> str:
    return capital(own.READINGS[reading].name)


def _ablation(ablation: str) -> str:
    return capital(own.ABLATIONS[ablation].name)


def _span(span: str) -> str:
    return capital(own.SPANS[span].name)
