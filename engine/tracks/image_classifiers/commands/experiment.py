"""experiment: run an experiment of the performance-weighted loss paper, in full or quick size."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.audit.command_line import Ticker, executor_of, json_flag, ray_option, store_of, store_option
from engine.core.errors import Fault, RequestError
from engine.tracks.image_classifiers.presets import PROTOCOLS


def add(commands: Any) -> None:
    parser = commands.add_parser("experiment", help="run an experiment of the PW-loss paper; see `experiment list`")
    add = parser.add_argument
    add("name", metavar="NAME", help='an experiment, or "list"')
    add("--data", metavar="PATH", help="the paper's data set (default: embedded images stand in for it)")
    add("--model", metavar="NAME", help="another model than the paper's")
    add("--weights", metavar="FILE", help="trained weights of the model, or imagenet")
    add("--protocol", choices=tuple(PROTOCOLS), default="paper", help="as the paper says, or its published code does")
    add("--quick", action="store_true", help="a size for two CPU cores")
    add("--trials", type=int, default=3)
    add("--seed", type=int, default=0, metavar="FIRST")
    add("--speedup", metavar="LIST", help="other target speedups")
    add("--max-images", type=int, metavar="N", help="at most so many images per split")
    add("--train", action="append", metavar="NAME=VALUE", help="fit the dense model first; epochs, rate, batch, …")
    add("--device", default="auto")
    add("--restart", action="store_true", help="begin again although data or weights changed since the last try")
    ray_option(parser)
    store_option(parser)
    json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> tuple[dict[str, Any] | list[Any], str]:
    """All requests are checked before the first one runs."""
    from engine.audit.jobs import check, run_job
    from engine.report.summary import summary_of, summary_text
    from engine.tracks.image_classifiers.experiments import experiment_named

    if args.name == "list":
        return _listed()
    requests = [replace(one, restart=args.restart) for one in experiment_named(args.name).requests(_ask(args))]
    faults: list[Fault] = []
    for request in requests:
        try:
            check(request, store_of(args))
        except RequestError as error:
            faults += error.faults
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    runs = [run_job(store_of(args), request, Ticker(), executor_of(args)) for request in requests]
    stand_in = "" if args.data else "The paper's data set was not given: embedded images stand in for it.\n\n"
    value = {"experiment": args.name, "runs": [summary_of(run) for run in runs]}
    return value, stand_in + "\n\n".join(summary_text(run) for run in runs)


def _listed() -> tuple[list[dict[str, str]], str]:
    from engine.tracks.image_classifiers.experiments import experiments

    found = [{"name": one.name, "figure": one.figure, "question": one.question} for one in experiments().values()]
    return found, "\n".join(f"{one['name']:<20} {one['figure']:<8} {one['question']}" for one in found)


def _ask(args: argparse.Namespace) -> Any:
    from engine.audit.reading import numbers_of, pairs_of
    from engine.tracks.image_classifiers.experiments import ExperimentAsk

    faults: list[Fault] = []
    speedups = numbers_of("--speedup", args.speedup, faults) if args.speedup else ()
    train = None if args.train is None else pairs_of("--train", args.train, faults)
    if args.data and not Path(args.data).expanduser().exists():
        faults.append(Fault("--data", f"{args.data} is not there.", "Give the data set's folder, or leave it out."))
    if args.trials < 1:
        faults.append(Fault("--trials", f"{args.trials} is too small.", "Give at least 1; 3 for intervals."))
    if faults:
        raise RequestError(faults)
    data = None if args.data is None else str(Path(args.data).expanduser().absolute())
    weights = args.weights
    if weights and Path(weights).expanduser().exists():
        weights = str(Path(weights).expanduser().absolute())
    return ExperimentAsk(
        data,
        args.model,
        weights,
        args.quick,
        args.trials,
        args.seed,
        speedups,
        args.max_images,
        train,
        args.device,
        args.protocol,
    )
