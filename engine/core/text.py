"""Text that a model wrote or a user brought, made harmless to look at."""

from __future__ import annotations

import re

CONTROL = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that steer a terminal or turn the direction of what follows; line breaks and tabs are left alone."""


def visible(text: str) -> str:
    """The text with a mark in the place of every control and direction-changing character."""
    return CONTROL.sub("\ufffd", text)
