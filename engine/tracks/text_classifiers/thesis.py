"""What the thesis prints: Tables 6.2, 6.3 and 6.4, as they stand there. BERT-base, GLUE, published
dev sets."""

from __future__ import annotations

from dataclasses import dataclass

POINTS = 100
"""Table 6.2 is in per cent, the others are shares."""
ACHLATIS = "achlatis"
"""The work that the thesis compares itself with; its scores are not among ours."""


@dataclass(frozen=True)
class Printed:
    """One cell: value and its deviation over seeds (None where none is printed), shares; full: the
    full model's."""

    table: str
    task: str
    method: str
    sparsity: float
    value: float
    std: float | None = None
    full: float | None = None
    full_std: float | None = None


_TASKS_62 = ("QNLI", "QQP", "MRPC", "WNLI", "RTE", "SST-2", "CoLA")
_FULL_62 = (
    (91.5, 0.06),
    (91.0, 0.07),
    (84.2, 1.2),
    (39.4, 0.8),
    (66.1, 1.2),
    (93.0, 0.3),
    (57.5, 0.9),
)
_CELLS_62 = {
    "igspf": {"WNLI": (1.0, 56.3, 0.0), "RTE": (0.3, 65.2, 2.2), "CoLA": (0.1, 57.3, 1.4)},
    "igspp": {
        "MRPC": (0.1, 84.3, 1.1),
        "WNLI": (1.0, 56.3, 0.0),
        "RTE": (0.3, 63.8, 3.3),
        "SST-2": (0.3, 92.5, 0.4),
        "CoLA": (0.1, 58.6, 0.3),
    },
    "one-shot-isp": {
        "QNLI": (0.2, 91.2, 0.2),
        "QQP": (0.6, 91.0, 0.05),
        "MRPC": (0.3, 84.2, 0.3),
        "WNLI": (1.0, 56.3, 0.0),
        "RTE": (0.3, 66.0, 1.6),
        "CoLA": (0.2, 58.8, 0.9),
    },
}
"""Winning tickets by conductance: procedure -> task -> share cut, mean and deviation in per cent.
"""
_TASKS_63 = ("MNLI", "QNLI", "QQP", "SST-2", "MRPC", "CoLA")
_CELLS_63 = {
    "alg61:michel": (0.717, 0.734, 0.791, 0.875, 0.639, 0.286),
    f"alg61:{ACHLATIS}": (0.732, 0.787, 0.811, 0.878, 0.730, 0.387),
    "alg61:conductance": (0.374, 0.500, 0.742, 0.836, 0.317, 0.137),
}
"""70 % of heads cut, nothing trained again."""
_TASKS_64 = ("MNLI", "QNLI", "MRPC", "SST-2", "CoLA")
_CELLS_64 = {
    "igspf:michel": (0.817, 0.820, 0.773, 0.903, 0.329),
    f"igspf:{ACHLATIS}": (0.824, 0.880, 0.783, 0.918, 0.435),
    "igspf:conductance": (0.776, 0.877, 0.706, 0.895, 0.261),
    "igspp:conductance": (0.769, 0.866, 0.701, 0.889, 0.334),
}
"""80 % of heads cut, trained again from the pre-trained weights."""


def printed() -> list[Printed]:
    """Every cell, table by table."""
    full = dict(zip(_TASKS_62, _FULL_62, strict=True))
    found = [
        Printed(
            "6.2",
            task,
            f"{procedure}:conductance",
            share,
            mean / POINTS,
            std / POINTS,
            *(value / POINTS for value in full[task]),
        )
        for procedure, cells in _CELLS_62.items()
        for task, (share, mean, std) in cells.items()
    ]
    for table, tasks, cells, share in (
        ("6.3", _TASKS_63, _CELLS_63, 0.7),
        ("6.4", _TASKS_64, _CELLS_64, 0.8),
    ):
        found += [
            Printed(table, task, method, share, value)
            for method, values in cells.items()
            for task, value in zip(tasks, values, strict=True)
        ]
    return found
