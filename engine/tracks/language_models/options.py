"""Options of audits of language models, and how they become a request."""

from __future__ import annotations

import argparse

from engine.audit.command_line import _absolute, _numbers, _one_number, _settings
from engine.core.errors import Fault, RequestError
from engine.tracks.language_models.request import SEARCH, AuditRequest


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
