"""Writes the table of methods into README.md: paper, method, file, command. `python docs/methods.py`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
START, END = "<!-- methods: written by docs/methods.py -->", "<!-- end of methods -->"
HEADS = "audit --model demo-gpt2 --axis nationality"
SCORES = "scores --model demo-gpt2 --axis nationality --out scores.csv"
OPTIONS = {"z_bias": "--estimator", "z_ppl": "--perplexity-estimator"}
IMAGES = "audit --model demo-resnet --data avatars --axis male"
TEXTS = "tickets --model demo-bert --task remarks --retune"
FAIR = "fairtrain --model demo-resnet --data avatars --target blond --group male"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(paper, method, file, command) of every method that is found."""
    from engine.tracks.fair_training.methods.base import fair_methods
    from engine.tracks.image_classifiers.experiments import experiments
    from engine.tracks.image_classifiers.methods.base import filter_methods
    from engine.tracks.language_models.scores.base import score_methods
    from engine.tracks.language_models.selection.base import selection_methods
    from engine.tracks.text_classifiers.procedures import procedures
    from engine.tracks.text_classifiers.scores.base import head_importances

    yield from _of("FASP", selection_methods().values(), f"{HEADS} --method {{}}")
    for method in score_methods():
        ((_, name, file, _),) = _of("", [method], "")
        yield "FASP, scores", f"{method.score}: {name}", file, f"{SCORES} {_asked(method)}"
    yield from _of("PW loss", filter_methods().values(), f"{IMAGES} --method {{}}")
    yield "PW loss", "+pw", "engine/training/losses.py", f"{IMAGES} --method autobot+pw"
    yield from _of("PW loss, experiments", experiments().values(), "experiment {} --quick")
    yield from _of("IG-BERT, scores", head_importances().values(), f"{TEXTS} --score {{}}")
    yield from _of("IG-BERT", procedures().values(), f"{TEXTS} --procedure {{}}")
    yield from _of("BiFP", fair_methods().values(), f"{FAIR} --method {{}}")


def _asked(method: Any) -> str:
    """The option that asks for one way to score heads of a language model."""
    option = OPTIONS.get(method.score)
    return f"{option} {method.name}" if option else f"--method {method.score}"


def _of(paper: str, methods: Iterable[Any], command: str) -> Iterator[tuple[str, str, str, str]]:
    for method in methods:
        file = Path(inspect.getfile(type(method))).resolve().relative_to(ROOT)
        yield paper, method.name, file.as_posix(), command.format(method.name)


def table() -> str:
    """Markdown."""
    lines = ["| paper | method | file | after `python -m engine` |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {one} | {two} | `{three}` | `{four}` |" for one, two, three, four in rows())])


def with_methods(readme: str) -> str:
    """The README with its table as it should be now."""
    before, rest = readme.split(START)
    return f"{before}{START}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    target = ROOT / "README.md"
    target.write_text(with_methods(target.read_text(encoding="utf-8")), encoding="utf-8")
