"""ask, of fair training: what is answered to a picture, and where the models look (the maps in
--json)."""

from engine.report.one_input import OPTIONS, given, said

__all__ = ["ASKS", "OPTIONS", "given", "said"]

ASKS = "trained picture"
