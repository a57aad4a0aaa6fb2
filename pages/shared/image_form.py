"""The form of a new audit of an image classifier. Plain values out; whether they hold up is decided by the engine."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS
from engine.core import words
from engine.core.errors import Fault, RequestError
from engine.core.types import Setting
from engine.data.images.changes.base import image_changes
from engine.data.images.load import ImageInfo, look
from engine.models import catalog
from engine.tracks.image_classifiers.methods.base import filter_methods
from pages.shared import request_form, state
from pages.shared.controls import axis_label, capital, method_label
from pages.shared.safe import plain

EMBEDDED = ("avatars", "digits")
NONE = "none"
TOO_FEW = (
    f"A subgroup with fewer than {MIN_IMAGES} images in a split, or fewer than {MIN_PER_CLASS} of a class, gets no "
    "verdict: no gap is measured for it."
)


def ask() -> tuple[dict[str, Any], list[Fault]]:
    """Draw the form; return the fields of an ImageRequest as JSON-able values, and what could not be read."""
    faults: list[Fault] = []
    left, right = st.columns(2, gap="large")
    with left:
        request, info = what()
    with right:
        request |= _how(faults)
    with st.expander("How filters are chosen, and the PW loss"):
        request |= _methods(request["methods"])
    with st.expander("Training"):
        request |= _training()
    with st.expander("More settings"):
        request |= more(info)
    return {**request, "track": "image_classifiers"}, faults


def what() -> tuple[dict[str, Any], ImageInfo | None]:
    """Model, weights, images, target, groups."""
    names = [*(entry.name for entry in catalog.list_classifiers()), *catalog.ARCHITECTURES]
    model = st.selectbox(
        "Model",
        names,
        accept_new_options=True,
        key=_key("model"),
        help="An embedded model, a model folder of your own, or an architecture with weights given below.",
    )
    weights = None
    if model in catalog.ARCHITECTURES:
        weights = st.text_input(
            "Weights", key=_key("weights"), placeholder="path of a state dict (.safetensors, .pt, .th), or imagenet",
            help="Tensors only: a file with code in it is refused. Empty: a new model, trained first.",
        ).strip() or None  # fmt: skip
    data = st.selectbox(
        "Images",
        EMBEDDED,
        accept_new_options=True,
        key=_key("data"),
        help="Drawn avatars, handwritten digits, or a path: CelebA, LFW, Fitzpatrick17k, CIFAR-10, class folders, or a "
        "CSV with path, label and group columns.",
    )
    info = _look(str(data or "").strip())
    classes: list[str] = []
    if weights and weights != "imagenet":
        names = st.text_input(
            "Classes in the order of the model's outputs", key=_key("classes"), placeholder="as the images have them",
            help="A bare state dict does not say what its outputs mean.",
        )  # fmt: skip
        classes = [name.strip() for name in names.split(",") if name.strip()]
    chosen = {"model": (model or "").strip(), "weights": weights, "data": str(data or "").strip(), "classes": classes}
    return {**chosen, **_columns(info)}, info


def _look(data: str) -> ImageInfo | None:
    """What the source offers; None where nothing can read it, which the check will say."""
    try:
        return look(data)
    except RequestError:
        return None


def _columns(info: ImageInfo | None) -> dict[str, Any]:
    """What is predicted, and by which columns people are told apart."""
    if info is None:
        st.caption("Nothing could be read there yet.")
        return {"target": None, "axes": []}
    target = info.default_target
    if len(info.targets) > 1:
        place = info.targets.index(target)
        target = st.selectbox("Target", info.targets, place, format_func=_name, key=_key("target"))
    known = list(dict.fromkeys([*info.default_groups, *info.groups, "class"]))
    axes = st.pills(
        "Groups",
        [axis for axis in known if axis != target],
        default=list(info.default_groups),
        selection_mode="multi",
        wrap=True,
        format_func=axis_name,
        key=_key("axes"),
    )
    if info.stand_in:
        st.caption(plain(info.stand_in))
    return {"target": target or None, "axes": list(axes)}


def _how(faults: list[Fault]) -> dict[str, Any]:
    """Arms, speedups, trials."""
    arms = [arm for name in sorted(filter_methods()) for arm in (name, f"{name}+pw")]
    usual = ["autobot", "autobot+pw", "taylor", "taylor+pw", "random"]
    methods = st.pills(
        "Methods", arms, default=usual, selection_mode="multi", wrap=True, format_func=method_label, key=_key("methods")
    )
    text = st.text_input(
        "Target speedups (FLOPs before over after, separated by commas)", "2, 4, 16", key=_key("speedups")
    )
    left, right = st.columns(2)
    with left:
        trials = st.number_input(
            "Trials", value=3, key=_key("trials"), help="Prunings and retrainings of each variant, with other seeds."
        )
    with right:
        most = most_images(_key("most"))
    return {
        "methods": list(methods), "speedups": _speedups(text, faults), "trials": int(trials),
        "max_images": most,
    }  # fmt: skip


def most_images(key: str) -> int | None:
    """The field for how many images are used, which says whom too few of them leave without a verdict."""
    most = st.number_input("Images per split at most", value=None, step=1, key=key, placeholder="all of them")
    share = ""
    if most is not None and most > MIN_PER_CLASS:  # the draw keeps the shares of subgroups and classes
        share = f" Of {int(most):,} images that befalls a subgroup and class of less than "
        share += f"{100 * MIN_PER_CLASS / most:.2g} % of them."
    st.caption(TOO_FEW + share)
    return None if most is None else int(most)


def _speedups(text: str, faults: list[Fault]) -> list[float]:
    found = []
    for part in (part.strip().rstrip("x×").strip() for part in text.replace(";", ",").split(",")):
        try:
            found += [float(part)] if part else []
        except ValueError:
            faults.append(Fault("speedups", f"{part!r} is not a number.", "Write ratios such as 2, 4, 16."))
    return found


def _methods(arms: list[str]) -> dict[str, Any]:
    """What the chosen methods declare to be set, and θ and γ where the PW loss is on."""
    settings: dict[str, Any] = {}
    pw: dict[str, Any] = {}
    names = list(dict.fromkeys(arm.partition("+")[0] for arm in arms))
    for name in names:
        declared = filter_methods()[name].settings
        has_pw = f"{name}+pw" in arms
        if not (declared or has_pw):
            continue
        st.markdown(f"**{method_label(name)}**")
        with st.container(horizontal=True):
            if declared:
                settings[name] = {setting.name: _widget(setting, name) for setting in declared}
            if has_pw:
                pw[name] = {
                    "theta": st.number_input("θ, least weight", value=0.5, key=_key(f"{name}_theta")),
                    "gamma": st.number_input("γ, shape of weights", value=1.0, key=_key(f"{name}_gamma")),
                }
    return {"method_settings": settings, "pw": pw}


def _training() -> dict[str, Any]:
    """Retraining, and fitting the dense model first."""
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Retraining after the cut**")
        retrain = recipe("retrain", 5, 1e-3)
    train = None
    with right:
        first = st.toggle("Fit the dense model first", key=_key("train"))
        if first:
            train = recipe("train", 12, 3e-3)
    mirror = st.toggle(
        "Never mirror training images", key=_key("mirror"), help="Else they are flipped at random, but for digits."
    )
    return {"retrain": retrain, "train": train, "mirror": False if mirror else None}


def recipe(name: str, epochs: int, rate: float) -> dict[str, Any]:
    with st.container(horizontal=True):
        return {
            "epochs": int(st.number_input("Epochs", value=epochs, key=_key(f"{name}_epochs"))),
            "rate": float(st.number_input("Learning rate", value=rate, format="%.5f", key=_key(f"{name}_rate"))),
            "batch": int(st.number_input("Images per batch", value=128, key=_key(f"{name}_batch"))),
        }


def more(info: ImageInfo | None, repeats: str = "trials") -> dict[str, Any]:
    left, middle, right = st.columns(3, gap="medium")
    with left:
        change = st.selectbox(
            "Change the training images", [NONE, *image_changes()], format_func=_name, key=_key("change"),
            help="Manipulations of the paper: rare classes, an artefact, other balances.",
        )  # fmt: skip
        changes = [] if change == NONE else [{"name": change, **_change(change)}]
    with middle:
        size = st.number_input(
            "Side of the images in pixels", value=None, step=1, key=_key("size"), placeholder="the model's"
        )
        keep = st.selectbox(f"Keep cut models of {repeats}", ("first", "all", "none"), key=_key("keep"))
    with right:
        title = st.text_input("Title", key=_key("title"), placeholder="as the model and images")
        seed = st.number_input("First seed", value=0, key=_key("seed"))
    return {
        "changes": changes, "size": None if size is None else int(size), "keep_weights": keep, "title": title.strip(),
        "first_seed": int(seed),
    }  # fmt: skip


def _change(name: str) -> dict[str, Any]:
    """Settings of a change. Classes and groups are the data's own, so they are typed; empty means the usual ones."""
    found = {}
    for setting in image_changes()[name].settings:
        if setting.kind == "choice" and not setting.choices:
            label = capital(setting.name)
            value = st.text_input(label, key=_key(f"{name}_{setting.name}"), help=setting.help, placeholder="usual")
            found |= {setting.name: value.strip()} if value.strip() else {}
        else:
            found[setting.name] = _widget(setting, name)
    return found


def _widget(setting: Setting, method: str) -> Any:
    return request_form.widget(setting, f"image_{method}")


def _key(name: str) -> str:
    return state.form_key(f"image_{name}")


def _name(name: str) -> str:
    return plain(capital(name.replace("_", " ")))


def axis_name(axis: str) -> str:
    """A group column in words."""
    return plain(axis_label(axis)) if axis in words.AXES else _name(axis)
