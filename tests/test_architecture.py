"""Imports run one way, and what the first screen needs does not load torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

STAGES = ["data", "models", "surgery", "training", "metrics", "scores", "selection", "store", "audit", "export", "cli"]
BASE = {"types", "errors", "seeds", "words", "files", "discover"}


def imports_of(path: Path) -> set[str]:
    """Dotted names this file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def stage_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" else ""


def engine_files() -> list[Path]:
    return sorted((ROOT / "engine").rglob("*.py"))


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_stage_imports_only_stages_to_its_left(path):
    own = path.relative_to(ROOT / "engine").parts[0].removesuffix(".py")
    if own in ("__main__", "__init__"):
        return
    for name in imports_of(path):
        stage = stage_of(name)
        if own in BASE:
            assert stage in BASE | {""}, f"{path} imports {name}"
        elif stage in STAGES:
            assert STAGES.index(stage) <= STAGES.index(own), f"{path} imports {name}"


def test_the_engine_knows_no_screen():
    for path in engine_files():
        assert not {name for name in imports_of(path) if name.split(".")[0] in ("streamlit", "pages", "app")}, path


def test_pages_never_import_torch():
    code = (
        "import sys, pathlib, importlib.util\n"
        "import engine.store.runs, engine.audit.jobs, engine.report.charts.headline, engine.core.words\n"
        "import engine.tracks.language_models.scores.base; engine.tracks.language_models.scores.base.score_methods()\n"
        "import pages.shared.form\n"
        "import pages.shared.frame, pages.shared.controls, pages.shared.jobs, pages.shared.panels\n"
        "bad = [name for name in ('torch', 'transformers', 'detoxify') if name in sys.modules]\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_file_names_session_keys_and_one_caches():
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if path.name != "state.py":
            assert "st.session_state" not in text, path
        if path.name != "cache.py":
            assert "st.cache_" not in text, path
