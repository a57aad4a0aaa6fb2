"""`mask.json`, which replays a cut on its model: the base model and what is cut of it. No torch.

Heads by layer and head, or filters with Torch-Pruning's history.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, RequestError
from engine.core.files import write_json, write_whole
from engine.core.text import json_text
from engine.core.types import FilterMask, HeadMask, Values
from engine.store.runs import Run
from engine.store.user_json import NUMBER, Form, read_object, read_user_json

if TYPE_CHECKING:
    from engine.models.checkpoint import ModelInfo
    from engine.models.transformer import TransformerModel

SCHEMA = 1
MASK_FILE = "mask.json"
_FORM = Form(
    "mask",
    "Give a mask.json as exported.",
    needed={"model": str, "weight_hash": str, "n_layers": int, "n_heads": int, "units": list},
    optional={
        "revision": (str, type(None)),
        "method": str,
        "settings": dict,
        "asked": (*NUMBER, type(None)),
        "realised": (*NUMBER, type(None)),
        "run": str,
        "created": str,
        "schema": int,
    },
    schemas=(SCHEMA,),
)


@dataclass(frozen=True)
class MaskRecord:
    """A selection with where it came from. Units are (layer, head), 0-based; asked and realised are
    shares of heads."""

    model: str
    revision: str | None
    weight_hash: str
    n_layers: int
    n_heads: int
    units: tuple[tuple[int, int], ...]
    method: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    asked: float | None = None
    realised: float | None = None
    run: str = ""
    created: str = ""
    schema: int = SCHEMA
    means: tuple[tuple[float, ...], ...] = ()
    """What each unit hands over when it is off, head_dim numbers, in the order of `units`; none:
    zeros."""

    @property
    def mask(self) -> HeadMask:
        return HeadMask(self.n_layers, self.n_heads, self.units)


def record_of(base: TransformerModel | ModelInfo, mask: HeadMask, **more: Any) -> MaskRecord:
    """A record of a mask for a model; `more`: method, settings, asked, run, created."""
    return MaskRecord(
        model=base.name,
        revision=base.revision,
        weight_hash=base.weight_hash,
        n_layers=mask.n_layers,
        n_heads=mask.n_heads,
        units=mask.cut,
        realised=mask.sparsity,
        **more,
    )


def write_mask(path: str | Path, record: MaskRecord | FilterRecord | dict[str, Any]) -> Path:
    """Write mask.json, whole or not at all; groups of filters keep the order of the network.
    Returns its path."""
    path = Path(path)
    if not isinstance(record, MaskRecord):
        write_json(path, record.plain if isinstance(record, FilterRecord) else record)
        return path
    mean = dict(zip(record.units, record.means, strict=True)) if record.means else {}
    units = [
        {"layer": layer, "head": head, **({"mean": list(mean[layer, head])} if mean else {})}
        for layer, head in record.mask.cut
    ]
    plain = {name: value for name, value in asdict(record).items() if name != "means"} | {
        "units": units
    }
    text = json_text(plain, indent=1) + "\n"
    write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8") and None, "mask")
    return path


def run_record(
    run: Run,
    variant: Values,
    mask: HeadMask,
    settings: dict[str, Any],
    means: tuple[tuple[float, ...], ...] = (),
) -> MaskRecord:
    """The record of a row of the variants table that cuts these heads; means: what they hand over
    where they are not silenced with zeros."""
    model = run.model
    return MaskRecord(
        model=model["name"],
        revision=model.get("revision"),
        weight_hash=model["weight_hash"],
        n_layers=mask.n_layers,
        n_heads=mask.n_heads,
        units=mask.cut,
        method=str(variant["method"]),
        settings=settings,
        asked=float(variant["sparsity"]),
        realised=mask.sparsity,
        run=run.id,
        created=run.meta["created"],
        means=means,
    )


def read_mask(path: str | Path) -> MaskRecord:
    """Read mask.json. RequestError with every fault: not JSON, unknown schema, missing fields, bad
    or double units."""
    plain = read_user_json(path, _FORM)
    if faults := _shape_faults(plain) or _unit_faults(plain):
        raise RequestError(faults)
    units = tuple((unit["layer"], unit["head"]) for unit in plain["units"])
    means = tuple(tuple(map(float, unit["mean"])) for unit in plain["units"] if "mean" in unit)
    return MaskRecord(**{"revision": None, **plain, "units": units, "means": means})


def check_mask_fits(record: MaskRecord, info: TransformerModel | ModelInfo) -> None:
    """RequestError unless the mask was made for exactly this model: shape and weight hash."""
    faults = []
    if (record.n_layers, record.n_heads) != (info.n_layers, info.n_heads):
        what = (
            f"is for {record.n_layers} layers x {record.n_heads} heads ({record.model}); "
            f"{info.name} has {info.n_layers} layers x {info.n_heads} heads."
        )
        faults.append(Fault("mask", what, "Give the model that the mask was made for."))
    if record.weight_hash != info.weight_hash:
        what = (
            f"is for weights {record.weight_hash} ({record.model}, revision"
            f" {record.revision or 'none'}); {info.name} has weights {info.weight_hash}."
        )
        faults.append(Fault("mask", what, "Give the same model and revision."))
    if faults:
        raise RequestError(faults)


def _shape_faults(plain: dict) -> list[Fault]:
    wrong = [name for name in ("n_layers", "n_heads") if plain[name] < 1]
    return [Fault(f"mask {name}", "is missing or of the wrong kind.", _FORM.fix) for name in wrong]


def _unit_faults(plain: dict) -> list[Fault]:
    faults, seen = [], set()
    shape = f"{plain['n_layers']} layers x {plain['n_heads']} heads"
    for place, unit in enumerate(plain["units"]):
        pair = (unit.get("layer"), unit.get("head")) if isinstance(unit, dict) else (None, None)
        layer, head = pair
        if type(layer) is not int or type(head) is not int:
            said = "has no whole layer and head.", 'Write {"layer": 0, "head": 0}.'
        elif not (0 <= layer < plain["n_layers"] and 0 <= head < plain["n_heads"]):
            said = f"{pair} is outside {shape}.", "Layers and heads count from 0."
        elif pair in seen:
            said = f"{pair} is named twice.", "Name each head once."
        else:
            seen.add(pair)
            continue
        faults.append(Fault(f"mask unit {place}", *said))
    return (faults or _mean_faults(plain))[:20]


def _mean_faults(plain: dict) -> list[Fault]:
    """Means are there for every unit or for none, finite, and of one length."""
    means = [unit["mean"] for unit in plain["units"] if "mean" in unit]
    if not means:
        return []
    faults = []
    if len(means) != len(plain["units"]):
        what = f"{len(means)} of {len(plain['units'])} units have a mean."
        faults.append(Fault("mask means", what, "Give all of them one, or none."))
    good = all(
        isinstance(mean, list)
        and all(type(one) in (int, float) and math.isfinite(one) for one in mean)
        for mean in means
    )
    if not good or len(set(map(len, means))) != 1:
        what = "are not lists of equally many finite numbers."
        faults.append(Fault("mask means", what, _FORM.fix))
    return faults


# The same of filters.


KIND = "filters"
_FILTER_FORM = Form(
    _FORM.what,
    _FORM.fix,
    needed={
        "model": str,
        "architecture": str,
        "weight_hash": str,
        "classes": list,
        "size": int,
        "groups": list,
        "history": list,
    },
    optional={
        "method": str,
        "loss": str,
        "settings": dict,
        "asked_speedup": (*NUMBER, type(None)),
        "achieved_speedup": (*NUMBER, type(None)),
        "run": str,
        "created": str,
        "kind": str,
        "schema": int,
    },
    schemas=(SCHEMA,),
    kind=KIND,
    largest=64_000_000,  # EfficientNetV2-M cut by half is a megabyte
)


@dataclass(frozen=True)
class FilterRecord:
    """A selection of filters with where it came from. groups: name -> {"width": filters, "cut":
    [indices]}.

    history: [module, is it an output pruning, indices] in order. weight_hash is that of the base
    model before any cut.
    """

    model: str
    architecture: str
    weight_hash: str
    classes: tuple[str, ...]
    size: int
    groups: dict[str, dict[str, Any]]
    history: list[list[Any]]
    method: str = ""
    loss: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    asked_speedup: float | None = None
    achieved_speedup: float | None = None
    run: str = ""
    created: str = ""
    kind: str = KIND
    schema: int = SCHEMA

    @property
    def mask(self) -> FilterMask:
        widths = tuple((name, int(group["width"])) for name, group in self.groups.items())
        return FilterMask(
            widths, tuple((name, tuple(group["cut"])) for name, group in self.groups.items())
        )

    @property
    def plain(self) -> dict[str, Any]:
        """As mask.json holds it."""
        groups = [{"group": name, **group} for name, group in self.groups.items()]
        return {**asdict(self), "groups": groups}


def groups_of(mask: FilterMask) -> dict[str, dict[str, Any]]:
    """A mask as the record holds it."""
    gone = dict(mask.cut)
    return {
        group: {"width": width, "cut": list(gone.get(group, ()))} for group, width in mask.widths
    }


def kind_of_mask(path: str | Path) -> str:
    """What a mask file says it is about: filters, or the weights of a fair training; "" for
    anything else."""
    try:
        return str(read_object(path, _FILTER_FORM.largest, _FILTER_FORM.fix).get("kind", ""))
    except RequestError:
        return ""


def read_filter_mask(path: str | Path) -> FilterRecord:
    """Read mask.json of filters. RequestError with every fault."""
    plain = read_user_json(path, _FILTER_FORM)
    faults = (
        _class_faults(plain) + _group_faults(plain["groups"]) + _history_faults(plain["history"])
    )
    if faults:
        raise RequestError(faults[:20])
    groups = {
        item["group"]: {"width": item["width"], "cut": item["cut"]} for item in plain["groups"]
    }
    return FilterRecord(**{**plain, "classes": tuple(plain["classes"]), "groups": groups})


def check_filter_mask_fits(record: FilterRecord, arch: str, weight_hash: str, name: str) -> None:
    """RequestError unless the mask was made for exactly this model."""
    faults = []
    if record.architecture != arch:
        what = f"is for {record.architecture} ({record.model}); {name} is {arch}."
        faults.append(Fault("mask", what, "Give the model that the mask was made for."))
    if record.weight_hash != weight_hash:
        what = (
            f"is for weights {record.weight_hash[:16]}… ({record.model}); {name} has weights"
            f" {weight_hash[:16]}…."
        )
        faults.append(Fault("mask", what, "Give the same weights."))
    if faults:
        raise RequestError(faults)


def _class_faults(plain: Values) -> list[Fault]:
    good = plain["size"] > 0 and all(isinstance(name, str) for name in plain["classes"])
    what = "or size: no names, or no pixels."
    return [] if good else [Fault("mask classes", what, _FILTER_FORM.fix)]


def _group_faults(groups: list[Any]) -> list[Fault]:
    faults, seen = [], set[str]()
    for place, item in enumerate(groups):
        keys = ("group", "width", "cut")
        name, width, cut = map(item.get, keys) if isinstance(item, dict) else (None,) * 3
        if not isinstance(name, str) or type(width) is not int or width < 1:
            said = "has no name and width.", _FORM.fix
        elif not isinstance(cut, list) or not all(type(one) is int for one in cut):
            said = "has no list of whole numbers to cut.", _FORM.fix
        elif len(set(cut)) < len(cut) or not all(0 <= one < width for one in cut):
            said = f"names filters twice or outside 0 to {width - 1}.", "Export it again."
        elif len(cut) == width:
            said = "cuts every filter of its layer.", "One at least must stay."
        elif name in seen:
            said = f"{name!r} is named twice.", "Export it again."
        else:
            seen.add(name)
            continue
        faults.append(Fault(f"mask group {place}", *said))
    return faults


def _history_faults(history: list[Any]) -> list[Fault]:
    good = all(
        isinstance(item, list)
        and len(item) == 3
        and isinstance(item[0], str)
        and isinstance(item[1], bool)
        and isinstance(item[2], list)
        and all(type(one) is int and one >= 0 for one in item[2])
        for item in history
    )
    what = "is no list of [module, flag, indices]."
    return [] if good else [Fault("mask history", what, "Export the mask again.")]
