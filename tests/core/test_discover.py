"""What a package holds is found: a class per file, or a tuple of rows, by module name."""

import importlib
import sys

import pytest

from engine.core.discover import members

CONTRACT = """
from abc import ABC, abstractmethod

class Method(ABC):
    @abstractmethod
    def go(self): ...
"""
ONE = """
from {name}.contract import Method

class Go(Method):
    name = "{method}"
    def go(self): return 1
"""
ROWS = """
from {name}.contract import Method
from {name}.zebra import Go

class Row(Method):
    def __init__(self, name): self.name = name
    def go(self): return 2

class Bare(Method):
    name = "bare"
    def go(self): return 3

ROWS = (Row("second"), Row("first"))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    name = "a_package_of_methods"
    folder = tmp_path / name
    folder.mkdir()
    files = {
        "__init__": "",
        "contract": CONTRACT,
        "zebra": ONE.format(name=name, method="zebra"),
        "ant": ONE.format(name=name, method="ant"),
        "many": ROWS.format(name=name),
        "_hidden": "raise RuntimeError('must not be imported')",
    }
    for file, text in files.items():
        (folder / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == name]:
        del sys.modules[loaded]


def test_rows_and_classes_by_module_name_and_rows_in_their_order(package):
    from a_package_of_methods.contract import Method

    found = members(package, Method)
    assert [one.name for one in found] == ["ant", "second", "first", "bare", "zebra"]
    assert [one.go() for one in found] == [1, 2, 2, 3, 1]
