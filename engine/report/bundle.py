"""Take a run away: masks, tables, figures, report, checkpoint, written together or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine.audit.verification import refuse_unsound
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import explained
from engine.core.text import visible
from engine.report.charts import lookup
from engine.report.contents import all_panels, default_choice, variant_row
from engine.report.contract import Foreign
from engine.report.tracks import track_of
from engine.store.runs import Run

Writer = Callable[..., object]


def export_run(
    run: Run,
    to: Path,
    what: Sequence[str],
    show_offensive: bool = False,
    variant: str | None = None,
    base: str | None = None,
    accepted: Mapping[str, float] | None = None,
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
    """
    writers = writers_of(run)
    if wrong := [name for name in what if name not in writers]:
        raise RequestError([unknown("what", name, writers) for name in wrong])
    if not what:
        raise RequestError(Fault("what", "Nothing is asked for.", f"Known: {', '.join(writers)}."))
    if variant is not None:
        variant_row(run, variant)
    refuse_unsound(run)
    to = Path(to).expanduser()
    _free_for_checkpoint(run, to, what, variant)
    for name in ("report", "pdf", "slides"):
        writers[name] = partial(writers[name], **(accepted or {}))
    writers |= {"checkpoint": partial(_checkpoint, base=base)}
    return _staged(run, to, {name: writers[name] for name in what}, show_offensive, variant)


def writers_of(run: Run) -> dict[str, Writer]:
    """What can be taken from this run, by the word that asks for it."""
    return {
        **WRITERS,
        **{one.name: partial(_foreign, one) for one in track_of(run).handout.foreign},
    }


def _staged(
    run: Run, to: Path, writers: Mapping[str, Writer], show_offensive: bool, variant: str | None
) -> list[Path]:
    """Write everything into a folder beside the target first, then move it file by file."""
    with explained(to.parent, "folder"):
        to.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".export-", dir=to.parent))
    try:
        with explained(to, "folder"):
            for write in writers.values():
                write(run, stage, show_offensive, variant)
            return [
                _move(path, to / path.relative_to(stage))
                for path in sorted(stage.rglob("*"))
                if path.is_file()
            ]
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.chmod(0o644)
    return source.replace(target)


def _masks(run: Run, to: Path, show_offensive: bool, variant: str | None) -> None:
    from engine.report.masks import write_masks

    write_masks(run, to / "masks", variant)


def _tables(run: Run, to: Path, show_offensive: bool, variant: str | None) -> None:
    from engine.report.tables import write_tables

    write_tables(run, to / "tables", show_offensive)


def _figures(run: Run, to: Path, show_offensive: bool, variant: str | None) -> None:
    from engine.report.figures import write_figures

    write_figures(list(all_panels(run, default_choice(run, variant=variant))), to / "figures")


def _report(
    run: Run, to: Path, show_offensive: bool, variant: str | None, **accepted: float
) -> None:
    from engine.report.report import write_report

    write_report(run, to / "report.html", show_offensive, variant, **accepted)


def _pdf(run: Run, to: Path, show_offensive: bool, variant: str | None, **accepted: float) -> None:
    from engine.report.pdf import write_pdf

    with tempfile.TemporaryDirectory() as folder:
        page = to / "report.html"  # where the report is asked for too, it is made once
        if not page.is_file():
            page = Path(folder) / page.name
            _report(run, page.parent, show_offensive, variant, **accepted)
        write_pdf(page, to / "report.pdf")


def _slides(
    run: Run, to: Path, show_offensive: bool, variant: str | None, **accepted: float
) -> None:
    from engine.report.slides import slides

    choice = default_choice(run, variant=variant).accepting(**accepted)
    (to / "slides.pptx").write_bytes(slides(run, choice))


def _checkpoint(
    run: Run, to: Path, show_offensive: bool, variant: str | None, base: str | None = None
) -> None:
    track_of(run).write_checkpoint(
        run, _takable(run, variant), to / _checkpoint_folder(run, variant), base
    )


def _model_card(run: Run, to: Path, show_offensive: bool, variant: str | None) -> None:
    from engine.report.model_card import model_card

    (to / "model_card.md").write_text(model_card(run, _variant(run, variant)), encoding="utf-8")


def _foreign(one: Foreign, run: Run, to: Path, show_offensive: bool, variant: str | None) -> None:
    (to / one.file).write_text(visible(one.write(run)), encoding="utf-8")


def _variant(run: Run, variant: str | None) -> dict:
    return variant_row(run, variant) if variant else lookup.variant_of(run, default_choice(run))


def _takable(run: Run, variant: str | None) -> dict:
    """The variant itself, or the first of the trials behind it."""
    return variant_row(run, next(iter(track_of(run).takable(run, _variant(run, variant)))))


def _checkpoint_folder(run: Run, variant: str | None) -> Path:
    from engine.report.masks import file_name

    return Path("checkpoint") / file_name(_takable(run, variant)["variant"])


def _free_for_checkpoint(run: Run, to: Path, what: Sequence[str], variant: str | None) -> None:
    """Weights of two exports must never mix in one folder."""
    if "checkpoint" not in what:
        return
    folder = to / _checkpoint_folder(run, variant)
    if folder.exists() and any(folder.iterdir()):
        raise RequestError(
            Fault("to", f"{folder} is not empty.", "Choose another folder, or remove it.")
        )


WRITERS: dict[str, Writer] = {
    "masks": _masks,
    "tables": _tables,
    "figures": _figures,
    "report": _report,
    "pdf": _pdf,
    "slides": _slides,
    "checkpoint": _checkpoint,
    "model_card": _model_card,
}
