"""How amounts of memory are written."""

import pytest

from engine.core.errors import RequestError
from engine.core.memory import amount


def test_amounts_are_read_and_what_is_none_is_refused():
    assert [amount(said) for said in ("2G", "1.5 kB", "500 MiB", "1024")] == [
        2 << 30,
        1536,
        500 << 20,
        1024,
    ]
    for said in ("", "2GG", "-1G", "nan", "0", "0.5", "1e9", "9" * 400, "9" * 300 + "T"):
        with pytest.raises(RequestError, match="is no amount"):
            amount(said)
