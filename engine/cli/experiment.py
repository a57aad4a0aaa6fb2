"""experiment: a figure or table of one of the papers, its published numbers beside ours."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.audit.command_line import (
    Ticker,
    absolute,
    command,
    executor_of,
    numbers_of,
    pairs_of,
    store_of,
)
from engine.audit.experiments import (
    PAPER,
    PUBLISHED,
    Experiment,
    ExperimentAsk,
    experiment_named,
    experiments,
)
from engine.audit.tracks import track_of_request
from engine.core.errors import Fault, RequestError, refuse
from engine.core.files import json_able, writable, write_whole
from engine.store.runs import EMBEDDED, Run, Store


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "experiment", help="repeat a figure or table of a paper; see `experiment list`"
    )
    add = parser.add_argument
    add("name", metavar="NAME", help='an experiment, or "list"')
    add(
        "--data",
        metavar="PATH",
        help="the paper's data: a folder, a file, or a hub name such as glue:rte",
    )
    add("--model", metavar="NAME", help="another model than the paper's")
    add("--weights", metavar="FILE", help="trained weights of the model, or imagenet")
    add("--corpus", metavar="FILE", help="text for perplexity, where a language model is measured")
    add(
        "--validation-corpus",
        metavar="FILE",
        help="text for scores and γ alone, where it comes as two files",
    )
    add("--judge", metavar="NAME", help="another judge of toxicity than the paper's")
    add(
        "--protocol",
        choices=(PAPER, PUBLISHED),
        default=PAPER,
        help="as the paper says, or its published code does",
    )
    add("--quick", action="store_true", help="on embedded data, or in a size for two CPU cores")
    add("--trials", type=int, metavar="N", help="how many seeds (default: the experiment's)")
    add("--seed", type=int, default=0, metavar="FIRST")
    add(
        "--speedup",
        "--sparsity",
        metavar="LIST",
        dest="levels",
        help="other speedups, or shares to cut",
    )
    add(
        "--max-images",
        "--max-texts",
        "--max-prompts",
        type=int,
        metavar="N",
        dest="most",
        help="at most this many per split; prompts: per axis",
    )
    add(
        "--train",
        action="append",
        metavar="NAME=VALUE",
        help="fit the dense model first; epochs, rate, batch, …",
    )
    add("--device", default="auto")
    add(
        "--out",
        metavar="FILE.html",
        help="write the table and the charts as one file that opens offline",
    )
    add(
        "--restart",
        action="store_true",
        help="begin again although data or weights changed since the last try",
    )
    command(parser, run, ray=True)


def run(args: argparse.Namespace) -> tuple[dict[str, Any] | list[Any], str]:
    """All requests are checked before the first one runs; an audit that is embedded or finished is
    opened."""
    from engine.report.report import experiment_text
    from engine.report.summary import summary_of

    if args.name == "list":
        return _listed()
    one, ask = experiment_named(args.name), _ask(args)
    named = {"experiment": one.name, "paper": one.paper, "figure": one.figure}
    if not one.computes:
        refuse(Experiment.faults(one, replace(ask, quick=True)))
        said = f"{one.paper}, {one.figure} is a sketch: there is nothing to compute."
        return {**named, "note": said}, said
    runs = [_run_of(plan, args) for plan in _plans(one, ask, args)]
    table = one.table(runs, ask)
    if args.out:
        from engine.report.report import experiment_html

        light, dark = ([*one.panels(runs, ask, dark=theme)] for theme in (False, True))
        page = experiment_html(one, table, runs, light, dark)
        write_whole(Path(args.out), lambda path: path.write_text(page, encoding="utf-8"), "file")
    value = {
        **named,
        "question": one.question,
        "findings": json_able(table.to_dict("records")),
        "runs": [summary_of(run) for run in runs],
    }
    return value, experiment_text(one, table, runs)


def _listed() -> tuple[list[dict[str, str]], str]:
    names = ("name", "paper", "figure", "question", "needs")
    found = [
        {name: getattr(one, name) for name in names} | {"quick": one.stand_in}
        for one in experiments().values()
    ]
    widths = {key: max(len(one[key]) for one in found) for key in ("name", "paper", "figure")}
    lines = (
        "  ".join([*(one[key].ljust(width) for key, width in widths.items()), one["question"]])
        for one in found
    )
    return found, "\n".join(lines)


def _ask(args: argparse.Namespace) -> ExperimentAsk:
    faults: list[Fault] = []
    levels = numbers_of("--speedup", args.levels, faults) if args.levels else ()
    train = None if args.train is None else pairs_of("--train", args.train, faults)
    if args.data and "/" in args.data and not Path(args.data).expanduser().exists():
        faults.append(
            Fault(
                "--data",
                f"{args.data} is not there.",
                "Give the data set's folder, or leave it out.",
            )
        )
    if args.trials is not None and args.trials < 1:
        faults.append(
            Fault("--trials", f"{args.trials} is too small.", "Give at least 1; 3 for intervals.")
        )
    if args.out and not (args.out.endswith(".html") and writable(Path(args.out))):
        faults.append(
            Fault(
                "--out", f"{args.out} cannot be written as HTML.", "Name a file that ends in .html."
            )
        )
    refuse(faults)
    names = ("data", "weights", "corpus", "validation_corpus")
    given: dict[str, Any] = {
        name: getattr(args, name) and absolute(getattr(args, name)) for name in names
    }
    same = ("model", "judge", "quick", "trials", "most", "device", "protocol")
    given |= {name: getattr(args, name) for name in same}
    return ExperimentAsk(**given, first_seed=args.seed, levels=levels, train=train)


def _plans(one: Experiment, ask: ExperimentAsk, args: argparse.Namespace) -> list[Any]:
    """Every request of the experiment, checked. RequestError with the faults of all, and of the
    store."""
    from engine.audit.jobs import check_store

    faults, plans = [*one.faults(ask), *_unread(one, ask)], []
    for request in () if faults else one.requests(ask):
        try:
            plans.append(
                track_of_request(request).part("validate")(replace(request, restart=args.restart))
            )
        except RequestError as error:
            faults += error.faults
    check_store(store_of(args), list(dict.fromkeys(faults)))
    return plans


def _unread(one: Experiment, ask: ExperimentAsk) -> list[Fault]:
    """A fault for every option that changes none of the experiment's requests, whatever it says."""
    names = ("weights", "corpus", "validation_corpus", "judge", "train")
    return [
        Fault(
            f"--{name.replace('_', '-')}",
            f"is not read by {one.name} as it is asked for.",
            "Leave it out.",
        )
        for name in names
        if getattr(ask, name) is not None
        and _requests(one, _with(ask, name, None))
        == _requests(one, ask)
        == _requests(one, _with(ask, name, "/other"))
    ]


def _with(ask: ExperimentAsk, name: str, value: str | None) -> ExperimentAsk:
    """The same with nothing or another value of one option: what it says may just be what is used
    anyway."""
    changed: Any = {"epochs": 12345} if value and name == "train" else value
    return replace(ask, **{name: changed})


def _requests(one: Experiment, ask: ExperimentAsk) -> list[Any]:
    """What it asks for; the options themselves where it looks into them at once and finds
    nothing."""
    try:
        return list(one.requests(ask))
    except RequestError:
        return [ask]


def _run_of(plan: Any, args: argparse.Namespace) -> Run:
    from engine.audit.jobs import run_job

    embedded = Store(EMBEDDED, read_only=True)
    if embedded.has(plan.run_id):
        return embedded.open(plan.run_id)
    return run_job(store_of(args), plan.request, Ticker(), executor_of(args))
