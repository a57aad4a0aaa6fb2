"""Audits side by side: one front on the same images only, settings in words, titles told once."""

import json
import re

import pandas as pd
import pytest

from engine.core import words
from engine.report.charts import compare
from engine.report.charts import compare as compare_kinds
from engine.report.charts.panel import Choice
from engine.store.runs import Store
from tests.builders import parts_of
from tests.made_up import make

STR = Choice("bifp-str", "gender", 0.488, None, "accuracy")
PLAIN = Choice("autobot", "gender", 2.0, None, "accuracy")
FEW = {
    "methods": ("bifp-str", "pf", "fpgm", "dense-tuned"),
    "sparsities": (0.488,),
    "images": 160,
    "seeds": 2,
}
SMALL = {"switches": False, "speedups": (2.0, 4.0), "loss_share": False, "images": 160, "trials": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make("fair_training", folder, "fair", **FEW, tradeoff=False, surface=False, weights=False)
    make("image_classifiers", folder, "same", **SMALL)
    make("image_classifiers", folder, "elsewhere", **{**SMALL, "images": 120}, stream=3)
    return Store(folder)


def opened(store, *names):
    return [store.open(name) for name in names]


def described(run, folder, **parts):
    """The run with parts of its description edited."""
    meta, tables = parts_of(run)
    meta |= {name: {**meta[name], **more} for name, more in parts.items()}
    return Store(folder).write("described", meta, tables)


def beaten(table):
    """Whether some cut model of the table is at least as good at both and better at one; uncut ones
    do not compete."""
    cut = table[table["is_cut"]]
    return pd.Series(
        [
            not row.is_cut
            or bool(
                (
                    (cut["quality"] >= row.quality)
                    & (cut["gap"] <= row.gap)
                    & ((cut["quality"] > row.quality) | (cut["gap"] < row.gap))
                ).any()
            )
            for row in table.itertuples()
        ],
        index=table.index,
    )


def lines_of(panel):
    """Accuracies on the dotted line of every column."""
    return [
        {float(x) for trace in part.data if trace.mode == "lines" for x in trace.x}
        for part in panel.parts
    ]


def test_one_front_on_the_same_images(store):
    runs = opened(store, "fair", "same")
    assert compare.same_items(runs)
    table, panel = compare_kinds.points(runs, STR), compare_kinds.compare_kinds(runs, STR)
    assert (table["front"] == ~beaten(table)).all()
    assert panel.said.startswith("On the same test images.") and not panel.own_axes
    first, second = lines_of(panel)
    assert first == second
    assert compare.comparability(runs)[1][0].endswith(
        "Only measures on the same images stand side by side."
    )


def test_different_images_share_no_front_and_no_axes(store):
    runs = opened(store, "fair", "elsewhere")
    table, panel = compare_kinds.points(runs, STR), compare_kinds.compare_kinds(runs, STR)
    for _, mine in table.groupby("run"):
        assert (mine["front"] == ~beaten(mine)).all() and mine["front"].any()
    for run, line, part in zip(runs, lines_of(panel), panel.parts, strict=True):
        mine = table[table["run"] == run.meta["title"]]
        assert line == set(mine.loc[mine["front"], "quality"])
        drawn = sum(len(trace.x) for trace in part.data if trace.mode == "markers")
        assert drawn == len(mine), "nothing of the other audit stands behind it"
    assert panel.own_axes and "the test images differ" in panel.said and panel.whole() is not None
    assert f"of {int(table['is_cut'].sum())} cut models" not in panel.said, (
        "nothing is counted over both"
    )
    assert "on the front of its audit" in panel.table
    warnings = compare.comparability(runs)[1]
    assert warnings[0] == words.KINDS_ON_OTHER_IMAGES and not any(
        "laid side by side" in text for text in warnings
    )


def test_as_many_images_are_part_of_being_the_same(store, tmp_path):
    fair, same = store.open("fair"), store.open("same")
    counts = fair.meta["data"]["counts"]
    fewer = described(fair, tmp_path, data={"counts": {name: n - 1 for name, n in counts.items()}})
    assert not compare.same_items([fewer, same])
    one = described(fair, tmp_path / "one", data={"counts": dict(list(counts.items())[:1])})
    assert compare.same_items([one, same]), "an axis that was not asked for changes no image"


def test_titles_are_told_once(store):
    runs = opened(store, "fair", "same")
    answer = compare_kinds.compare_kinds(runs, STR).said
    assert "this audit" in answer and "the other audit" in answer
    assert not any(run.meta["title"] in answer for run in runs)
    assert all(compare.named(runs).count(f"“{title}”") == 1 for title in compare.titles(runs))
    alike = compare.compare_runs(opened(store, "same", "elsewhere"), PLAIN)
    assert alike.said.startswith("This audit: ") and ". The other audit: " in alike.said
    assert list(alike.figure.layout.yaxis.ticktext) == ["same", "elsewhere"]
    three = opened(store, "same", "fair", "elsewhere")
    assert compare.short_names(three) == ["this audit", "audit 2", "audit 3"]
    assert ". Audit 3: " in compare.compare_runs(three, PLAIN).said, "numbered as they were chosen"


def test_a_title_names_its_axes_in_words(store, tmp_path):
    """ "demo-gpt2: gender_and_sex" stood below its own name in words."""
    asked = {"axes": ["gender_and_sex"]}
    run = described(store.open("same"), tmp_path, request=asked)
    run.meta["title"] = "model: gender_and_sex"
    assert compare.titles([run]) == ["model: gender and sex"]


def test_settings_are_in_words(store, tmp_path):
    runs = opened(store, "fair", "elsewhere")
    table = compare.settings_table(runs).set_index("Setting")
    assert list(table.columns) == ["This audit", "The other audit"]
    assert table.loc["Kind of audit", "This audit"] == "fair training of sparse image classifiers"
    assert table.loc["Methods", "This audit"].startswith("BiFP-str, P&F, FPGM, tuned dense")
    told = "\n".join([*table.index, *table.to_numpy().ravel()])
    assert not re.search(r"[{}\"\[\]]|[a-z]_[a-z]|[0-9a-f]{12}|test/", told), told


def test_a_row_per_method_and_only_what_differs_in_it(store, tmp_path):
    run = store.open("same")
    settings = {"autobot": {"beta": 3.0, "batch": 64}, "fpgm": {"batch": 8}}
    one = described(run, tmp_path / "one", request={"method_settings": settings})
    other = described(
        run,
        tmp_path / "two",
        request={
            "method_settings": {"autobot": {"beta": 2.0, "batch": 64}},
            "retrain": {"epochs": 3, "rate": 0.01},
        },
    )
    table = compare.settings_table([one, other]).set_index("Setting")
    assert table.loc["Method settings: AutoBot"].tolist() == ["β 3", "β 2"]
    assert not any("FPGM" in name for name in table.index), "nobody asked for it"
    assert "Retraining: epochs" in table.index and "Retraining: learning rate" in table.index
    assert json.dumps(settings["fpgm"]) not in table.to_json()


def test_one_name_of_two_contents_needs_no_hash(store, tmp_path):
    run = store.open("same")
    other = described(run, tmp_path, data={"digest": "f" * 64})
    table = compare.settings_table([run, other]).set_index("Setting")
    name = run.meta["data"]["name"]
    assert table.loc["Data"].tolist() == [name, f"{name}, other contents"]
    third = described(run, tmp_path / "third", data={"digest": "e" * 64})
    said = compare.settings_table([run, other, third]).set_index("Setting").loc["Data"].tolist()
    assert said == [name, f"{name}, other contents (1)", f"{name}, other contents (2)"]
    assert compare.settings_table([run, run]).empty
