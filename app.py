"""PruneAudit in the browser: `streamlit run app.py`."""

from __future__ import annotations

from pages.shared.frame import begin_app, run_page

begin_app()
run_page()
