"""Options that several commands share, and how they become a request."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.audit.executors import Executor
from engine.audit.request import SEARCH, AuditRequest
from engine.errors import Fault, RequestError
from engine.store.runs import EMBEDDED, Store, default_root
from engine.types import Event


def json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="DIR", help="where runs are kept (default: $PRUNEAUDIT_STORE or user data)")


def store_of(args: argparse.Namespace) -> Store:
    return Store(args.store or default_root())


def stores_of(args: argparse.Namespace) -> list[Store]:
    """The store asked for and, when none was, the embedded demo too."""
    return [store_of(args)] if args.store else [store_of(args), Store(EMBEDDED, read_only=True)]


def request_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says what to audit."""
    default = AuditRequest("", ())
    add = parser.add_argument
    add("--model", required=True, metavar="NAME_OR_FOLDER", help="demo-gpt2, a folder, or a hub name")
    add("--axis", action="append", metavar="AXIS", help="may be given several times")
    add("--prompts", metavar="FILE_OR_FOLDER", help="HolisticBias folder, FASP pair or CSV (default: the demo's)")
    add("--corpus", metavar="FILE", help="UTF-8 text for perplexity (default: the demo's)")
    add("--method", action="append", metavar="METHOD", help="may be given several times (default: all)")
    add("--estimator", default=default.estimator, help="how z_bias is estimated")
    add("--set", action="append", metavar="NAME=VALUE", help="a setting of the estimator; may be given several times")
    add("--perplexity-estimator", default=default.perplexity_estimator, help="how z_ppl is estimated")
    add("--gamma", default="0.3", help='share of heads protected for perplexity, or "search"')
    add("--sparsity", default="0,0.05,0.1,0.2", help="shares of heads to cut, comma-separated")
    add("--seeds", type=int, default=default.seeds, help="how many decoding seeds")
    add("--seed", type=int, default=0, metavar="FIRST", help="the first of them")
    add("--max-prompts", type=int, metavar="N", help="at most so many prompts per axis")
    add("--max-corpus-tokens", type=int, metavar="N", help="at most so many tokens of the corpus")
    add("--judge", default=default.judge, metavar="NAME_OR_FOLDER", help="demo-judge, a detoxify name, or a folder")
    add("--judge-sha256", metavar="HASH", help="refuse the judge unless its checkpoint has this hash")
    add("--revision", metavar="COMMIT", help="revision of a hub model")
    add("--device", default="auto")
    add("--dtype", default="auto")
    add("--span", default=default.span, help="what the judge reads: continuation, prompt+continuation or prompt")
    add("--plain-case", action="store_true", help="judge lower-cased text without line breaks, as published")
    add("--ablation", default=default.ablation, help="what a silenced head hands over: zero, or its mean")
    add("--reading", default=default.reading, help="group_means, subgroup_mean_of_means or paired_prompts")
    add("--published-perplexity", action="store_true", help="the window of the published code")
    add("--new-tokens", type=int, default=default.max_new_tokens)
    add("--prompt-tokens", type=int, default=default.max_prompt_tokens)
    add("--temperature", type=float, default=1.0)
    add("--top-k", type=int, default=0, help="0 = off; the published code left 50")
    add("--top-p", type=float, default=1.0)
    add("--title", default="")


def ray_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ray", metavar="ADDRESS", default=os.environ.get("PRUNEAUDIT_RAY"),
        help='compute on this Ray cluster, host:port or "auto" (default: $PRUNEAUDIT_RAY, else this process)',
    )  # fmt: skip


def executor_of(args: argparse.Namespace, request: AuditRequest) -> Executor | None:
    """Where shards are computed: None is this process. RequestError where the cluster cannot be reached."""
    if not args.ray:
        return None
    from engine.audit.ray_executor import OnRay, connect

    connect(args.ray)
    return OnRay(args.ray, request)


