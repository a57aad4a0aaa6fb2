"""Options of audits of image classifiers, and how they become a request."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from engine.audit.reading import absolute, numbers_of, pairs_of, settings_of
from engine.classifiers.images.options import change_of, images_options
from engine.classifiers.images.request import CLASS_AXIS, KEPT
from engine.core.errors import Fault, RequestError
from engine.tracks.image_classifiers.request import ImageRequest

HEADS_ONLY = (
    "prompts", "corpus", "estimator", "perplexity_estimator", "gamma", "sparsity", "seeds", "max_prompts",
    "max_corpus_tokens", "judge", "judge_sha256", "revision", "dtype", "span", "plain_case", "ablation", "reading",
    "published_perplexity", "ray", "new_tokens", "prompt_tokens", "temperature", "top_k", "top_p",
)  # fmt: skip
"""Options that mean nothing for an image classifier."""
FILTERS_ONLY = (
    "data", "target", "weights", "classes", "size", "max_images", "change", "speedup", "trials", "pw", "retrain",
    "train", "no_mirror", "keep_weights", "loss_share",
)  # fmt: skip


def image_options(parser: argparse.ArgumentParser) -> None:
    """What an audit of an image classifier asks for besides --model, --axis, --method, --set, --seed and --device."""
    usual = ImageRequest("", "", ())
    add = parser.add_argument_group("image classifiers").add_argument
    images_options(add, "")
    add("--speedup", default=None, metavar="LIST", help="target speedups (FLOPs dense over cut), default 2,4")
    add("--trials", type=int, default=usual.trials, help="prunings and retrainings of each variant")
    add("--pw", action="append", metavar="METHOD:theta=T,gamma=G", help="the PW loss of one method")
    add("--retrain", action="append", metavar="NAME=VALUE", help="epochs, rate, batch, … of retraining")
    add("--no-mirror", action="store_true", help="never mirror training images")
    add("--keep-weights", default=usual.keep_weights, help=f"of which trials cut models are kept: {', '.join(KEPT)}")
    add("--loss-share", type=int, default=0, metavar="BATCHES", help="record shares of the pruning loss")


def is_image_request(args: argparse.Namespace) -> bool:
    """Whether the words ask for an audit of an image classifier: they name images, or an image model."""
    if any(_given(args, name) for name in ("data", "speedup", "weights")):
        return True
    from engine.models.load_image_classifier import is_classifier_name

    return is_classifier_name(args.model)


def foreign_options(args: argparse.Namespace, names: Sequence[str], track: str) -> list[Fault]:
    """Options given that belong to the other track."""
    return [
        Fault(f"--{name.replace('_', '-')}", f"is not for {track}.", "Leave it out.")
        for name in names if _given(args, name)
    ]  # fmt: skip


def _given(args: argparse.Namespace, name: str) -> bool:
    return getattr(args, name) != args.parser.get_default(name)


def image_request_of(args: argparse.Namespace) -> ImageRequest:
    """The request the words ask for. Everything that cannot be read raises RequestError together."""
    from engine.data.images.load import look

    faults: list[Fault] = []
    data = args.data or "avatars"
    axes = tuple(dict.fromkeys(args.axis or ()))
    if not axes:
        try:
            axes = look(absolute(data)).default_groups
        except RequestError:  # said once more, with all other faults, when the request is checked
            axes = (CLASS_AXIS,)
    values = {
        "changes": tuple(change_of(text, faults) for text in args.change or ()),
        "method_settings": settings_of(args.set or (), faults),
        "pw": dict(_pw(text, faults) for text in args.pw or ()),
        "speedups": numbers_of("--speedup", args.speedup or "2,4", faults),
        "retrain": pairs_of("--retrain", args.retrain or (), faults),
        "train": None if args.train is None else pairs_of("--train", args.train, faults),
    }
    if faults:
        raise RequestError(faults)
    if args.classes:
        values["classes"] = tuple(name.strip() for name in args.classes.split(",") if name.strip())
    if args.method:
        values["methods"] = tuple(dict.fromkeys(args.method))
    return ImageRequest(
        model=absolute(args.model), data=absolute(data), axes=axes, target=args.target,
        weights=None if args.weights is None else absolute(args.weights), size=args.size, max_images=args.max_images,
        trials=args.trials, first_seed=args.seed, mirror=False if args.no_mirror else None,
        keep_weights=args.keep_weights,
        loss_share=args.loss_share, device=args.device, title=args.title, **values,
    )  # fmt: skip


def _pw(text: str, faults: list[Fault]) -> tuple[str, dict[str, Any]]:
    method, _, rest = text.partition(":")
    return method, pairs_of("--pw", rest.split(","), faults)
