"""PruneAudit: if we cut these heads, who pays, and how sure are we?

For notebooks and scripts, each loaded when it is first used (docs/notebook.md).

    audit(request, store=None)          a finished run; a request is a track's, or its JSON form.
    open_run(id_or_path)                a run that is finished already.
    measure(run, cut, store=None)       the model without other heads, as rows of `results`.
    apply_mask(mask, model)             a model before and after the cut of a mask.json.
    panels(run, axis, variant)          questions, answers, figures and tables of a run.
    Store                               where runs are kept.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"

# Read when torch loads: threads that spin while they wait are many times slower beside others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HANDED_ON = {
    "open_run": "engine.store.runs",
    "Store": "engine.store.runs",
    "measure": "engine.audit",
    "apply_mask": "engine.surgery.apply",
    "panels": "engine.report.contents",
}


def __getattr__(name: str) -> Any:
    """A name of the list above, imported now: `import engine` alone loads nothing."""
    if name == "audit":  # a folder that can be called
        return importlib.import_module("engine.audit")
    if name not in _HANDED_ON:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HANDED_ON[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HANDED_ON, "audit"})