def request_of(args: argparse.Namespace) -> AuditRequest:
    """The request the words ask for. Numbers that are none raise RequestError together."""
    faults: list[Fault] = []
    sparsities = _numbers("sparsity", args.sparsity, faults)
    gamma = args.gamma if args.gamma == SEARCH else _one_number("gamma", args.gamma, faults)
    settings = _settings(args.set or (), faults)
    if faults:
        raise RequestError(faults)
    methods = {"methods": tuple(dict.fromkeys(args.method))} if args.method else {}
    return AuditRequest(
        model=args.model,
        axes=tuple(dict.fromkeys(args.axis or ())),
        prompts=_absolute(args.prompts),
        corpus=_absolute(args.corpus),
        estimator=args.estimator,
        estimator_settings=settings,
        perplexity_estimator=args.perplexity_estimator,
        gamma=gamma,
        sparsities=sparsities,
        seeds=args.seeds,
        first_seed=args.seed,
        max_prompts=args.max_prompts,
        max_corpus_tokens=args.max_corpus_tokens,
        judge=args.judge,
        judge_sha256=args.judge_sha256,
        revision=args.revision,
        device=args.device,
        dtype=args.dtype,
        span=args.span,
        plain_case=args.plain_case,
        ablation=args.ablation,
        reading=args.reading,
        published_perplexity=args.published_perplexity,
        max_new_tokens=args.new_tokens,
        max_prompt_tokens=args.prompt_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        title=args.title,
        **methods,
    )


def checked(
    args: argparse.Namespace, faults: Sequence[Fault] = (), asked: Callable[[argparse.Namespace], Any] | None = None
) -> Any:
    """The request, once it and the store hold up; else RequestError with all faults together, `faults` first.

    Nothing is loaded or written: a wrong request leaves nothing behind.
    """
    from engine.audit.jobs import check, check_store

    try:
        request = (asked or request_of)(args)
    except RequestError as error:
        check_store(store_of(args), [*faults, *error.faults])
        raise
    check(request, store_of(args), faults)
    return request


def _absolute(path: str | None) -> str | None:
    """A job's process may start in another folder."""
    return str(Path(path).expanduser().absolute()) if path else None


def _one_number(name: str, text: str, faults: list[Fault]) -> float:
    found = _numbers(name, text, faults)
    if len(found) == 1:
        return found[0]
    if not any(fault.where == name for fault in faults):
        faults.append(Fault(name, f"{text!r} is not one number.", 'Write for example 0.3, or "search".'))
    return 0.0


def _numbers(name: str, text: str, faults: list[Fault]) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in str(text).split(",") if part.strip())
    except ValueError:
        faults.append(Fault(name, f"{text!r} is not a list of numbers.", "Write for example 0.05,0.1,0.2."))
        return ()


def _settings(given: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """["ess=0.3"] -> {"ess": 0.3}; values are read as JSON, else taken as text."""
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals):
            faults.append(Fault("--set", f"{item!r} is no NAME=VALUE.", "Write for example ess=0.3."))
            continue
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


class Ticker:
    """Progress on standard error: one line a second at most, rewritten on a terminal."""

    def __init__(self) -> None:
        self.last, self.line = 0.0, ""

    def __call__(self, event: Event) -> None:
        if event.note:
            print(f"{event.note}", file=sys.stderr)
            return
        left = (
            ""
            if event.eta is None
            else f", {event.eta / 60:.0f} min left"
            if event.eta > 90
            else f", {event.eta:.0f} s left"
        )
        line = (
            f"{event.phase}: {event.what} ({event.done}/{event.total}{left})"
            if event.total
            else f"{event.phase}: {event.what}"
        )
        if time.monotonic() - self.last < (0.2 if sys.stderr.isatty() else 5.0) or line == self.line:
            return
        self.last, self.line = time.monotonic(), line
        print(
            f"\r\x1b[2K{line}" if sys.stderr.isatty() else line,
            end="" if sys.stderr.isatty() else "\n",
            file=sys.stderr,
        )
