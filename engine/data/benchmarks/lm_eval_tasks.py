"""Tasks of lm-eval (EleutherAI's Language Model Evaluation Harness), where it is installed:
questions that a model answers right or wrong, as a measure of what it can still do.

A task is a YAML file beside its data, or a folder of such files. Or it is named: a task that the
package brings and whose data set is in the offline cache. A file of somebody else's is data: it
names no function, no code, nothing on the network, and its templates run in Jinja's sandbox.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.core.errors import Fault, RequestError, refusal, refuse, said_by
from engine.core.text import words
from engine.core.types import Values, digest_of
from engine.data.benchmarks.base import MAX_TEXT, BenchmarkReader, Item, Read
from engine.data.tables import text_of

OTHER = "(another answer)"
NOTHING = "(an empty answer)"


class LmEvalTasks(BenchmarkReader):
    """Roles: right, the answer that counts, and wrong, any other. Groups: tasks; every item is a
    cluster of its own.

    Further columns: kind (the number that is read of every item) and made_of (digest of task,
    package and document).
    """

    name = "lm_eval"
    about = (
        "tasks of lm-eval (a task's .yaml file, a folder of them, or names of its own tasks, comma"
        " between)"
    )
    roles = ("right", "wrong")

    def is_name(self, place: str) -> bool:
        return are_names(place)

    def read(self, path: Path) -> Read:
        found = tasks_of(str(path))
        with quiet():
            return [item for one in found for item in _items(one)], [], []


def _items(one: Built) -> list[Item]:
    found = []
    for item_id, doc, digest in one.items():
        texts = {"right": _target(one.task, doc), "wrong": OTHER}
        more = {"kind": one.score, "made_of": digest}
        prefix = str(one.task.doc_to_text(doc))[:MAX_TEXT] or NOTHING
        found.append(Item(item_id, item_id, one.name, item_id, texts, prefix, more))
    return found


def _target(task: Any, doc: Any) -> str:
    """The right answer in words; several with a bar between."""
    target = task.doc_to_target(doc)
    choices = task.doc_to_choice(doc) if task.OUTPUT_TYPE == "multiple_choice" else []
    several = target if isinstance(target, list) else [target]
    said = [
        choices[one] if type(one) is int and 0 <= one < len(choices) else str(one)
        for one in several
    ]
    return (" | ".join(map(str, said)).strip() or NOTHING)[:MAX_TEXT]


WHERE = "benchmark lm_eval"
NEEDS = "requirements-lm-eval.txt"
NAMES = re.compile(r"[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*\Z")
MAX_YAML = 100_000
"""Characters of a task's file."""
SCORES = ("acc", "exact_match", "acc_norm")
"""Numbers per item, right or wrong, that are read; where a task has several, the first that it
lists."""
KINDS = ("multiple_choice", "loglikelihood", "generate_until")
FORMATS = ("json", "csv", "parquet")
PLAIN = frozenset(
    words(
        "task task_alias tag dataset_path dataset_name dataset_kwargs output_type test_split "
        "validation_split training_split fewshot_split num_fewshot doc_to_text doc_to_target "
        "doc_to_choice target_delimiter fewshot_delimiter description metric_list "
        "generation_kwargs metadata"
    )
)
"""What a file may say: none of it is code."""
GENERATION = frozenset(("until", "max_gen_toks", "do_sample", "temperature"))
METRIC = frozenset(
    ("metric", "aggregation", "higher_is_better", "ignore_case", "ignore_punctuation")
)


@dataclass(frozen=True)
class Built:
    """One task: the package's object, its name, the number that is read of every item, and what it
    was made of."""

    name: str
    task: Any
    score: str
    digest: str

    def items(self) -> Iterator[tuple[str, Any, str]]:
        """Id, document and digest of every item, in the order in which they are evaluated."""
        for number, doc in self.task.doc_iterator(rank=0, limit=None, world_size=1):
            said = json.dumps(doc, sort_keys=True, default=str)
            yield f"{self.name} {number}", doc, digest_of([self.digest, said])


def is_installed() -> bool:
    return all(map(find_spec, ("lm_eval", "accelerate", "peft")))


