"""An audit of GPT-2 small's shape with random weights, over what cannot be avoided: FASP and
magnitude at 10 and 20 %, perplexity scores by `gradient`.

Usually 12 prompts, 640 tokens of text and texts of 10 tokens; with `--full` 60 prompts, 4,000
tokens, texts of 40.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import Measure
from benchmarks.scale._gpt2 import gpt2
from benchmarks.scale._unavoidable import over_unavoidable
from engine.tracks.language_models.request import AuditRequest

BAR = 1.5


def measures(full: bool = False) -> list[Measure]:
    prompts, tokens, new = (60, 4000, 40) if full else (12, 640, 10)
    lm = gpt2()
    with tempfile.TemporaryDirectory() as folder:
        lm.model.save_pretrained(folder)
        lm.tokenizer.save_pretrained(folder)
        request = AuditRequest(
            model=str(Path(folder)),
            axes=("nationality",),
            methods=("fasp", "magnitude"),
            sparsities=(0.0, 0.1, 0.2),
            gamma=0.3,
            seeds=1,
            max_prompts=prompts,
            max_corpus_tokens=tokens,
            max_new_tokens=new,
            perplexity_estimator="gradient",
            controls=0,
        )
        name = f"GPT-2 small's shape, {prompts} prompts, {tokens} tokens"
        return over_unavoidable(name, request, BAR)
