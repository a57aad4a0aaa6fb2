"""When an axis is logarithmic."""

import math

from engine.report.charts.panel import needs_log


def test_values_far_apart_need_one_unless_one_of_them_has_no_logarithm():
    assert needs_log([1.0, 25.0, math.nan, math.inf])
    assert not needs_log([1.0, 15.0]) and not needs_log([]) and not needs_log([math.nan])
    assert not needs_log([0.0, 1.0, 25.0]), "a point at zero would be nowhere"
