"""prompt: what the dense and a pruned model write to a prompt, side by side under the same
noise."""

from __future__ import annotations

from typing import Any

from engine.core.types import Hooks, Values
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Store, run_in
from engine.tracks.language_models.playground import question_of


class Prompt(Ask):
    """given: run (id), prompt; variant (id) or heads (a list of "layer.head" or units), else the
    variant where readers start. Also tokens (new ones), seed, axis; siblings (true, or words to put
    in the subgroup's place); head ("layer.head") whose attention is wanted.

    Told while it is written: {side: dense or pruned, row, text so far}. The answer: run, cut (in
    words), heads, judge, judged (what it reads), seed, tokens, notes, rows, attention. rows are the
    prompt and its siblings, each with prompt, subgroup, word, prompt_score, dense and pruned
    ({text, pieces, score}). parts_at is the first token that differs, or None; next the likeliest
    tokens there, or at the start: {token, dense, pruned, drawn_by}. attention is None or {layer,
    head, tokens, dense, pruned}: weights [tokens, tokens], None where the head is off.
    """

    name = "prompt"

    def answer(self, given: Values, warm: Warm, hooks: Hooks, store: Store) -> dict[str, Any]:
        run = run_in(store, given.get("run"))
        question = question_of(given, run)
        from engine.tracks.language_models.side_by_side import answered, loaded  # torch

        return answered(question, loaded(run, warm, question.arm), warm, hooks)
