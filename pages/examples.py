"""Examples: texts or images before and after the cut, one by one. An anecdote each, beside the
intervals elsewhere."""

from __future__ import annotations

from pages.shared.frame import draw_page, tabbed

draw_page(lambda: tabbed("examples"))
