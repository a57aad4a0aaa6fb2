"""What stays in memory is kept out of Python's search for circles.

Streamlit has Python search all objects for circles that nobody holds after every run of every page,
while all other sessions wait: with the libraries, tables and figures of this app .2 s, more than
all else a redraw costs. Objects that stay are set aside (`gc.freeze`), again whenever many more
were made; what was let go of meanwhile is found then.
"""

from __future__ import annotations

import gc
import threading

MANY = 16
"""So many results are made between two searches of everything."""
_lock = threading.Lock()
_made = 0


def settle() -> None:
    """Search everything once, and set aside what is left."""
    with _lock:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def made_one() -> None:
    """A result was made that is kept for other redraws."""
    global _made
    _made += 1
    if _made % MANY == 0:
        settle()
