"""The names that `import engine` hands on, and docs/notebook.md, run line by line on a tiny
model."""

import ast
import json
import re
import subprocess
import sys

import pandas as pd
import plotly.graph_objects as go
import pytest

import engine
from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.models.load_language_model import load_language_model
from engine.store.runs import EMBEDDED, Store, open_run
from engine.surgery.record import record_of, write_mask
from tests.places import ROOT
from tests.tracks.language_models.worlds import world_request

DOCUMENT = ROOT / "docs" / "notebook.md"


def in_its_own_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_engine_loads_nothing_and_its_names_load_no_torch():
    code = (
        "import sys, engine\nprint('pandas' in sys.modules, 'torch' in sys.modules)\nengine.Store,"
        " engine.open_run, engine.measure, engine.apply_mask, engine.panels, engine.audit\nrun ="
        " engine.open_run(engine.Store('assets/demo-run',"
        " read_only=True).ids()[0])\nprint(any(panel.has_chart for panel in"
        " engine.panels(run).values()), 'torch' in sys.modules)\n"
    )
    assert in_its_own_process(code).split() == ["False", "False", "True", "False"]


@pytest.mark.parametrize("first", ["import engine.audit.jobs", "from engine import audit"])
def test_audit_can_be_called_whatever_was_imported_before(first):
    code = (
        f"{first}\nimport engine\n"
        "from engine.core.errors import RequestError\n"
        "try: engine.audit({'track': 'language_models', 'nonsense': 1}, 'unused')\n"
        "except RequestError as error: print(len(error.faults))"
    )
    assert int(in_its_own_process(code)) >= 2


def test_a_name_that_is_not_there_is_missing_as_anywhere():
    with pytest.raises(AttributeError, match="has no attribute 'prune'"):
        engine.prune  # noqa: B018
    assert {"audit", "open_run", "measure", "apply_mask", "panels", "Store"} <= set(dir(engine))


def test_a_run_is_opened_by_its_id_and_by_its_folder():
    run_id = Store(EMBEDDED, read_only=True).ids()[0]
    assert open_run(run_id) == open_run(EMBEDDED / "runs" / run_id)
    with pytest.raises(RequestError, match="is in no store"):
        open_run("nowhere")


@pytest.fixture
def tiny(tmp_path, monkeypatch, words_judged):
    """The document's code with the tiny model and its prompts in place of the demo; masks lie where
    it reads them."""
    request = world_request(
        tmp_path, axes=("nationality",), methods=("fasp", "magnitude"), controls=0
    )
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "masks").mkdir()
    model = load_language_model(request.model, device="cpu")
    write_mask(
        tmp_path / "masks" / "fasp.mask.json", record_of(model, HeadMask(3, 4, ((0, 3), (2, 1))))
    )
    plain = json.dumps({"track": "language_models", **request.to_dict()})
    text = DOCUMENT.read_text(encoding="utf-8")
    text, asked = re.subn(
        r"engine\.audit\(\s*\{[^}]*\}\s*\)", lambda _: f"engine.audit(json.loads({plain!r}))", text
    )
    assert asked == 1
    return text.replace('"demo-gpt2"', repr(request.model))


def test_the_document_does_what_it_says(tiny):
    blocks = re.findall(r"^```python\n(.*?)^```$", tiny, re.DOTALL | re.MULTILINE)
    names = {"json": json}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    assert len(blocks) == 4
    assert isinstance(names["results"], pd.DataFrame)
    assert isinstance(names["figure"], go.Figure)
    assert names["panel"].question.endswith("?") and len(names["numbers"])
    assert set(names["by_hand"]["variant"]) == {"dense", "by hand"}
    whole, cut = names["applied"].whole, names["applied"].cut
    assert cut.n_parameters < whole.n_parameters and whole.cut is None and cut.cut.units == (3, 9)


def test_the_first_block_is_three_statements():
    block = re.search(
        r"^```python\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )[1]
    assert len(ast.parse(block).body) == 3
