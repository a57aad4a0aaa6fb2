"""Export: the mask, tables, charts, one self-contained report and the checkpoint, to take away."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from engine.core.errors import PruneAuditError, RequestError
from engine.core.files import PROJECT
from engine.report import bundle
from engine.report.bundle import file_name
from engine.report.charts import lookup
from engine.report.figures import find_browser
from engine.report.tracks import Foreign, track_of
from pages.shared import jobs, safe, state
from pages.shared.cache import KeptRun
from pages.shared.controls import accepted, button, capital, select
from pages.shared.frame import draw_page, opened
from pages.shared.roots import refuse_target
from pages.shared.safe import boundary, caption, header, plain, visible

PARTS = {
    "tables": (
        "Tables",
        "Every number of this audit: CSV, parquet and JSON.",
        "tables.zip",
        "application/zip",
    ),
    "figures": (
        "Charts",
        "Every chart as a web page, SVG and PNG.",
        "figures.zip",
        "application/zip",
    ),
    "report": (
        "Report",
        "One page, and everything else as its appendix: a file that opens anywhere, offline.",
        "report.html",
        "text/html",
    ),
    "pdf": ("Report as PDF", "The same, printed on A4.", "report.pdf", "application/pdf"),
}
"""Title, what it is, end of the file's name, and its kind."""


def page() -> None:
    run, choice = opened("export")
    track = track_of(run)
    variant = lookup.variant_of(run, choice)
    with_texts = run.has("texts") and st.toggle(
        "Include texts in the clear", key=state.EXPORT_TEXTS, help=track.handout.texts
    )
    left, right = st.columns(2, gap="large")
    with left:
        header(plain(f"This variant: {lookup.variant_label(run, variant)}"))
        caption(lookup.amount(run, variant))
        with boundary():
            taken = _one_of(lookup.takable(run, variant))
            stands = bool(track.ways.instead(variant))
            if not stands:
                _mask(run, taken)
            _checkpoint(run, taken, stands)
    with right:
        header("The whole audit")
        for what in PARTS:
            with boundary():
                _part(run, what, with_texts)
        for one in track.handout.foreign:
            with boundary():
                _foreign(run, one)


def _one_of(takable: dict[str, str]) -> str:
    """The id whose mask and weights are taken: of several trials, one."""
    if len(takable) == 1:
        return next(iter(takable))
    named = {name: capital(label) for name, label in takable.items()}
    return select("Mask and weights of", named, state.TAKEN)


def _download(
    label: str, data: str | Callable[[], bytes], name: str, kind: str, key: str, **more: Any
) -> None:
    icon = ":material/download:"
    st.download_button(label, data, name, kind, icon=icon, on_click="ignore", key=key, **more)


def _mask(run: KeptRun, variant: str) -> None:
    handout = track_of(run).handout
    with st.container(border=True):
        st.markdown(f"**Mask**  \n{handout.mask}")
        name = f"{file_name(run.model['name'])}-{file_name(variant)}.mask.json"
        _download(
            "Download mask",
            lambda: _made(run, "masks", False, variant),
            name,
            "application/json",
            state.MASK,
            type="primary",
        )
        st.code(handout.apply.format(name=name), language=None, wrap_lines=True)


def _part(run: KeptRun, what: str, with_texts: bool) -> None:
    title, text, ending, kind = PARTS[what]
    with st.container(border=True):
        st.markdown(f"**{title}**  \n{text}")
        if what == "pdf" and find_browser() is None:
            st.caption(
                "This needs Chromium or Chrome on this machine, and none was found: print the"
                " report instead."
            )
            return
        label, name = f"Download {title[:1].lower()}{title[1:]}", f"{run.id}-{ending}"
        make: Any = lambda: _made(run, what, with_texts, accepted=accepted())  # noqa: E731
        if what == "figures":
            make = _drawn(run)
        if make:
            _download(label, make, name, kind, state.key_of("part", what))


def _drawn(run: KeptRun) -> bytes | None:
    """The charts once they are drawn; before, a button that draws them, and how far it is."""
    asked, key = ("charts", run.meta), ("charts", run.id)
    work = jobs.work_of(*asked)
    if work and work.running:
        jobs.watched(work, key, "Starting the browser")
    elif not (work and work.value):
        make = lambda hooks: _made(run, "figures", hooks=hooks)  # noqa: E731
        button("Draw charts", key, jobs.begin, *asked, make, icon="brush")
        jobs.told(work)
    return work.value if work else None


def _foreign(run: KeptRun, one: Foreign) -> None:
    """A file in the form of another program; where the run does not hold it, why."""
    with st.container(border=True):
        st.markdown(f"**{plain(one.title)}**  \n{plain(one.about)}")
        try:
            text = visible(one.write(run))
        except RequestError as error:
            caption(str(error))
            return
        key = state.key_of("foreign", one.name)
        _download(f"Download {one.file}", text, one.file, one.mime, key)


def _made(
    run: KeptRun,
    what: str,
    with_texts: bool = False,
    variant: str | None = None,
    **more: Any,
) -> bytes:
    """The bytes to download: the file itself when there is one, else all of them zipped."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle.export_run(run, folder, [what], with_texts, variant, **more)
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
        ).strip()
        if st.button("Write checkpoint", icon=":material/save:", disabled=not folder):
            with boundary():  # what goes wrong here is said here; the rest of the page stays
                _write_checkpoint(run, variant, folder)


def _write_checkpoint(run: KeptRun, variant: str, folder: str) -> None:
    refuse_target(folder)
    command = [sys.executable, "-m", "engine", "export", run.id, "--to", folder]
    command += ["--what", "checkpoint", "--variant", variant]
    command += ["--store", str(run.path.parent.parent)]
    with st.spinner(track_of(run).handout.checkpoint_wait):
        ended = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["It could not be written."]
        raise PruneAuditError(last[0])
    safe.passage(ended.stdout.strip()[:2000] or folder, label="Written")


draw_page(page)
