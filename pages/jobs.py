"""Jobs: audits that run, wait or have ended; cancel, resume, open."""

from __future__ import annotations

from pages.shared import jobs
from pages.shared.frame import draw_page, heading


def page() -> None:
    heading("jobs", notes=False)
    jobs.watch()


draw_page(page)
