"""config.json of a model folder as it stands: what it says of weights, texts and outputs. No torch.

It is read as carefully as all JSON that users bring (`store/user_json.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.files import sha256_of
from engine.core.types import Values
from engine.store.user_json import read_object

CONFIG = "config.json"
GENERATION = "generation_config.json"
LARGEST = 64_000_000
"""Bytes; those of models with a hundred thousand classes have some."""


def config_of(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """The object in the folder's config.json, or in another file of it. RequestError where there is
    none; of two fields of one name it would not be sure which one counts, so there is none then
    either. Infinity is a number in them: transformers writes it."""
    return read_object(folder / name, LARGEST, "Download or copy it again.", finite=False)


def config_or_nothing(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """The same, or that of another file; {} where it cannot be read, which is said when the model
    is asked for."""
    try:
        return config_of(folder, name)
    except RequestError:
        return {}


def hashes_beside(folder: Path) -> list[str]:
    """SHA-256 of every small file beside weights that decides what they compute; none where there
    is no folder."""
    endings = ("*.json", "*.txt", "*.model", "*.jinja")
    beside = [path for ending in endings for path in sorted(folder.glob(ending))]
    return [sha256_of(path) for path in beside if path.is_file()]


def named_architecture(plain: Values) -> str:
    """The first class that a config.json names; "" for none."""
    found = plain.get("architectures")
    return str(found[0]) if isinstance(found, list) and found else ""


def end_tokens(folder: Path, own: int | None) -> tuple[int, ...]:
    """Tokens that config.json and generation_config.json end a text with besides the tokenizer's
    own, ascending."""
    said = [config_or_nothing(folder, name).get("eos_token_id") for name in (CONFIG, GENERATION)]
    each = [one for value in said for one in (value if isinstance(value, list) else [value])]
    return tuple(sorted({one for one in each if type(one) is int and one >= 0} - {own}))


LOADERS: Mapping[str, tuple[str, ...]] = {
    "compressed-tensors": ("compressed-tensors",),
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel", "accelerate"),
    "torchao": ("torchao",),
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "fp8": ("accelerate",),
    "hqq": ("hqq",),
}
"""By `quant_method` of config.json: the packages that transformers asks for, as pip calls them."""

ASIDE = "--no-deps gptqmodel optimum accelerate tokenicer logbar defuser device-smi pypcre psutil"
"""gptqmodel asks for a torch of its own, which would take the place of the one here; with these it
runs on ours."""


def quantisation_of(folder: Path) -> str:
    """The `quant_method` of a checkpoint; "" where its weights are numbers as they are."""
    found = config_or_nothing(folder).get("quantization_config")
    if not isinstance(found, Mapping):
        return ""
    method = found.get("quant_method")
    return method[:80] if isinstance(method, str) and method else "an unnamed way"


def quantised_faults(folder: Path, as_arm: bool) -> list[Fault]:
    """What forbids a quantised checkpoint here. as_arm: it is only read, beside another model; no
    head is cut."""
    how = quantisation_of(folder)
    packages = LOADERS.get(how, ())
    missing = [name for name in packages if find_spec(name.replace("-", "_")) is None]
    if not how or (as_arm and packages and not missing):
        return []
    what = f"holds weights that are quantised by {how}"
    if not as_arm:
        what += ": heads can be scored and cut in plain weights only."
        fix = "Audit the model it was made from, and name this one with --against."
    elif not packages:
        what += ", which is not known here."
        fix = f"Known: {', '.join(sorted(LOADERS))}. Or save it with plain weights."
    else:
        what += f"; reading them needs {' and '.join(missing)}, not installed here."
        to_install = ASIDE if "gptqmodel" in packages else " ".join(missing)
        fix = (
            f"pip install {to_install} (into the environment this runs in), or save it with plain"
            " weights."
        )
    return [Fault(str(folder), what, fix)]


SIGMOID, SOFTMAX = "sigmoid", "softmax"
ONE_CLASS, SEVERAL, REGRESSION = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
"""transformers' words for `problem_type`."""
UNNAMED = "LABEL_"
"""Begins transformers' own name of an output that nobody has named."""


