"""What stays is left out of the search for circles after every redraw; what was let go of is found
all the same."""

import gc
import weakref

import pandas as pd
import pytest

from pages.shared import cache


class Circle:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def thawed():
    """Other tests count objects as if nothing was set aside; no search comes but those asked for
    here."""
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def test_a_search_after_a_redraw_looks_at_few_objects():
    gc.unfreeze()
    before = len(gc.get_objects())
    cache.settle()
    assert len(gc.get_objects()) < before / 20


def test_tables_are_kept_within_their_room_and_the_last_one_always():
    kept, made = cache.Memory(room=2000), []
    for name in ("a", "b", "a", "large", "a"):
        size = 900 if name == "large" else 50
        kept.get(
            name, lambda name=name, size=size: made.append(name) or pd.DataFrame({"x": range(size)})
        )
    assert made == [
        "a",
        "b",
        "large",
        "a",
    ], "a and b fit beside each other, the large one beside none"


def test_circles_that_were_set_aside_are_found_after_many_results():
    kept = cache.Memory(size=1)
    kept.get("a circle", Circle)
    cache.settle()
    gone = weakref.ref(kept.get("a circle", Circle))
    for number in range(cache.MANY + 1):
        kept.get(number, lambda: None)
    assert gone() is None