def are_names(place: str) -> bool:
    """Whether this names tasks of the package and not a path."""
    return bool(NAMES.match(place)) and not Path(place).exists()


def tasks_of(place: str) -> list[Built]:
    """The tasks at a path, or of these names. RequestError where the package or a data set is
    missing, or where a file is more than data."""
    configs = {} if are_names(place) else {path: checked(path) for path in _files(Path(place))}
    if not is_installed():
        what = "needs lm-eval, accelerate and peft, which are not installed here."
        raise refusal(WHERE, what, f"pip install -r {NEEDS} (into the environment this runs in).")
    with quiet():
        _sandbox()
        if not configs:
            asked = dict.fromkeys(place.split(","))
            return [_built(name, partial(_own, name), name) for name in asked]
        found = [
            _built(config["task"], partial(_made, config), text_of(path))
            for path, config in configs.items()
        ]
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        what = f"{', '.join(twice)} is there twice."
        raise refusal(WHERE, what, "Give every task a name of its own.")
    return found


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = sorted(path for path in place.iterdir() if path.suffix in (".yaml", ".yml"))
    if not found:
        where, fix = f"{WHERE}: {place.name}", "Name a task's file or folder."
        raise refusal(where, "There is no .yaml file.", fix)
    return found


def checked(path: Path) -> Values:
    """What a task's file says, paths of its data in full. RequestError with everything that is no
    plain data."""
    import yaml

    text, where = text_of(path), f"{WHERE}: {path.name}"
    if len(text) > MAX_YAML:
        raise refusal(where, f"It has {len(text):,} characters.", f"At most {MAX_YAML:,}.")
    try:
        if tags := sorted(
            {event.tag for event in yaml.parse(text, yaml.SafeLoader) if _is_code(event)}
        ):
            what = f"It names code ({', '.join(tags)[:80]}), which is not run."
            raise refusal(where, what, "Write the task with templates and fields only.")
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise refusal(where, f"Not YAML ({said_by(error)}).", "Check the file.") from error
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("task"), str)
        or not NAMES.match(found["task"])
    ):
        raise refusal(where, "It names no task (letters, digits, _).", "Write `task: my_task`.")
    faults = [
        *_plain_faults(where, found),
        *_metric_faults(where, found),
        *_data_faults(where, path.parent, found),
    ]
    refuse(faults)
    named = _named_files(found["dataset_kwargs"]["data_files"])
    files = {
        split: [os.path.realpath(path.parent / name) for name in names]
        for split, names in named.items()
    }
    return {**found, "dataset_kwargs": {"data_files": files}}


def _is_code(event: Any) -> bool:
    tag = getattr(event, "tag", None)
    return isinstance(tag, str) and not tag.startswith("tag:yaml.org,2002:") and tag != "!"


def _plain_faults(where: str, found: Values) -> Iterator[Fault]:
    """Fields that are not known to be plain data, and kinds of tasks that are not measured."""
    if more := sorted(str(name)[:40] for name in found if name not in PLAIN):
        fix = f"Known: {', '.join(sorted(PLAIN))}."
        yield Fault(where, f"Fields that are not read here: {', '.join(more[:10])}.", fix)
    if found.get("output_type") not in KINDS:
        yield Fault(
            where,
            f"output_type is {str(found.get('output_type'))[:40]!r}.",
            f"One of {', '.join(KINDS)}.",
        )
    shots = found.get("num_fewshot", 0)
    if type(shots) is not int or not 0 <= shots <= 100:
        yield Fault(where, f"num_fewshot is {str(shots)[:40]!r}.", "A whole number from 0 to 100.")
    said = found.get("generation_kwargs") or {}
    if not isinstance(said, dict) or set(said) - GENERATION or said.get("do_sample"):
        fix = (
            f"Only {', '.join(sorted(GENERATION))}; answers are not drawn, so that they are the"
            " same twice."
        )
        yield Fault(where, "generation_kwargs is not read here.", fix)


