"""mask.json of filters: the base model, the filters cut, and Torch-Pruning's history that replays
the cut. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import write_json
from engine.core.types import FilterMask
from engine.store.user_json import NUMBER, Form, read_object, read_user_json

SCHEMA = 1
KIND = "filters"
_FORM = Form(
    "mask",
    "Give a mask.json as exported.",
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


def groups_of(mask: FilterMask) -> dict[str, dict[str, Any]]:
    """A mask as the record holds it."""
    gone = dict(mask.cut)
    return {
        group: {"width": width, "cut": list(gone.get(group, ()))} for group, width in mask.widths
    }


def write_filter_mask(path: str | Path, record: FilterRecord) -> Path:
    """Write mask.json, whole or not at all. Groups keep the order of the network."""
    path = Path(path)
    plain = asdict(record)
    plain["groups"] = [{"group": name, **group} for name, group in record.groups.items()]
    write_json(path, plain)
    return path


def kind_of_mask(path: str | Path) -> str:
    """What a mask file says it is about: filters, or the weights of a fair training; "" for
    anything else."""
    try:
        return str(read_object(path, _FORM.largest, _FORM.fix).get("kind", ""))
    except RequestError:
        return ""


def read_filter_mask(path: str | Path) -> FilterRecord:
    """Read mask.json of filters. RequestError with every fault."""
    plain = read_user_json(path, _FORM)
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


def _class_faults(plain: dict[str, Any]) -> list[Fault]:
    good = plain["size"] > 0 and all(isinstance(name, str) for name in plain["classes"])
    return [] if good else [Fault("mask classes", "or size: no names, or no pixels.", _FORM.fix)]


def _group_faults(groups: list[Any]) -> list[Fault]:
    faults, seen = [], set[str]()
    for place, item in enumerate(groups):
        where = f"mask group {place}"
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("group"), str)
            or not _whole(item.get("width"))
        ):
            faults.append(Fault(where, "has no name and width.", "Give a mask.json as exported."))
            continue
        cut = item.get("cut")
        if not isinstance(cut, list) or not all(type(one) is int for one in cut):
            faults.append(
                Fault(
                    where, "has no list of whole numbers to cut.", "Give a mask.json as exported."
                )
            )
        elif len(set(cut)) < len(cut) or not all(0 <= one < item["width"] for one in cut):
            faults.append(
                Fault(
                    where,
                    f"names filters twice or outside 0 to {item['width'] - 1}.",
                    "Export it again.",
                )
            )
        elif len(cut) == item["width"]:
            faults.append(
                Fault(where, "cuts every filter of its layer.", "One at least must stay.")
            )
        if item["group"] in seen:
            faults.append(unknown(where, item["group"], seen, "It is named twice."))
        seen.add(item["group"])
    return faults


def _whole(value: Any) -> bool:
    return type(value) is int and value > 0


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
    return (
        []
        if good
        else [
            Fault(
                "mask history", "is no list of [module, flag, indices].", "Export the mask again."
            )
        ]
    )
