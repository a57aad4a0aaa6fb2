"""Take a run away: masks, tables, figures, report, checkpoint, written together or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.tracks import track_of_run
from engine.audit.verification import refuse_unsound
from engine.core.errors import RequestError, refusal, unknown
from engine.core.files import explained, make_folder
from engine.core.text import cell, harmless, json_text, visible
from engine.core.types import Hooks, Values, digest_of
from engine.report.charts import lookup
from engine.report.contents import all_panels, default_choice, variant_row
from engine.report.tracks import Foreign, track_of
from engine.store.runs import Run
from engine.surgery.record import write_mask


@dataclass(frozen=True)
class Order:
    """What every part of an export is made by; the arguments of `export_run`."""

    run: Run
    show_offensive: bool
    variant: str | None
    base: str | None
    accepted: Mapping[str, float]
    hooks: Hooks

    @property
    def row(self) -> Values:
        """The variant that it is about."""
        run = self.run
        if self.variant:
            return variant_row(run, self.variant)
        return lookup.variant_of(run, default_choice(run))

    @property
    def takable(self) -> Values:
        """The variant itself, or the first of the trials behind it."""
        return variant_row(self.run, next(iter(lookup.takable(self.run, self.row))))

    @property
    def checkpoint(self) -> Path:
        return Path("checkpoint") / file_name(self.takable["variant"])


Writer = Callable[[Order, Path], object]
"""Writes a part of an export into a folder."""


def export_run(
    run: Run,
    to: Path,
    what: Sequence[str],
    show_offensive: bool = False,
    variant: str | None = None,
    base: str | None = None,
    accepted: Mapping[str, float] | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> list[Path]:
    """Write the named parts below `to` and return the files. Files of the same name are replaced,
    others are kept.

    what: any of masks, tables, figures, report, pdf (the report, printed), slides (PowerPoint),
    checkpoint, model_card, and the track's own (Handout.foreign). `variant` limits masks to one and
    is what the others but tables are about; by default see contents.default_choice. Nothing is
    written when any part fails. Unknown names and variants raise RequestError, a full or read-only
    disk and a damaged run StoreError, a PDF or slides without a browser PruneAuditError. `base`
    says where the run's model is now, for a checkpoint of a model that has moved; its weights must
    be the run's. `accepted`: tolerances of a Choice, for the advice of report, PDF and slides.
    `hooks` are told how many charts are drawn.
    """
    writers = writers_of(run)
    if wrong := [name for name in what if name not in writers]:
        raise RequestError([unknown("what", name, writers) for name in wrong])
    if not what:
        raise refusal("what", "Nothing is asked for.", f"Known: {', '.join(writers)}.")
    if variant is not None:
        variant_row(run, variant)
    refuse_unsound(run)
    to = Path(to).expanduser()
    order = Order(run, show_offensive, variant, base, accepted or {}, hooks)
    if "checkpoint" in what:  # weights of two exports must never mix in one folder
        folder = to / order.checkpoint
        if folder.exists() and any(folder.iterdir()):
            mend = "Choose another folder, or remove it."
            raise refusal("to", f"{folder} is not empty.", mend)
    return _staged(order, to, [writers[name] for name in what])


def writers_of(run: Run) -> dict[str, Writer]:
    """What can be taken from this run, by the word that asks for it."""
    own = {one.name: partial(_foreign, one) for one in track_of(run).handout.foreign}
    return {**WRITERS, **own}


def _staged(order: Order, to: Path, writers: Sequence[Writer]) -> list[Path]:
    """Write everything into a folder beside the target first, then move it file by file."""
    with explained(to.parent, "folder"):
        make_folder(to.parent)
        stage = Path(tempfile.mkdtemp(prefix=".export-", dir=to.parent))
    try:
        with explained(to, "folder"):
            for write in writers:
                write(order, stage)
            files = [path for path in sorted(stage.rglob("*")) if path.is_file()]
            return [_move(path, to / path.relative_to(stage)) for path in files]
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move(source: Path, target: Path) -> Path:
    make_folder(target.parent)
    source.chmod(0o644)
    return source.replace(target)


# What loads much is loaded by the part that needs it.


def _figures(order: Order, to: Path) -> None:
    from engine.report.figures import write_figures

    choice = default_choice(order.run, variant=order.variant)
    panels, charts = all_panels(order.run, choice), track_of(order.run).charts
    expected = len(order.run.request["axes"]) * len(charts.of_axis) + len(charts.of_run)
    write_figures(panels, to / "figures", order.hooks, expected)


def _report(order: Order, to: Path) -> None:
    from engine.report.report import report_html

    page = report_html(order.run, order.show_offensive, order.variant, **order.accepted)
    (to / "report.html").write_text(page, encoding="utf-8")


def _pdf(order: Order, to: Path) -> None:
    from engine.report.figures import write_pdf

    with tempfile.TemporaryDirectory() as folder:
        page = to / "report.html"  # where the report is asked for too, it is made once
        if not page.is_file():
            page = Path(folder) / page.name
            _report(order, page.parent)
        write_pdf(page, to / "report.pdf")


def _slides(order: Order, to: Path) -> None:
    from engine.report.story import slides

    choice = default_choice(order.run, variant=order.variant).accepting(**order.accepted)
    (to / "slides.pptx").write_bytes(slides(order.run, choice))


def _checkpoint(order: Order, to: Path) -> None:
    from engine.report.report import model_card

    run, row, track, folder = order.run, order.takable, track_of(order.run), to / order.checkpoint
    if not (row["n_cut"] or row["method"] in track.ways.uncut or track.ways.instead(row)):
        what = f"{row['variant']!r} cuts nothing."
        raise refusal("variant", what, f"Choose one that cuts {track.nouns.many}.")
    track_of_run(run).part("checkpoint")(run, row, folder, order.base)
    (folder / "README.md").write_text(model_card(run, row), encoding="utf-8")


def _model_card(order: Order, to: Path) -> None:
    from engine.report.report import model_card

    (to / "model_card.md").write_text(model_card(order.run, order.row), encoding="utf-8")


def _foreign(one: Foreign, order: Order, to: Path) -> None:
    (to / one.file).write_text(visible(one.write(order.run)), encoding="utf-8")


WRITERS: dict[str, Writer] = {
    "masks": lambda order, to: write_masks(order.run, to / "masks", order.variant),
    "tables": lambda order, to: write_tables(order.run, to / "tables", order.show_offensive),
    "figures": _figures,
    "report": _report,
    "pdf": _pdf,
    "slides": _slides,
    "checkpoint": _checkpoint,
    "model_card": _model_card,
}


def write_masks(run: Run, folder: Path, variant: str | None = None) -> list[Path]:
    """Files of every reported variant that cuts something, or only of the named one, which must cut
    something."""
    track, record_of = track_of(run), track_of_run(run).part("mask")
    if variant is not None:
        rows = [variant_row(run, variant)]
        if said := track.ways.instead(rows[0]):
            raise refusal("variant", f"{variant!r} has no mask. {said}", "Export its checkpoint.")
        if rows[0]["n_cut"] == 0:
            what = f"Choose one with a {track.level.noun} above {track.level.none:g}."
            raise refusal("variant", f"{variant!r} cuts nothing.", what)
    else:
        rows = [row for row in lookup.reported(run).to_dict("records") if row["n_cut"] > 0]
    table = lookup.named(run).set_index("variant", drop=False)
    replicas = [table.loc[name].to_dict() for row in rows for name in lookup.takable(run, row)]
    return [
        write_mask(folder / f"{file_name(row['variant'])}.mask.json", record_of(run, row))
        for row in replicas
    ]


def file_name(variant: str) -> str:
    """A plain file name from a variant id."""
    name = "".join(letter if letter.isalnum() or letter in "-_.," else "_" for letter in variant)
    name = name.replace("..", "_").lstrip(".")[:100] or "variant"
    return (
        name if name == variant else f"{name}-{digest_of(variant)[:6]}"
    )  # two names must not become one file


# The run's tables as CSV, parquet and JSON, with the run's own description.


HIDDEN = "[text left out; export with texts to see it]"
TEXTS = {"texts": ("text", "text_b"), "lens": ("tokens",), "benchmark_items": ("prefix", "text")}
"""Columns with words a model or a user wrote, by table."""


def write_tables(run: Run, folder: Path, show_offensive: bool = False) -> list[Path]:
    """Each table three ways plus run.json. Texts are left out unless asked for.

    In the CSV files a text that a spreadsheet would run as a formula gets a leading apostrophe.
    Bytes (pictures, weights) are in the parquet file; CSV and JSON say how many there are.
    """
    make_folder(folder)
    written = [folder / "run.json"]
    written[0].write_text(
        json_text(run.meta, indent=2, sort_keys=True, allow_nan=True) + "\n", encoding="utf-8"
    )
    for name in run.names:
        table = shown(run.table(name), name, show_offensive)
        paths = [folder / f"{name}.{kind}" for kind in ("csv", "parquet", "json")]
        table.to_parquet(paths[1], compression="zstd", index=False)
        readable = without_bytes(table)
        write_csv(readable, paths[0])
        readable.to_json(paths[2], orient="records", force_ascii=True, double_precision=10)
        written += paths
    return written


def shown(table: pd.DataFrame, name: str, show_offensive: bool) -> pd.DataFrame:
    """The table as exported: texts only when asked for, and none where the audit has none."""
    hidden = () if show_offensive else TEXTS.get(name, ())
    there = [column for column in hidden if column in table and (table[column] != "").any()]
    return table.assign(**dict.fromkeys(there, HIDDEN))


def without_bytes(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of bytes as their number."""
    binary = [name for name in table if len(table) and isinstance(table[name].iat[0], bytes)]
    return table.assign(**{name: table[name].map(len) for name in binary})


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Names and text cells as a spreadsheet may be given them (see `cell`); numbers stay
    numbers."""
    return _each(table, cell)


def for_screens(table: pd.DataFrame) -> pd.DataFrame:
    """Names and text cells without what steers or hides; numbers stay numbers."""
    return _each(table, harmless)


def _each(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    texts = [column for column in table if not pd.api.types.is_numeric_dtype(table[column])]
    return table.assign(**{column: table[column].map(change) for column in texts}).rename(
        columns=change
    )


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """A table for spreadsheets, without its index: every CSV file that leaves is written here."""
    for_spreadsheets(table).to_csv(path, index=False)


def holding(rows: pd.DataFrame, columns: Sequence[str], text: str) -> pd.DataFrame:
    """Rows with the text in one of the columns, whatever its capitals; all where it is empty."""
    there = [rows[name].astype(str) for name in columns if name in rows]
    found = [one.str.contains(text, case=False, regex=False) for one in there]
    return rows[reduce(or_, found)] if text else rows
