"""Labels: drawn to a file and read back, kept and gone on with, all faults at once; what they make
of the judge is on the page, in the verdict and in what is taken away."""

import csv
import json

import pandas as pd
import pytest

from engine.cli import main
from engine.report.bundle import export_run
from engine.report.contents import default_choice, panels
from engine.report.verdict import verdict
from engine.store.runs import Store, find_run
from engine.tracks.language_models.labels import (
    HARMFUL,
    HARMLESS,
    UNSURE,
    keep,
    kept,
    read_labels,
    sample_of,
    told,
)
from engine.tracks.language_models.panels.judges import labels, said
from tests.builders import refused
from tests.made_up import make
from tests.pages.checks import assert_calm, click, opened, use_store, words_of

NAME = "fasp-gender_and_sex-g0.30-s0.200", "gender_and_sex"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up")
    make("language_models", folder, "labelled-run")
    return folder


@pytest.fixture
def store(run_folder, tmp_path, monkeypatch):
    (tmp_path / "runs").symlink_to(run_folder / "runs")
    use_store(tmp_path, monkeypatch)
    return Store(tmp_path)


@pytest.fixture
def sample(store):
    return sample_of(again(store), *NAME)


def again(store):
    return find_run("labelled-run", [store])


def answers(sample, texts, every=3):
    return {
        text: HARMLESS if at % every else HARMFUL for at, text in enumerate(sample.texts["text"])
        if at < texts
    }  # fmt: skip


def given(store, sample, name, labels):
    keep(again(store), store, sample, name, labels)
    return told(again(store), *NAME)


def drawn(tmp_path, change=lambda rows: rows, label="n", texts=40):
    """A sample as the command writes it, filled."""
    path = tmp_path / "drawn.csv"
    assert main(["labels", "labelled-run", "--draw", str(path), "--texts", str(texts)]) == 0
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = change([{**row, "label": label} for row in rows])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_sample_names_neither_model_nor_group_nor_verdict(store, sample, tmp_path):
    rows = pd.read_csv(drawn(tmp_path))
    assert list(rows) == ["sample", "text", "prompt", "written", "label"] and len(rows) == 40
    assert rows["text"].tolist() == sample.texts["text"].head(40).tolist()


def test_texts_are_no_formulae_in_a_file(store, sample, tmp_path, monkeypatch):
    cells = sample.texts.assign(written="=1+1")
    monkeypatch.setattr("engine.tracks.language_models.labels.Sample.texts", cells)
    assert set(pd.read_csv(drawn(tmp_path))["written"]) == {"'=1+1"}


def test_labels_are_gone_on_with_and_each_person_has_one_addition(store, sample):
    first = given(store, sample, "AB", {**dict.fromkeys(answers(sample, 40), ""),
                                        **answers(sample, 3)})  # fmt: skip
    assert first.people.to_dict("records") == [
        {"labeller": "AB", "labelled": 3, "unsure": 0, "missing": 37}
    ]
    last = given(store, sample, "AB", {**answers(sample, 40), sample.texts["text"][5]: UNSURE})
    assert (last.read, last.people["unsure"][0], last.people["missing"][0]) == (39, 1, 0)
    given(store, sample, "AB", {sample.texts["text"][5]: HARMFUL, sample.texts["text"][0]: ""})
    assert len(again(store).added) == 1
    labels = kept(again(store), *NAME).set_index("text")["label"]
    assert labels[sample.texts["text"][5]] == HARMFUL == labels[sample.texts["text"][0]]


def test_once_all_are_labelled_people_stand_in_the_judges_place(store, sample):
    every = answers(sample, len(sample.texts))
    found = given(store, sample, "AB", every)
    harm = pd.Series(every).map({HARMFUL: 1.0, HARMLESS: 0.0})
    rows = found.rows.set_index("group")
    after = sample.pairs["id_pruned"].map(harm)
    assert rows["value"][""] == pytest.approx(after.mean())
    male = sample.pairs["subgroup"] == "male"
    assert rows["value"]["male"] == pytest.approx(after[male].mean())
    assert "transgender" not in rows.index, "too few prompts for a verdict in the audit itself"
    assert set(found.ends) < set(sample.errors.subgroups) and "no judge is needed" in said(found)


def test_few_labels_are_said_to_be_few(store, sample):
    assert said(given(store, sample, "AB", answers(sample, 6))).endswith(
        "Too few of them show a change for any figure."
    )
    found = given(store, sample, "AB", answers(sample, 40))
    assert found.rows["group"].tolist()[-1] == ""
    assert "one person labelled 40" in said(found).lower()


def test_texts_that_were_passed_over_leave_no_figure(store, sample):
    some = answers(sample, 40)
    del some[sample.texts["text"][2]], some[sample.texts["text"][7]]
    found = given(store, sample, "AB", some)
    assert found.holes == 2 and found.rows.empty
    assert "They passed over 2 texts" in said(found)


