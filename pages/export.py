"""Export: the mask, tables, charts, one self-contained report and the checkpoint, to take away."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from engine.core.errors import PruneAuditError, RequestError
from engine.report.charts import lookup
from engine.report.contract import Foreign
from engine.report.figures import find_browser
from engine.report.masks import file_name
from engine.report.tracks import track_of
from pages.shared import frame, safe, state
from pages.shared.cache import KeptRun
from pages.shared.controls import capital, choose, select
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.roots import refuse_target
from pages.shared.safe import plain, visible

PARTS = {
    "tables": ("Tables", "Every number of this audit: CSV, parquet and JSON.", "tables.zip"),
    "figures": ("Charts", "Every chart as a web page, SVG and PNG.", "figures.zip"),
    "report": (
        "Report",
        "One page, and everything else as its appendix: a file that opens anywhere, offline.",
        "",
    ),
    "pdf": ("Report as PDF", "The same, printed on A4.", ""),
}
KINDS = {"report": ("html", "text/html"), "pdf": ("pdf", "application/pdf")}


def page() -> None:
    heading("export")
    run = need_run()
    choice = choose(run)
    variant = lookup.variant_of(run, choice)
    with_texts = run.has("texts") and st.toggle(
        "Include texts in the clear",
        key=state.EXPORT_TEXTS,
        help=track_of(run).handout.texts,
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.header(plain(f"This variant: {lookup.variant_label(run, variant)}"), anchor=False)
        st.caption(plain(lookup.amount(run, variant)))
        with boundary():
            taken = _one_of(track_of(run).takable(run, variant))
            if not track_of(run).instead(run, variant):
                _mask(run, taken)
            _checkpoint(run, taken, bool(track_of(run).instead(run, variant)))
    with right:
        st.header("The whole audit", anchor=False)
        for what in PARTS:
            with boundary():
                _part(run, what, with_texts)
        for one in track_of(run).foreign:
            with boundary():
                _foreign(run, one)


def _one_of(takable: dict[str, str]) -> str:
    """The id whose mask and weights are taken: of several trials, one."""
    if len(takable) == 1:
        return next(iter(takable))
    return select(
        "Mask and weights of", list(takable), state.TAKEN, lambda name: capital(takable[name])
    )


def _mask(run: KeptRun, variant: str) -> None:
    handout = track_of(run).handout
    with st.container(border=True):
        st.markdown(f"**Mask**  \n{handout.mask}")
        name = f"{file_name(run.meta['model']['name'])}-{file_name(variant)}.mask.json"
        st.download_button(
            "Download mask",
            lambda: _made(run, "masks", False, variant),
            name,
            "application/json",
            type="primary",
            icon=":material/download:",
            on_click="ignore",
            key=state.MASK,
        )
        st.code(handout.apply.format(name=name), language=None, wrap_lines=True)


def _part(run: KeptRun, what: str, with_texts: bool) -> None:
    title, text, archive = PARTS[what]
    ending, mime = KINDS.get(what, ("zip", "application/zip"))
    name = f"{run.id}-{archive}" if archive else f"{run.id}-report.{ending}"
    with st.container(border=True):
        st.markdown(f"**{title}**  \n{text}")
        if what == "pdf" and find_browser() is None:
            st.caption(
                "This needs Chromium or Chrome on this machine, and none was found: print the"
                " report instead."
            )
            return
        st.download_button(
            f"Download {title[:1].lower()}{title[1:]}",
            lambda: _made(run, what, with_texts),
            name,
            mime,
            icon=":material/download:",
            on_click="ignore",
            key=state.key_of("part", what),
        )


def _foreign(run: KeptRun, one: Foreign) -> None:
    """A file in the form of another program; where the run does not hold it, why."""
    with st.container(border=True):
        st.markdown(f"**{plain(one.title)}**  \n{plain(one.about)}")
        try:
            text = visible(one.write(run))
        except RequestError as error:
            st.caption(plain(str(error)))
            return
        st.download_button(
            f"Download {one.file}",
            text,
            one.file,
            one.mime,
            icon=":material/download:",
            on_click="ignore",
            key=state.key_of("foreign", one.name),
        )


def _made(run: KeptRun, what: str, with_texts: bool, variant: str | None = None) -> bytes:
    """The bytes to download: the file itself when there is one, else all of them zipped."""
    from engine.report import bundle  # late: it is not needed to draw the page

    with tempfile.TemporaryDirectory() as folder:
        paths = bundle.export_run(
            run, Path(folder), [what], show_offensive=with_texts, variant=variant
        )
        return _packed(paths, Path(folder))


def _packed(paths: Sequence[Path], folder: Path) -> bytes:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if len(files) == 1:
        return files[0].read_bytes()
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return memory.getvalue()


def _checkpoint(run: KeptRun, variant: str, stands: bool) -> None:
    """Weights are written by a process of their own, into a folder the user names: they can be
    gigabytes."""
    with st.container(border=True):
        handout = track_of(run).handout
        st.markdown(f"**Checkpoint**  \n{handout.standing if stands else handout.checkpoint}")
        folder = st.text_input(
            "Folder to write into", key=state.EXPORT_FOLDER, placeholder="/home/me/pruned-model"
        )
        if st.button("Write checkpoint", icon=":material/save:", disabled=not folder.strip()):
            with boundary():  # what goes wrong here is said here; the rest of the page stays
                _write_checkpoint(run, variant, folder.strip())


def _write_checkpoint(run: KeptRun, variant: str, folder: str) -> None:
    refuse_target(folder)
    command = [
        sys.executable,
        "-m",
        "engine",
        "export",
        run.id,
        "--to",
        folder,
        "--what",
        "checkpoint",
    ]
    command += ["--variant", variant, "--store", str(run.path.parent.parent)]
    with st.spinner(track_of(run).handout.checkpoint_wait):
        ended = subprocess.run(command, capture_output=True, text=True, cwd=frame.ROOT, check=False)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["It could not be written."]
        raise PruneAuditError(last[0])
    safe.passage(ended.stdout.strip()[:2000] or folder, label="Written")


begin_app()
with boundary():
    page()
