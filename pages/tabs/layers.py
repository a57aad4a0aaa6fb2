"""Layers: what is left of each layer of filters, and how that changes with the cut."""

from __future__ import annotations

from engine.report.charts import filter_layers
from pages.shared.navigation import Tab
from pages.shared.panels import shows

LAYERS = Tab("Layers", shows((filter_layers.layer_survival, filter_layers.layers_by_speedup)))