def test_two_people_agree_as_far_as_they_do(store, sample):
    given(store, sample, "AB", answers(sample, 40))
    other = {**answers(sample, 40), **dict.fromkeys(list(answers(sample, 4)), HARMFUL)}
    found = given(store, sample, "CD", other)
    assert found.agreement["n"] == 40 and found.agreement["same"] == pytest.approx(38 / 40)
    panel = labels(again(store), default_choice(again(store)))
    assert "agree on 95 %" in panel.mind and "Two people labelled 40" in panel.answer


def test_one_class_has_neither_figure_nor_kappa(store, sample):
    """All said harmless was "changes by 0 (0 to 0)", and the judge was said to err."""
    for name in ("AB", "CD"):
        found = given(store, sample, name, dict.fromkeys(answers(sample, 40), HARMLESS))
    assert found.rows.empty and said(found).endswith(
        "Too few of them show a change for any figure."
    )
    assert found.agreement["same"] == 1
    assert "kappa is undefined" in labels(again(store), default_choice(again(store))).mind


def spoil(rows):
    rows[1]["label"] = "maybe"
    rows[2]["text"] = "t0"
    rows[3]["sample"] = rows[3]["sample"].replace("labelled-run", "other-run")
    rows[4] = rows[5]
    return rows


def test_every_fault_of_a_file_is_said_at_once_with_its_row(store, tmp_path):
    path = drawn(tmp_path, spoil)
    told = refused(read_labels, again(store), path)
    assert len(told) == 4
    for at, (row, words) in enumerate(
        ((2, "'maybe' is no label"), (3, "'t0' is no text"), (4, "no sample of this audit"),
         (6, "repeats row 5"))
    ):  # fmt: skip
        assert f"row {row}: " in told[at] and words in told[at]


def test_a_file_without_a_label_is_refused_and_nothing_is_kept(store, tmp_path, capsys):
    path = drawn(tmp_path, label="")
    assert main(["labels", "labelled-run", "--read", f"AB={path}"]) == 2
    assert "holds no label" in capsys.readouterr().err and not again(store).has("labels")


def thirds(rows):
    """Every third text harmful, so that some pairs change."""
    return [{**row, "label": "n" if at % 3 else "h"} for at, row in enumerate(rows)]


def test_a_file_is_read_and_told_by_the_command(store, tmp_path, capsys):
    path = drawn(tmp_path, thirds)
    capsys.readouterr()
    words = ["labels", "labelled-run", "--read", f"AB={path}", "--read", f"CD={path}", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labelled"] == 40 and [one["labelled"] for one in found["labellers"]] == [40, 40]
    assert found["agreement"]["kappa"] is None or found["agreement"]["same"] == 1
    assert found["figures"][-1]["group"] == "all texts"
    assert main(["labels", "labelled-run"]) == 0
    assert found["said"].partition(".")[0] in capsys.readouterr().out


def test_labels_are_in_the_verdict_the_panels_and_the_tables(store, sample, tmp_path, no_charts):
    run = again(store)
    assert "labels" not in panels(run) and "labelled" not in verdict(run, default_choice(run)).whole
    given(store, sample, "AB", answers(sample, 100))
    run = again(store)
    assert "One person labelled 100 of" in verdict(run, default_choice(run)).whole
    assert "labels" in panels(run)
    export_run(run, tmp_path / "out", ("tables", "report"))
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "labels.csv")) == 100
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert report.count("One person labelled 100 of") >= 2


def labelling(labeller):
    place = {"tab": "labels", "labeller": labeller, "sparsity": "20%"}
    return opened("examples", "labelled-run", **place)


def test_a_page_labels_text_by_text_and_goes_on_after_a_reload(store, sample):
    at = labelling("AB")
    assert_calm(at)
    assert "0 of 40 texts labelled" in str(at.get("progress")[0].proto)
    first = str(sample.texts["written"][0])
    assert first not in words_of(at), "hidden until asked for"
    assert next(one for one in at.button if one.label == "Harmful").disabled
    click(at, "Show texts")
    assert first in words_of(at)
    for label in ("Harmful", "Unsure", "Back"):
        click(at, label)
    assert "you said: unsure" in words_of(at)
    click(at, "Not harmful")
    found = kept(again(store), *NAME).set_index("text")["label"]
    assert found[sample.texts["text"][:2]].tolist() == [HARMFUL, HARMLESS]
    at = labelling("AB")
    assert "2 of 40 texts labelled" in str(at.get("progress")[0].proto)


def test_a_page_shows_the_figures_to_whoever_is_done(store, sample):
    given(store, sample, "AB", answers(sample, 40))
    at = labelling("AB")
    assert "Do people agree with the judge?" in words_of(at)
    at = labelling("<i>")
    assert "cannot show" in at.error[0].value
