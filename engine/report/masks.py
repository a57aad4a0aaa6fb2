"""mask.json of reported variants, one file each; what stands in them is the track's."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import Fault, RequestError
from engine.core.types import digest_of
from engine.report.charts import lookup
from engine.report.contents import variant_row
from engine.report.tracks import track_of
from engine.store.runs import Run


def write_masks(run: Run, folder: Path, variant: str | None = None) -> list[Path]:
    """Files of every reported variant that cuts something, or only of the named one, which must cut
    something."""
    track = track_of(run)
    if variant is not None:
        rows = [variant_row(run, variant)]
        if said := track.ways.instead(rows[0]):
            raise RequestError(
                Fault("variant", f"{variant!r} has no mask. {said}", "Export its checkpoint.")
            )
        if rows[0]["n_cut"] == 0:
            what = f"Choose one with a {track.level.noun} above {track.level.none:g}."
            raise RequestError(Fault("variant", f"{variant!r} cuts nothing.", what))
    else:
        rows = [row for row in lookup.reported(run).to_dict("records") if row["n_cut"] > 0]
    table = track.named(run).set_index("variant", drop=False)
    replicas = [table.loc[name].to_dict() for row in rows for name in track.takable(run, row)]
    return [
        track.write_mask(run, row, folder / f"{file_name(row['variant'])}.mask.json")
        for row in replicas
    ]


def file_name(variant: str) -> str:
    """A plain file name from a variant id."""
    name = "".join(letter if letter.isalnum() or letter in "-_.," else "_" for letter in variant)
    name = name.replace("..", "_").lstrip(".")[:100] or "variant"
    return (
        name if name == variant else f"{name}-{digest_of(variant)[:6]}"
    )  # two names must not become one file