@dataclass(frozen=True)
class ConfiguredOutputs:
    """What a config.json says of a classifier's outputs: one reading for image classifiers, text
    classifiers and judges.

    labels: a name per output as written, () where none are said. count: how many, 0 where nothing
    says it.

    activation: what makes probabilities: softmax, sigmoid, or whatever else is named. problem:
    `problem_type`, or "".
    """

    labels: tuple[str, ...]
    count: int
    activation: str
    problem: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names that somebody gave; () for transformers' own. One that is there twice (ImageNet has
        two cranes) is told apart by its number."""
        if all(name == f"{UNNAMED}{at}" for at, name in enumerate(self.labels)):
            return ()  # while LABEL_1 of output 0 is a name
        found: dict[str, None] = {}
        for at, name in enumerate(self.labels):
            found[f"{name} ({at})" if name in found else name] = None
        return tuple(found)

    def class_faults(self, where: str, items: str) -> list[Fault]:
        """Outputs that are no probabilities of classes, of which each item has one. items: "text"
        or "image"."""
        fix = f"Give a classifier of two or more classes, one per {items}"
        apart = "its outputs are no classes that exclude each other."
        if self.problem not in ("", ONE_CLASS):
            what = f"says by problem_type {self.problem!r} that {apart}"
        elif self.activation != SOFTMAX:
            what = f"makes its answers by {self.activation}, so {apart}"
        elif self.count == 1:
            what = "has one output: an audit needs a probability of each class."
            return [Fault(where, what, f"{fix}.")]
        else:
            return []
        return [Fault(where, what, f"{fix}; if it is one, set {ONE_CLASS}.")]


def class_name_faults(names: Sequence[str]) -> list[Fault]:
    """Names of classes that cannot be told apart, or are none."""
    if len(names) > 1 and len(set(names)) == len(names) and all(names):
        return []
    named = ", ".join(map(repr, names[:5])) or "none"
    what = f"{named}: a classifier has two or more classes, each named once."
    return [Fault("classes", what, "Name every class once, in the order of the outputs.")]


def class_order_faults(
    classes: Sequence[str], own: Sequence[str], outputs: int, name: str, else_: str = ""
) -> list[Fault]:
    """Classes that are not as many as a model's outputs, or its own (where it says them) in another
    order. else_: what could be done instead."""
    fix = f"Give the classes that the head was trained for, in their order{else_}."
    asked, said = ([one.casefold() for one in names] for names in (classes, own))
    if len(classes) != outputs:
        what = f"there are {len(classes)} classes, but the head of {name} gives {outputs} numbers."
    elif said != asked and sorted(said) == sorted(asked):
        what = f"{', '.join(classes[:5])} is not the order of {name}: {', '.join(own[:5])}."
    else:
        return []
    return [Fault("classes", what, fix)]


def said_outputs(config: Values, where: str) -> tuple[ConfiguredOutputs, list[Fault]]:
    """What a config.json says, and what in it contradicts itself: nobody can know which of two
    orders a model was trained in. where: how the file is named to the reader."""
    labels, faults = _labels(config, where)
    said = config.get("num_labels", len(labels))
    if type(said) is not int or (labels and said != len(labels)):
        what = f"has num_labels {str(said)[:20]}, its id2label names {len(labels)} outputs."
        faults.append(Fault(where, what, "Give each output of its last layer one name."))
        said = 0
    problem = config.get("problem_type")
    return ConfiguredOutputs(
        labels, len(labels) or said, _activation(config), str(problem or "")
    ), faults


def _labels(config: Values, where: str) -> tuple[tuple[str, ...], list[Fault]]:
    """Names in the order of the outputs, of id2label; of label2id where that has none but
    transformers' own."""
    faults: list[Fault] = []
    places, by_name = config.get("id2label"), config.get("label2id")
    labels = _in_order(places, where, faults)
    if by_name is None:
        return labels, faults
    by_name = by_name if isinstance(by_name, dict) else {"no names at all": "nowhere"}
    if _unnamed(by_name) and not _unnamed(labels):
        return labels, faults
    turned = {str(at): str(name) for name, at in by_name.items()}
    if _unnamed(labels) and not _unnamed(by_name):
        named = _in_order(turned, where, faults)
        agrees = len(labels) in (0, len(named))
    else:  # of two outputs with one name, label2id has the last
        own = {str(at): one for at, one in enumerate(labels)}
        named, agrees = labels, turned.items() <= own.items()
    if not agrees and not faults:
        what = "has a label2id that contradicts its id2label."
        faults.append(Fault(where, what, "Give both the order in which the model was trained."))
    return named, faults


def _unnamed(names: Any) -> bool:
    return all(re.fullmatch(f"{UNNAMED}[0-9]+", str(one)) for one in names)


def _in_order(by_place: Any, where: str, faults: list[Fault]) -> tuple[str, ...]:
    """Names by the numbers of their outputs, () where there are none; what is wrong with these goes
    to `faults`."""
    if by_place is None:
        return ()
    named = {str(at): name for at, name in by_place.items()} if isinstance(by_place, dict) else {}
    good = all(isinstance(one, str | int) and str(one).strip() for one in named.values())
    if not named or not good or named.keys() != {str(at) for at in range(len(named))}:
        what = "has an id2label or label2id that does not name the outputs 0, 1, 2 and so on."
        faults.append(Fault(where, what, "Give each output its name."))
        return ()
    return tuple(str(named[str(at)]) for at in range(len(named)))


def _activation(config: Values) -> str:
    """As transformers' pipeline and sentence-transformers have it said; sentence-transformers names
    torch's module."""
    trained = config.get("sentence_transformers")
    said = config.get("function_to_apply") or config.get("sbert_ce_default_activation_function")
    said = said or (trained.get("activation_fn") if isinstance(trained, dict) else None)
    name = str(said or "").rpartition(".")[2].casefold()
    return name or (SIGMOID if config.get("problem_type") == SEVERAL else SOFTMAX)
