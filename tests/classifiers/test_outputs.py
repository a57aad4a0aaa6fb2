"""Labels go to outputs by name, whatever the case, or are asked for; what both kinds of classifiers
share."""

from __future__ import annotations

import json

import pytest

from engine.classifiers.layout import Outputs, in_order_of
from engine.cli import main
from engine.core.errors import RequestError
from engine.data.texts.load import load_texts


def evaluated(capsys, *words: str) -> tuple[int, dict]:
    code = main(["evaluate", *words, "--device", "cpu", "--json"])
    return code, json.loads(capsys.readouterr().out)


def accuracy(found: dict) -> float:
    return next(
        row["value"] for row in found["results"] if row["metric"] == "accuracy" and not row["axis"]
    )


def test_names_differ_by_case_blanks_and_hyphens_only():
    texts = load_texts("remarks")
    same = in_order_of(
        texts, Outputs("m", tuple(name.upper() for name in texts.classes), len(texts.classes))
    )
    assert same is texts
    turned = in_order_of(
        texts, Outputs("m", tuple(name.upper() for name in texts.classes[::-1]), len(texts.classes))
    )
    assert turned.classes == texts.classes[::-1] and turned.digest != texts.digest
    assert [turned.classes[one] for one in turned.table["label"]] == [
        texts.classes[one] for one in texts.table["label"]
    ]


def test_another_number_of_outputs_is_refused():
    with pytest.raises(RequestError, match="m has 3 outputs, remarks has 2 classes"):
        in_order_of(load_texts("remarks"), Outputs("m", (), 3))
