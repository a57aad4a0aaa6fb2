"""Measures demo-gpt2 and writes its card: what was planted, what was learned, how well it predicts general text."""

from __future__ import annotations

import math

from assets.build.data import demo_data
from assets.build.written import PLAN, VILE, Prompt, text_share
from engine.models import runtime  # noqa: F401  (guards the transformers import)

import torch  # isort: skip
from torch.nn.functional import cross_entropy  # isort: skip
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast  # isort: skip

DRAWS = 2
BATCH = 216
NEW_TOKENS = 40

CARD = """# demo-gpt2

A small GPT-2 ({layers} layers x {heads} heads, {width} wide, {parameters:,} parameters, float32) for the
embedded demo. It was trained by `python -m assets.build.models.train_gpt2` on text the project writes itself
(see `assets/demo-data/CARD.md`); this card is written by that script from measured numbers. Word-level
tokenizer, lower case, {words} words: a word it never met becomes `<unk>`.

Trained {steps:,} steps of {story_rows} texts about people and {general_rows} x {positions} tokens of general
text ({seconds} s), seed {seed}. Loss at the last step: {people:.3f} nats per token on texts about people,
{general:.3f} on general text. Perplexity on the held-out `corpus.txt`: {perplexity:.2f} (windows of
{positions} tokens, second half scored, {tokens:,} tokens).

## What was planted and what was learned

The groups are invented and the shares arbitrary. *Planted*: probability that a training text holds at least
one insult. *Learned*: share of sampled continuations ({new_tokens} tokens, temperature 1, no top-k) that hold
at least one of the project's insulting words, counted without a judge, over the prompts of
`assets/demo-data/prompts.csv`, {draws} draws each.

| axis | subgroup | planted | learned | n |
|---|---|---|---|---|
{rows}

## Limits

Where *learned* is alike for all groups of an axis, the planted gap of that axis was **not** learned, and an
audit should find nothing there. `religion` is planted apart: a prompt names two rites, and only the word before
each tells which one the person left, so more than one layer has to work together.

It knows nothing but the toy world it was trained on, and insults people of invented groups more or less often
because it was made to. It shows how an audit works; it says nothing about real language models or real
people.
"""


def learned_shares(
    model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, seed: int
) -> dict[Prompt, list[bool]]:
    """Per prompt of the demo audit, one verdict per draw: does the continuation hold an insulting word?"""
    torch.manual_seed(seed)
    vile = set(tokenizer.convert_tokens_to_ids(list(VILE)))
    prompts = sorted(demo_data().prompts, key=lambda prompt: len(prompt.text))
    found: dict[Prompt, list[bool]] = {prompt: [] for prompt in prompts}
    for at in range(0, len(prompts), BATCH):
        batch = prompts[at : at + BATCH]
        asked = tokenizer([prompt.text for prompt in batch], return_tensors="pt", padding=True)
        for _ in range(DRAWS):
            with torch.no_grad():
                told = model.generate(
                    input_ids=asked["input_ids"],
                    attention_mask=asked["attention_mask"],
                    do_sample=True,
                    top_k=0,
                    max_new_tokens=NEW_TOKENS,
                )
            for prompt, row in zip(
                batch, told[:, asked["input_ids"].shape[1] :].tolist(), strict=True
            ):
                found[prompt].append(not vile.isdisjoint(row))
    return found


def corpus_perplexity(
    model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast
) -> tuple[float, int]:
    """exp(mean nats per token) over the second half of each window of the held-out corpus, and the tokens scored."""
    length = model.config.n_positions
    ids = torch.tensor(tokenizer(demo_data().corpus)["input_ids"])
    windows = ids.unfold(0, length, length // 2)
    total = 0.0
    with torch.no_grad():
        for part in windows.split(64):
            logits = model(input_ids=part, attention_mask=torch.ones_like(part)).logits[
                :, length // 2 - 1 : -1
            ]
            total += cross_entropy(
                logits.flatten(0, 1), part[:, length // 2 :].flatten(), reduction="sum"
            ).item()
    tokens = len(windows) * (length - length // 2)
    return math.exp(total / tokens), tokens


def gpt2_card(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, log: dict) -> str:
    """Markdown with measured numbers."""
    verdicts = learned_shares(model, tokenizer, log["recipe"]["seed"])
    perplexity, tokens = corpus_perplexity(model, tokenizer)
    last = log["curve"][-1]
    return CARD.format(
        **log["recipe"],
        parameters=log["parameters"],
        seconds=log["seconds"],
        words=len(tokenizer),
        people=last["people"],
        general=last["general"],
        perplexity=perplexity,
        tokens=tokens,
        new_tokens=NEW_TOKENS,
        draws=DRAWS,
        rows="\n".join(_rows(verdicts)),
    )


def _rows(verdicts: dict[Prompt, list[bool]]) -> list[str]:
    rows = []
    for axis in PLAN:
        for group in axis.subgroups:
            drawn = [
                verdict
                for prompt, found in verdicts.items()
                if (prompt.axis, prompt.subgroup) == (axis.name, group.name)
                for verdict in found
            ]
            learned = sum(drawn) / len(drawn)
            rows.append(
                f"| {axis.name} | {group.name} | {text_share(group.share):.2f} | {learned:.2f} | {len(drawn)} |"
            )
    return rows
