"""Which output is which class, by name or as somebody said, where names are numbers with signs,
differ in little, hold commas, or are transformers' own. Labels must come out in the order of
the outputs, and each class once."""

from dataclasses import replace

import numpy as np
import pytest

from engine.audit.command_line import names_in
from engine.classifiers.layout import Outputs, in_order_of
from engine.core.errors import RequestError
from engine.data.texts.load import load_texts
from engine.models.config_file import said_outputs


def texts_of(*classes):
    """Texts whose labels are 0, 1, 0, 1, … of these classes."""
    some = load_texts("remarks")
    table = some.table.head(6).assign(label=np.arange(6, dtype=np.int64) % len(classes))
    return replace(some, table=table, classes=classes)


def named(texts):
    """The class of each text by name."""
    return [texts.classes[at] for at in texts.table["label"]]


@pytest.mark.parametrize(
    "classes", [("-1", "1"), ("type-1", "type 1"), ("no, not", "yes"), ("a,b", "b, c")]
)
def test_classes_go_to_the_outputs_as_they_were_said(classes):
    """Before, -1 and 1 were one: the order that was said did not count, and both outputs were
    called -1. A name with a comma could not be said at all."""
    texts = texts_of(*classes)
    for order in (classes, classes[::-1]):
        found = in_order_of(texts, Outputs("m", (), 2), order)
        assert found.classes == order and named(found) == named(texts)
    typed = names_in([",".join(("no, not", "yes"))])
    if classes == ("no, not", "yes"):
        assert in_order_of(texts, Outputs("m", (), 2), typed).classes == classes


@pytest.mark.parametrize("names", [("1", "-1"), ("LABEL-1", "LABEL 1"), ("No, Not", "YES")])
def test_the_same_names_are_aligned_however_little_they_differ(names):
    texts = texts_of(
        *(name if "-1" in names or "LABEL-1" in names else name.lower() for name in names[::-1])
    )
    found = in_order_of(texts, Outputs("m", names, 2))
    assert [one.lower() for one in found.classes] == [one.lower() for one in names] and named(
        found
    ) == named(texts)


def test_a_sign_is_no_hyphen():
    said = (
        r"not known which output of m is which class.*such as -1,0 \(on the command line"
        r" --classes=-1,0\)"
    )
    with pytest.raises(RequestError, match=said):
        in_order_of(texts_of("-1", "0"), Outputs("m", ("1", "0"), 2))


@pytest.mark.parametrize("names", [(), ("0", "1")])
@pytest.mark.parametrize("classes", [("LABEL_1", "LABEL_0"), ("1", "0")])
def test_numbers_of_outputs_are_their_names_and_that_is_said(classes, names):
    """Labels that transformers' own pipeline wrote; and a cut model, whose files number what the
    base did not name."""
    texts = texts_of(*classes)
    found = in_order_of(texts, Outputs("m", names, 2))
    assert found.classes == classes[::-1] and named(found) == named(texts)
    assert found.notes[-1].endswith(f"class {classes[1]} is taken to be its output 0, and so on.")


def test_transformers_own_names_in_another_order_are_names():
    """Before, whatever begins with LABEL_ was no name."""
    for names in (("LABEL_1", "LABEL_0"), ("LABEL_hate", "LABEL_none")):
        by_name = {name: at for at, name in enumerate(names)}
        said, faults = said_outputs({"id2label": dict(enumerate(names)), "label2id": by_name}, "it")
        assert said.names == names and not faults
    texts = texts_of("LABEL_0", "LABEL_1")
    found = in_order_of(texts, Outputs("m", ("LABEL_1", "LABEL_0"), 2))
    assert found.classes == ("LABEL_1", "LABEL_0") and named(found) == named(texts)
    said, _ = said_outputs({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, "it")
    assert said.names == () and said.count == 2


def test_names_differ_by_case_blanks_and_hyphens_only():
    texts = load_texts("remarks")
    names = tuple(map(str.upper, texts.classes))
    assert in_order_of(texts, Outputs("m", names, len(names))) is texts
    turned = in_order_of(texts, Outputs("m", names[::-1], len(names)))
    assert turned.classes == texts.classes[::-1] and turned.digest != texts.digest
    assert named(turned) == named(texts)


def test_another_number_of_outputs_is_refused():
    with pytest.raises(RequestError, match="m has 3 outputs, remarks has 2 classes"):
        in_order_of(load_texts("remarks"), Outputs("m", (), 3))
