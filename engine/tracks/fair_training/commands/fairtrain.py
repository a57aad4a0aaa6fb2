"""fairtrain: train an image classifier to be sparse and fair in one run, and hold it against prune-then-repair."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from engine.audit.command_line import Ticker, checked, json_flag, store_of, store_option
from engine.audit.reading import absolute, numbers_of, pairs_of, settings_of
from engine.classifiers.images.options import change_of, images_options
from engine.classifiers.images.request import CLASS_AXIS, KEPT
from engine.core.errors import Fault, RequestError
from engine.tracks.fair_training.methods.base import RECIPE
from engine.tracks.fair_training.presets import sparsity_at
from engine.tracks.fair_training.request import FairRequest

MOST_STEPS = 34
"""More of them cut all but less than half a thousandth, which is 1 to three digits."""
ASIS = (
    "target", "size", "max_images", "notion", "iterations", "check_every", "seeds", "first_seed", "strength",
    "tolerance", "tradeoff_sparsity", "fair_gap", "within", "tune_on", "keep_weights", "device", "title", "surface",
    "restart",
)  # fmt: skip
"""Options whose words are the request's values."""


def add(commands: Any) -> None:
    parser = commands.add_parser("fairtrain", help="train an image classifier to be sparse and fair in one run")
    fair_options(parser)
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run)


def fair_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says what to train. What is not given is left to the request's usual values."""
    usual = FairRequest("", "", ())
    add = parser.add_argument
    add("--model", metavar="NAME_OR_FOLDER", help="demo-resnet, a folder, an architecture")
    images_options(add, " (default: avatars)")
    add("--group", metavar="AXIS", help="group column that training is to be fair about, or two joined with +")
    add("--axis", action="append", metavar="AXIS", help="further group columns to measure; may be given several times")
    add("--sparsity", metavar="LIST", help="shares of filters or weights to cut, or k3,k5,k8: 1 - 0.8^k")
    add("--method", action="append", metavar="NAME[,NAME]", help=f"default: {', '.join(usual.methods)}")
    add("--set", action="append", metavar="METHOD.NAME=VALUE", help="a setting, such as bifp-str.mask_rate=0.05")
    add("--lambda", type=float, dest="strength", metavar="L", help=f"weight of the fairness term ({usual.strength:g})")
    add("--tau", type=float, dest="tolerance", metavar="T", help=f"gap that costs nothing ({usual.tolerance:g})")
    add("--notion", help="accuracy, or degradation: which gap is trained against")
    add("--iterations", type=int, metavar="N", help=f"weight updates of one training ({usual.iterations})")
    add("--recipe", action="append", metavar="NAME=VALUE", help=", ".join(RECIPE))
    add("--check-every", type=int, metavar="N", help="weight updates between two looks at validation images")
    add("--seeds", type=int, help=f"how many seeds ({usual.seeds})")
    add("--seed", type=int, dest="first_seed", metavar="FIRST", help="the first of them")
    add("--tradeoff", metavar="LIST", help="values of λ for the trade-off of accuracy and gap")
    add("--tradeoff-sparsity", type=float, metavar="S", help=f"at which it is made ({usual.tradeoff_sparsity:g})")
    add("--tradeoff-method", action="append", metavar="NAME[,NAME]", help=f"{', '.join(usual.tradeoff_methods)}")
    add("--surface", action="store_const", const=True, help="the loss between BiFP and its ablations")
    add("--fair-gap", type=float, metavar="G", help="validation gap to be reached (half of the dense model's)")
    add("--within", type=float, metavar="A", help=f"validation accuracy that may be lost for it ({usual.within:g})")
    add("--tune-on", metavar="SPLIT", help="train, or validation as in the paper: images to cut and train on")
    add("--no-mirror", action="store_const", const=False, dest="mirror", help="never mirror training images")
    add("--keep-weights", help=f"of which seeds models are kept: {', '.join(KEPT)}")
    add("--keep-method", action="append", metavar="NAME[,NAME]", help="and of which methods (all)")
    add("--resume", metavar="JOB", help="go on with an unfinished job, as it was begun")
    add("--restart", action="store_const", const=True, help="begin again although data or weights changed")
    add("--device")
    add("--title")


