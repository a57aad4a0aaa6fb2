"""CSV files in the dialects that people bring: what parts cells, codings of text, and names of
columns."""

import pytest

from engine.core.errors import RequestError
from engine.data.sources import MAX_GROUPS, left_out, usable
from engine.data.tables import MOST_FAULTS, axes_of, column_of, csv_table, text_of
from tests.builders import refused


def table(path, text, *own, coding="utf-8", **how):
    path.write_bytes(text.encode(coding))
    return csv_table(path, own, **how)


ROWS = [
    ["text", "label"],
    ["one, two; three", "0"],
    ["four|five\tsix", "1"],
    ['say "so",\nthen; go', "0"],
]


def quoted(cell):
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if set(cell) & set(',;|\t"') else cell


def written(delimiter):
    return "\n".join(delimiter.join(map(quoted, row)) for row in ROWS)


@pytest.mark.parametrize("name, usual", [("a.csv", ","), ("a.TSV", "\t")])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_any_delimiter_under_any_name(tmp_path, name, usual, delimiter):
    found = table(tmp_path / name, written(delimiter))
    assert [list(found.cells.columns), *found.cells.values.tolist()] == ROWS
    assert found.delimiter == delimiter and bool(found.notes) == (delimiter != usual)


def test_delimiters_inside_cells_decide_nothing(tmp_path):
    found = table(tmp_path / "a.csv", "text;label\nwell, yes;0\nno, no, no;1\n")
    assert found.cells["text"].tolist() == ["well, yes", "no, no, no"]
    assert found.notes == ("a.csv has semicolons between its cells, and was read so.",)
    found = table(tmp_path / "a.csv", "text,label\nwell; yes,0\nno; no,1\n")
    assert found.cells["text"].tolist() == ["well; yes", "no; no"] and found.notes == ()
    found = table(tmp_path / "a.csv", "sep=;\r\ntext;label\r\na;0,5\r\n")
    assert found.cells["label"].tolist() == ["0,5"]
    assert found.spelled("LABEL")[0].tolist() == ["0.5"]


def test_a_broken_row_is_said_of_the_dialect_with_most_columns(tmp_path):
    (fault,) = refused(table, tmp_path / "a.csv", "text;label;town\na, b;0;x\nc;1\n")
    assert fault.startswith("a.csv, row 2: It has 2 fields where the header has 3")
    faults = refused(table, tmp_path / "a.csv", "a,b,b\n" + "1,2\n" * 50)
    assert len(faults) == MOST_FAULTS + 2 and "named twice: b" in faults[0]


def test_a_column_without_a_name_is_called_after_its_place(tmp_path):
    found = table(tmp_path / "a.csv", ",text,label,\n0,a,x,\n1,b,y,\n")
    assert list(found.cells.columns) == ["column 1", "text", "label", "column 4"]


def test_capitals_count_in_names_but_those_with_a_meaning(tmp_path):
    found = table(tmp_path / "a.csv", "Text,Town\n a , b \n", "text", whole="text")
    assert found.cells.to_dict("records") == [{"text": " a ", "Town": "b"}]
    names = [column_of(name, ("Town", "a", "A")) for name in ("town", "Town", "a", "A", "b")]
    assert names == ["Town", "Town", "a", "A", "b"]
    assert column_of("town", ("Town", "TOWN")) == "town"


def test_axes_have_the_columns_own_names_each_once():
    columns = ("Dialect", "age", "a+b", "Class")
    asked = ("dialect", "Dialect", "AGE + dialect", "a+b", "class", "class+DIALECT", "none")
    own = ("Dialect", "age+Dialect", "a+b", "class", "class+Dialect", "none")
    assert axes_of(asked, columns) == own


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_in_any_coding_with_a_mark(tmp_path, coding):
    mark = "\ufeff" if coding in ("utf-16-le", "utf-16-be") else ""
    found = table(tmp_path / "a.csv", f"{mark}text,label\ncafé,0\n", coding=coding)
    assert found.cells["text"].tolist() == ["café"]


def test_older_codings_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        RequestError, match="Not UTF-8 text .byte 14, line 2.. Save it as UTF-8.*CSV UTF-8"
    ):
        table(tmp_path / "a.csv", "text,label\ncafé,0\n", coding="cp1252")


def test_a_cell_may_be_a_long_document(tmp_path):
    found = table(tmp_path / "a.csv", f"text,label\n{'word ' * 40_000},0\n")
    assert len(found.cells["text"][0]) == 40_000 * 5 - 1


def test_half_a_file_in_two_byte_units_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,label\na,0".encode("utf-16")[:-1])
    with pytest.raises(RequestError, match="Not UTF-8 text"):
        text_of(tmp_path / "a.csv")


def test_columns_of_two_to_the_most_values_are_usable_and_larger_ones_are_named():
    counts = {"constant": 1, "sex": 2, "place": MAX_GROUPS, "name": MAX_GROUPS + 1, "id": 12_000}
    assert usable(counts) == ["sex", "place"]
    many = f"Not offered, for more than {MAX_GROUPS} different values: name (65), id (12,000)."
    assert left_out(counts) == many and left_out({"constant": 1, "sex": 2}) == ""
