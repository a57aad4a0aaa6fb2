"""The form of a new fair training. Plain values out; whether they hold up is decided by the engine."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.errors import Fault
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.context import LOOKED_SHARE
from engine.tracks.fair_training.methods.base import FILTERS, NONE, WEIGHTS, fair_methods
from engine.tracks.fair_training.request import USUAL_RECIPE, FairRequest
from pages.shared import image_form, request_form, state
from pages.shared.controls import method_label
from pages.shared.safe import plain

USUAL = FairRequest("", "", ())
CLASS = "class"
NOTIONS = {
    "accuracy": "Accuracy: right equally often about every subgroup",
    "degradation": "Degradation: no subgroup loses more than another",
}
TUNED_ON = {"train": "Training images", "validation": "Validation images, as in the paper"}
UNITS = {FILTERS: "Cut filters", WEIGHTS: "Cut weights (nothing gets faster)", NONE: "Cut nothing"}
HALF = "half of the dense model's"
SAME_UPDATES = (
    "The same for every method, two stages together included. Not the same work: for every update of its mask BiFP "
    "reads a second batch, by default 1.75 times the images in all; SNIP reads some batches before it cuts; the "
    "Lottery Ticket trains once per round, and once more at the end."
)


def ask() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of a FairRequest as JSON-able values, and what could not be read."""
    faults: list[Fault] = []
    left, right = st.columns(2, gap="large")
    with left:
        request, info = image_form.what()
        request |= _fair_to(request["axes"])
    with right:
        request |= _how(faults)
    with st.expander("Settings of the methods"):
        request |= _settings(request["methods"])
    with st.expander("Trade-off over λ, and loss surface"):
        request |= _sweep(faults)
    with st.expander("Training, and when it counts as fair"):
        request |= _training()
    with st.expander("More settings"):
        request |= image_form.more(info, "seeds")
    return {**request, "track": "fair_training"}, faults


def _fair_to(axes: list[str]) -> dict[str, Any]:
    """Of the chosen groups the one the fairness term is about; it goes first. And what is to be alike."""
    offered = [axis for axis in axes if CLASS not in axis.split("+")]
    first = offered[0] if offered else ""
    if len(offered) > 1:
        key = state.key_of(_key("fair_to"), *offered)
        first = st.selectbox(
            "Fair to", offered, key=key, format_func=image_form.axis_name,
            help="Training is asked to be fair to these groups; the others are measured only.",
        )  # fmt: skip
    notion = st.selectbox(
        "What shall be alike between groups",
        list(NOTIONS),
        format_func=NOTIONS.get,
        key=_key("notion"),
        help=own.SURROGATE,
    )
    return {"axes": [*([first] if first else []), *(axis for axis in axes if axis != first)], "notion": notion}


def _how(faults: list[Fault]) -> dict[str, Any]:
    """Methods, sparsities, λ and τ, length, seeds."""
    methods = _methods()
    text = st.text_input(
        "Sparsities (percent of filters or weights cut, separated by commas)",
        ", ".join(f"{100 * share:g}" for share in USUAL.sparsities),
        key=_key("sparsities"),
        help="The usual ones are 1 − 0.8³, 1 − 0.8⁵ and 1 − 0.8⁸, as in the Lottery Ticket paper.",
    )
    left, right = st.columns(2)
    with left:
        strength = st.number_input(
            "λ, weight of fairness", value=USUAL.strength, step=0.5, key=_key("strength"),
            help="0 asks for no fairness. Methods that ignore groups have none.",
        )  # fmt: skip
        seeds = st.number_input(
            "Seeds", value=USUAL.seeds, key=_key("seeds"), help="Trainings of each variant. Three at least tell more."
        )
    with right:
        tolerance = st.number_input(
            "τ, gap that is let pass", value=USUAL.tolerance, key=_key("tolerance"),
            help="A surrogate gap up to this costs nothing.",
        )  # fmt: skip
        iterations = st.number_input(
            "Weight updates of one training", value=USUAL.iterations, key=_key("iterations"),
            help=SAME_UPDATES,
        )  # fmt: skip
    most = image_form.most_images(_key("most"))
    return {
        "methods": methods,
        "sparsities": request_form.shares(text, faults),
        "strength": float(strength),
        "tolerance": float(tolerance),
        "seeds": int(seeds),
        "iterations": int(iterations),
        "max_images": most,
    }


def _methods() -> list[str]:
    """What cuts filters, what cuts weights, what cuts nothing."""
    chosen = []
    for units, label in UNITS.items():
        names = [name for name in _ordered() if fair_methods()[name].units == units]
        chosen += st.pills(
            label, names, default=[name for name in names if name in USUAL.methods], selection_mode="multi", wrap=True,
            format_func=method_label, key=_key(f"methods_{units}"),
        )  # fmt: skip
    return list(chosen)