def _metric_faults(where: str, found: Values) -> Iterator[Fault]:
    """Metrics of others are fetched, and run, by name: only known ones are taken."""
    listed = found.get("metric_list") or []
    for entry in listed if isinstance(listed, list) else [listed]:
        name = entry.get("metric") if isinstance(entry, dict) else entry
        if not isinstance(entry, dict) or name not in SCORES or set(entry) - METRIC:
            yield Fault(
                where,
                f"metric_list: {str(entry)[:80]!r} is not read here.",
                f"Metrics: {', '.join(SCORES)}.",
            )


def _data_faults(where: str, folder: Path, found: Values) -> Iterator[Fault]:
    """Data that is not a file beside the task's."""
    fix = (
        "Use dataset_path: json with dataset_kwargs: {data_files: {test: items.jsonl}}, the file"
        " beside the task's."
    )
    if found.get("dataset_path") not in FORMATS:
        what = (
            f"dataset_path is {str(found.get('dataset_path'))[:60]!r}, no local format"
            f" ({', '.join(FORMATS)})."
        )
        yield Fault(where, what, fix)
    said = found.get("dataset_kwargs")
    if (
        not isinstance(said, dict)
        or set(said) != {"data_files"}
        or not _named_files(said["data_files"])
    ):
        yield Fault(where, "dataset_kwargs must name data_files and nothing else.", fix)
        return
    root = os.path.realpath(folder)
    for name in sum(_named_files(said["data_files"]).values(), []):
        place = Path(os.path.realpath(folder / name))
        if "://" in name or not place.is_relative_to(root):
            yield Fault(where, f"{name[:80]!r} does not lie beside the task's file.", fix)
        elif not place.is_file():
            yield Fault(where, f"{name[:80]!r}: there is no such file.", fix)


def _named_files(said: Any) -> dict[str, list[str]]:
    """Names of files by split; none where it is something else."""
    by_split = said if isinstance(said, dict) else {"train": said}
    found = {split: [one] if isinstance(one, str) else one for split, one in by_split.items()}
    right = all(
        isinstance(one, list) and one and all(isinstance(name, str) for name in one)
        for one in found.values()
    )
    return {str(split): list(one) for split, one in found.items()} if right else {}


def _built(name: str, make: Callable[[], Any], made_of: str) -> Built:
    try:
        task = make()
        task.set_fewshot_seed(seed=0)
    except RequestError:
        raise
    except Exception as error:  # whatever the package, a template or a data set lets through
        what = f"{name} cannot be made ({type(error).__name__}: {said_by(error)})."
        fix = "Its data set must be in the offline cache, or beside its file."
        raise refusal(WHERE, what, fix) from error
    listed = [one for one in getattr(task, "_metric_fn_list", {}) if one in SCORES]
    if not listed or task.OUTPUT_TYPE not in KINDS or getattr(task, "UNSAFE_CODE", False):
        what = f"{name} has no number per item that is read here ({', '.join(SCORES)})."
        raise refusal(WHERE, what, "Name a task of questions that are answered right or wrong.")
    return Built(name, task, listed[0], digest_of([version("lm_eval"), made_of]))


def _made(config: Values) -> Any:
    from lm_eval.api.task import ConfigurableTask

    return ConfigurableTask(config=dict(config))


def _own(name: str) -> Any:
    """A task of the package by name."""
    from lm_eval.tasks import TaskManager

    found = TaskManager().load([name])["tasks"]
    if set(found) != {name}:
        what = (
            f"{name} is a group of {len(found)} tasks."
            if found
            else f"There is no task called {name}."
        )
        raise refusal(WHERE, what, "Name single tasks, separated by commas.")
    return found[name]


def _sandbox() -> None:
    """Templates run where they cannot reach Python's own objects."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from lm_eval import utils

    safe = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    safe.filters["regex_replace"] = utils.regex_replace
    utils.env = safe


@contextmanager
def quiet() -> Iterator[None]:
    """No network, and nothing printed: the package tells of every step."""
    import datasets
    from huggingface_hub import constants

    datasets.disable_progress_bars()
    logging.getLogger("lm_eval").setLevel(logging.CRITICAL)
    with (
        patch.dict(os.environ, HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1"),
        # What read its environment when it was imported.
        patch.multiple(datasets.config, HF_DATASETS_OFFLINE=True, HF_HUB_OFFLINE=True),
        patch.object(constants, "HF_HUB_OFFLINE", True),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        yield
