"""`predict` for five axes of 300 prompts each, on GPT-2 small's shape: seconds until the first
number."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.report import Measure
from benchmarks.scale._gpt2 import gpt2
from engine.audit.session import Local
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.language_models.controls import with_measuring
from engine.tracks.language_models.opening import open_audit
from engine.tracks.language_models.predict import extrapolated
from engine.tracks.language_models.request import AuditRequest, validate

BAR = 60.0
AXES = ("nationality", "race_ethnicity", "gender_and_sex", "sexual_orientation", "religion")


def measures() -> list[Measure]:
    lm = gpt2()
    request = AuditRequest(model="demo-gpt2", axes=AXES, max_prompts=300, seeds=2)
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        audit = open_audit(validate(request), Store(Path(folder)), Hooks(), Local())
        audit.context = replace(
            audit.context, lm=lm
        )  # not a model on disk: what is left out is reading its weights
        audit.job = replace(audit.job, context=audit.context)
        audit.job = with_measuring(audit)
        found = extrapolated(audit)
    seconds = time.process_time() - start
    name = "predict, five axes × 300 prompts, GPT-2 small's shape"
    return [
        Measure(name, seconds, "s of processor time", BAR),
        Measure(f"{name}: two timings of the same work differ by", found["sure"], "times"),
    ]