def _ordered() -> list[str]:
    """Methods as words know them, then others."""
    known = [name for name in own.METHODS if name in fair_methods()]
    return [*known, *(name for name in fair_methods() if name not in known)]


def _settings(methods: list[str]) -> dict[str, Any]:
    """What the chosen methods declare to be set; only what differs from the usual is asked for."""
    settings: dict[str, Any] = {}
    for name in methods:
        declared = fair_methods()[name].settings
        st.markdown(f"**{plain(method_label(name))}**")
        if name in own.METHODS:
            st.caption(own.METHODS[name].definition)
        if not declared:
            continue
        with st.container(horizontal=True):
            found = {setting.name: request_form.widget(setting, f"fair_{name}") for setting in declared}
        changed = {setting.name: found[setting.name] for setting in declared if found[setting.name] != setting.default}
        settings |= {name: changed} if changed else {}
    return {"method_settings": settings}


def _sweep(faults: list[Fault]) -> dict[str, Any]:
    """Several λ at one sparsity, and the loss around BiFP."""
    st.caption("Every λ trains every method named here again, with all seeds.")
    text = st.text_input(
        "λ of the trade-off (separated by commas; empty: none)", key=_key("strengths"), placeholder="0.1, 0.5, 1, 5"
    )
    left, right = st.columns(2, gap="large")
    with left:
        share = st.number_input(
            "At a sparsity of (percent)", value=100 * USUAL.tradeoff_sparsity, key=_key("tradeoff_at")
        )
    with right:
        names = [name for name in _ordered() if fair_methods()[name].fair and fair_methods()[name].units != NONE]
        methods = st.pills(
            "Methods of the trade-off", names, default=list(USUAL.tradeoff_methods), selection_mode="multi", wrap=True,
            format_func=method_label, key=_key("tradeoff_methods"),
        )  # fmt: skip
    surface = st.toggle(
        "Measure the loss between BiFP and its ablations", key=_key("surface"),
        help="On a plane and along straight lines, at the middle sparsity, for one seed. Trains the ablations.",
    )  # fmt: skip
    return {
        "tradeoff_strengths": _numbers(text, faults),
        "tradeoff_sparsity": round(float(share) / 100, 6),
        "tradeoff_methods": list(methods),
        "surface": bool(surface),
    }


def _numbers(text: str, faults: list[Fault]) -> list[float]:
    found = []
    for part in (part.strip() for part in text.replace(";", ",").split(",")):
        try:
            found += [float(part)] if part else []
        except ValueError:
            faults.append(Fault("λ of the trade-off", f"{part!r} is not a number.", "Write numbers such as 0.1, 1, 5."))
    return found


def _training() -> dict[str, Any]:
    """Rate and batch, what is trained on, the dense model first; the stated fairness."""
    left, right = st.columns(2, gap="large")
    with left:
        rate = st.number_input(
            "Learning rate of the weights", value=USUAL_RECIPE["rate"], format="%.5f", key=_key("rate")
        )
        batch = st.number_input("Images per batch", value=USUAL_RECIPE["batch"], key=_key("batch"))
        tuned = st.selectbox(
            "Cut and train on", list(TUNED_ON), format_func=TUNED_ON.get, key=_key("tune_on"),
            help="Results always come from test images.",
        )  # fmt: skip
        if tuned == "validation":
            looked = f"Only {100 * LOOKED_SHARE:g} % of the validation images are left to look at while models train."
            st.caption(f"{looked} {image_form.TOO_FEW}")
        first = st.toggle("Fit the dense model first", key=_key("train"))
        train = image_form.recipe("fair_train", 12, 3e-3) if first else None
        mirror = st.toggle("Never mirror training images", key=_key("mirror"))
    with right:
        gap = st.number_input(
            "Fair from a gap of", value=None, step=0.01, key=_key("fair_gap"), placeholder=HALF,
            help="On validation images. Counted is how much training it takes to get there.",
        )  # fmt: skip
        within = st.number_input(
            "Accuracy that may be lost for it", value=USUAL.within, step=0.01, key=_key("within"),
            help="Against the dense model, on validation images.",
        )  # fmt: skip
        every = st.number_input(
            "Updates between two looks at validation images", value=USUAL.check_every, key=_key("check_every"),
            help="Also how finely the training until then is counted.",
        )  # fmt: skip
    recipe = {"rate": float(rate), "batch": int(batch)}
    return {
        "recipe": {name: value for name, value in recipe.items() if value != USUAL_RECIPE[name]},
        "tune_on": tuned, "train": train, "mirror": False if mirror else None,
        "fair_gap": None if gap is None else float(gap), "within": float(within), "check_every": int(every),
    }  # fmt: skip


def _key(name: str) -> str:
    return state.form_key(f"fair_{name}")
