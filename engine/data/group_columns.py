"""Which columns of a table brought by a user can be groups: by how many different values they
hold."""

from __future__ import annotations

from collections.abc import Mapping

MAX_GROUPS = 64
"""More groups than this are no axis: hardly a text or image is left for each."""


def usable(values: Mapping[str, int]) -> list[str]:
    """The columns that can be groups or targets, of how many different values each column holds."""
    return [name for name, n in values.items() if 2 <= n <= MAX_GROUPS]


def left_out(values: Mapping[str, int]) -> str:
    """One sentence on the columns that hold too many different values; "" where none does."""
    many = [f"{name} ({n:,})" for name, n in values.items() if n > MAX_GROUPS]
    return (
        f"Not offered, for more than {MAX_GROUPS} different values: {', '.join(many)}."
        if many
        else ""
    )