def run(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Train here; an equal training that is under way elsewhere is waited for, a finished one is found."""
    from engine.audit.jobs import run_job
    from engine.report.summary import summary_of, summary_text

    request = checked(args, fair_request_of)
    found = run_job(store_of(args), request, Ticker())
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return summary_of(found), summary_text(found)


def fair_request_of(args: argparse.Namespace) -> FairRequest:
    """The request the words ask for. Everything that cannot be read raises RequestError together."""
    faults: list[Fault] = []
    values = _given(args, faults)
    if args.resume:
        return _resumed(args, values, faults)
    data = values.setdefault("data", "avatars")
    values.setdefault("axes", _usual_axes(data))
    if not values.get("model"):
        faults.append(Fault("--model", "is missing.", "Name a model, or a job with --resume."))
    if faults:
        raise RequestError(faults)
    return FairRequest(**values)


def _resumed(args: argparse.Namespace, values: dict[str, Any], faults: list[Fault]) -> FairRequest:
    """The request of a job. Settings given beside it must be its own: nothing is ever mixed."""
    from engine.audit.jobs import job_request

    try:
        begun = job_request(store_of(args), args.resume)
    except OSError:
        what = f"{args.resume!r} is not in the store."
        raise RequestError([*faults, Fault("--resume", what, "Give the id of a job, job-….")]) from None
    except (ValueError, TypeError, AttributeError, RequestError):
        what = f"the request.json of {args.resume} cannot be read."
        raise RequestError([*faults, Fault("--resume", what, "Ask again without --resume.")]) from None
    if not isinstance(begun, FairRequest):
        what = f"{args.resume} is no fair training."
        raise RequestError([*faults, Fault("--resume", what, "Resume it where it was begun.")])
    for name, value in values.items():
        was, now = getattr(begun, name), getattr(replace(begun, **{name: value}), name)
        if was != now and name != "restart":
            what = f"{args.resume} was begun with {was!r}, not {now!r}."
            faults.append(Fault(name, what, "Leave it out, or begin another training without --resume."))
    if faults:
        raise RequestError(faults)
    return replace(begun, restart=values.get("restart", begun.restart))


def _given(args: argparse.Namespace, faults: list[Fault]) -> dict[str, Any]:
    """Fields of the request that the words say something about."""
    found = {name: getattr(args, name) for name in (*ASIS, "mirror")}
    found |= {name: None if value is None else absolute(value)
              for name, value in (("model", args.model), ("data", args.data), ("weights", args.weights))}  # fmt: skip
    found |= {
        "methods": _names(args.method), "tradeoff_methods": _names(args.tradeoff_method),
        "keep_methods": _names(args.keep_method),
        "classes": _names(None if args.classes is None else [args.classes]),
        "axes": tuple(dict.fromkeys([*([args.group] if args.group else []), *(args.axis or ())])) or None,
        "method_settings": None if args.set is None else settings_of(args.set, faults),
        "sparsities": None if args.sparsity is None else shares_of("--sparsity", args.sparsity, faults),
        "tradeoff_strengths": None if args.tradeoff is None else numbers_of("--tradeoff", args.tradeoff, faults),
        "recipe": None if args.recipe is None else pairs_of("--recipe", args.recipe, faults),
        "train": None if args.train is None else pairs_of("--train", args.train, faults),
        "changes": None if args.change is None else tuple(change_of(text, faults) for text in args.change),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def shares_of(where: str, text: str, faults: list[Fault]) -> tuple[float, ...]:
    """ "0.5,k3" -> (0.5, 0.488): kN means 1 - 0.8^N to three digits, the schedule of the lottery ticket."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    steps = [part for part in parts if part[0] in "kK" and part[1:].isdecimal()]
    plain = numbers_of(where, ",".join(part for part in parts if part not in steps), faults)
    known = {step: int(step[1:]) for step in steps if len(step) < 4}
    for step in steps:
        if not 1 <= known.get(step, 0) <= MOST_STEPS:
            what = f"{step!r} cuts nothing or everything, to three digits."
            faults.append(Fault(where, what, f"Give k1 to k{MOST_STEPS}, or shares such as 0.488."))
    return (*plain, *(sparsity_at(k) for k in known.values() if 1 <= k <= MOST_STEPS))


def _usual_axes(data: str) -> tuple[str, ...]:
    """Those of the data where nobody names any."""
    from engine.data.images.load import look

    try:
        return tuple(axis for axis in look(data).default_groups if axis != CLASS_AXIS) or (CLASS_AXIS,)
    except RequestError:  # said once more, with all other faults, when the request is checked
        return (CLASS_AXIS,)


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    """["a,b", "c"] -> ("a", "b", "c"), each once."""
    if given is None:
        return None
    return tuple(dict.fromkeys(name.strip() for item in given for name in item.split(",") if name.strip()))
