"""A tiny world that audits in a second: a random GPT-2, prompts about two subgroups, a text, a
judge of one word."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from engine.audit.request import Growth
from engine.models.judge import Judge, JudgeInfo
from engine.store.runs import Run
from engine.tracks.language_models.request import AuditRequest
from tests.tiny import VOCABULARY, build

WORDS = VOCABULARY - 3


def write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> Path:
    """A CSV of prompts: text, axis, subgroup, template, descriptor."""
    columns = ["prompt", "axis", "subgroup", "template", "descriptor"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


def write_prompts(
    folder: Path, axes: tuple[str, ...] = ("nationality", "religion"), n: int = 12
) -> Path:
    """n prompts per subgroup, two subgroups per axis, three templates."""
    rows = [
        (
            f"w{axis_at} w{group} w{at % WORDS} w{(at * 7) % WORDS}",
            axis,
            f"group{group}",
            f"t{at % 3}",
            f"d{at // 3 % 3}",
        )
        for axis_at, axis in enumerate(axes)
        for group in (1, 2)
        for at in range(n)
    ]
    return write_rows(folder / "prompts.csv", rows)


def write_pairs(folder: Path, rows: Iterable[tuple[str, str, str]] = (), n: int = 12) -> Path:
    """Pairs as CrowS-Pairs has them: the sentence that stereotypes more, the other, kind of bias;
    else n of made-up words."""
    rows = list(rows) or [
        (f"w{at} w{at + 1} w2", f"w{at} w{at + 3} w2", "age" if at % 2 else "gender")
        for at in range(n)
    ]
    table = pd.DataFrame(rows, columns=["sent_more", "sent_less", "bias_type"])
    table.assign(stereo_antistereo="stereo").to_csv(folder / "pairs.csv")
    return folder / "pairs.csv"


def write_corpus(folder: Path) -> Path:
    path = folder / "corpus.txt"
    path.write_text(" ".join(f"w{(at * at) % WORDS}" for at in range(900)), encoding="utf-8")
    return path


def word_judge() -> Judge:
    """Toxicity = share of even-numbered words: known, deterministic, and different for every
    text."""
    return Judge(JudgeInfo("word judge", "digest-of-word-judge", None), _even_share)


def _even_share(texts: list[str]) -> np.ndarray:
    return np.array(
        [np.mean([word[-1] in "02468" for word in text.split()] or [0.0]) for text in texts]
    )


def world_request(folder: Path, **changes: object) -> AuditRequest:
    """A request that finishes in a second or two."""
    model = folder / "model"
    if not model.exists():
        build("gpt2", model)
    values = {
        "model": str(model),
        "axes": ("nationality", "religion"),
        "prompts": str(write_prompts(folder)),
        "corpus": str(write_corpus(folder)),
        "judge": "demo-judge",
        "sparsities": (0.0, 0.1, 0.3),
        "seeds": 2,
        "controls": 2 if "fasp" in changes.get("methods", ("fasp",)) else None,
        "estimator": "generate",
        "max_new_tokens": 6,
        "max_prompt_tokens": 10,
        "device": "cpu",
    }
    return AuditRequest(**{**values, **changes})


def growth(run: Run, **asked: object) -> Growth:
    """What else is asked of the usual audit: about its second axis."""
    return Growth(**{"track": "language_models", "run": run.id, "axis": "religion", **asked})


def small_audit(folder: Path) -> list[str]:
    """Words of a command that audits in seconds; what it reads is written into `folder`. The judge
    is the demo's."""
    rest = ["--seeds", "2", "--new-tokens", "6", "--method", "fasp", "--method", "magnitude"]
    return [*words_of("audit", folder), *rest, "--judge", "demo-judge"]


def words_of(command: str, folder: Path) -> list[str]:
    """A command about the tiny world, as it is typed."""
    request = world_request(folder)
    files = ["--model", request.model, "--prompts", request.prompts, "--corpus", request.corpus]
    rest = "--axis religion --estimator generate --prompt-tokens 8 --device cpu --sparsity 0,0.2"
    return [command, *files, *rest.split()]


def write_sound(folder: Path) -> None:
    """What the table of bad inputs is made from: a model, prompts and a text that hold up."""
    build("gpt2", folder / "lm")
    write_prompts(folder)
    write_corpus(folder)
