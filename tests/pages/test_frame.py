"""What holds of every page whatever it shows: no torch, one frame, one file for keys and one for caches, a calm start."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.checks import PAGES, ROOT, assert_calm


@pytest.mark.contract
def test_the_app_opens_on_an_embedded_audit(tmp_path, monkeypatch):
    from pages.shared import cache

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))
    cache.runs.clear()
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert_calm(at)
    assert len(at.title) == 1 and at.get("plotly_chart")
    assert len(at.selectbox(key="run_picker").options) == len(list((ROOT / "assets/demo-run/runs").iterdir()))


def test_faults_are_shown_together_and_as_text():
    script = """
from engine.core.errors import Fault, RequestError
from pages.shared.frame import boundary
with boundary():
    raise RequestError([Fault("prompts", "has no column *subgroup*.", "Add it."), Fault("gamma", "1.2", "Less.")])
"""
    at = AppTest.from_string(script).run()
    assert [item.value.replace("\\", "") for item in at.error] == [
        "prompts: has no column *subgroup*. Add it.",
        "gamma: 1.2 Less.",
    ]
    assert r"\*subgroup\*" in at.error[0].value


def test_uploads_stay_in_the_store(tmp_path, monkeypatch):
    from pages.shared import uploads

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))

    class Upload:
        name = "../../etc/pass wd.csv"

        def getvalue(self):
            return b"prompt,axis,subgroup\n"

    path = uploads.kept(Upload())
    assert path.resolve().is_relative_to(tmp_path / "uploads")
    assert path.read_bytes() == b"prompt,axis,subgroup\n"
    assert path == uploads.kept(Upload())


def test_pages_import_no_torch():
    code = "import sys, pages.shared.jobs, pages.shared.request_form, pages.shared.panels, pages.shared.uploads\n"
    for page in PAGES:
        code += f"import pages.{page}\n"
    code += "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    environment = {**os.environ, "PRUNEAUDIT_STORE": "/nonexistent"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert ended.stdout.strip().splitlines()[-1] == "[]", ended.stderr[-2000:]


def test_one_file_names_session_keys_and_one_caches():
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "session_state" not in used or path.name == "state.py", path
        assert not used & {"cache_data", "cache_resource"} or path.name == "cache.py", path
        literal = [
            word.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            for word in node.keywords
            if word.arg == "key" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
        ]
        assert not literal or path.name == "state.py", (path, literal)


def test_every_page_begins_with_the_frame():
    for page in PAGES:
        body = ast.parse((ROOT / "pages" / f"{page}.py").read_text(encoding="utf-8")).body
        calls = [node for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        assert calls, page
        assert calls[0].value.func.id == "begin_app", page
