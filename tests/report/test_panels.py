"""What holds for every panel of every kind of audit, and for how it was measured."""

import math
import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from engine.core import words
from engine.report import measured
from engine.report.charts import lookup
from engine.report.charts.by_group import MOST, pairs, thumbnail
from engine.report.charts.panel import Choice, needs_log
from engine.report.charts.pareto import pareto
from engine.report.charts.what_was_cut import HEIGHT, what_was_cut
from engine.report.contents import all_panels, axis_panels, default_choice
from engine.report.tracks import track_of, tracks
from engine.report.verdict import verdict
from engine.store.runs import EMBEDDED, Store
from tests import made_up
from tests.builders import parts_of
from tests.made_up import kept
from tests.pages.checks import assert_calm, opened, use_store, words_of

EMPTY = ("That takes at least two scores.",)
"""Answers of panels that draw nothing, for the made-up run has nothing to lay beside each other."""

NEEDED = ("variants", "results", "groups", "scores", "prompts", "generations")
"""Tables without which no audit is drawn; the last three are of language models alone."""


pytestmark = pytest.mark.usefixtures("drawn_once")


@pytest.fixture(scope="module", params=tracks())
def run(request):
    return made_up.kept(request.param)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_panel_has_question_answer_table_and_chart(run, dark):
    """The answer is one short sentence; what else is to be said stands in `mind`, beside it, or in
    `more`, behind "How measured". So does the caveat."""
    choice = default_choice(run, dark=dark)
    found = list(all_panels(run, choice))
    many = Counter(axis for axis, _ in found)
    assert all(many[axis] > 3 for axis in ("", *run.meta["request"]["axes"]))
    told = [text for part in measured.parts(run, choice) for text in part.told]
    rest = measured.caveats(run, choice)
    assert len(told) == len(set(told)) and rest.iloc[:, 1].is_unique
    assert set(track_of(run).evidence.limits(run)) <= set(told)
    everything = " ".join([*told, *rest.iloc[:, 1]])
    for axis, panel in found:
        said = panel.said
        ends = re.findall(r"[.!?](?=\s+[A-Z“])", panel.answer)
        is_warning = "null band" in panel.answer  # whole, or it would not be understood
        is_short = not ends and len(panel.answer.split()) <= 45
        assert is_warning or not panel.has_chart or is_short, panel.answer
        if axis in ("", choice.axis):
            words_of = [word for word in panel.caveat.split() if len(word) > 3]
            assert all(word in everything for word in words_of), panel.key
        assert panel.question.endswith("?") and said.endswith((".", "?")), panel.key
        assert said[0].isupper() or said[0] in "\u201c0123456789", said
        spoken = {*said.lower().split()}
        assert not {"nan", "debias", "unbiased", "solved"} & spoken and "_" not in said, said
        if said in EMPTY:
            continue
        figure = panel.whole()
        assert figure is not None and not panel.table.empty and panel.caveat, panel.key
        assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"


@pytest.mark.parametrize("run_id", Store(EMBEDDED).ids())
def test_the_chosen_line_stands_at_its_true_amounts_and_no_other_near_the_next(run_id):
    """20 % was drawn at 23 %, 5 % of another at 2 %."""
    embedded = Store(EMBEDDED).open(run_id)
    choice, track = default_choice(embedded), track_of(embedded)
    level, figure = track.level, track.charts.quality(embedded, choice).whole()
    variants = embedded.table("variants").set_index("variant")[level.realised]
    for line in figure.data:
        if line.customdata is None or len(line.customdata) < 2:
            continue
        true = [variants[one] for one in line.customdata]
        if words.method_name(choice.method) == line.name:
            assert list(line.x) == true
        places = [[math.log(one) if level.is_ratio else one for one in x] for x in (true, line.x)]
        room = min(abs(a - b) for a in places[0] for b in places[0] if a != b)
        assert all(abs(a - b) <= room / 4 for a, b in zip(*places, strict=True)), line.name


def test_a_run_without_optional_tables_still_shows_the_rest(run, tmp_path):
    """Every panel says something; nothing is drawn of what is not there."""
    kept = NEEDED if run.has("prompts") else NEEDED[:3]
    tables = {name: run.table(name) for name in kept}
    meta = {key: value for key, value in run.meta.items() if key != "tables"}
    bare = Store(tmp_path).write("bare", meta, tables)
    choice = default_choice(bare)
    panels = [panel for _, panel in all_panels(bare, choice)]
    assert all(panel.said for panel in panels) and not all(panel.has_chart for panel in panels)
    assert "cost" in {panel.key for panel in panels if not panel.has_chart}
    told = verdict(bare, choice)
    assert told.sentence and told.numbers


def test_values_far_apart_need_one_unless_one_of_them_has_no_logarithm():
    assert needs_log([1.0, 25.0, math.nan, math.inf])
    assert not needs_log([1.0, 15.0]) and not needs_log([]) and not needs_log([math.nan])
    assert not needs_log([0.0, 1.0, 25.0]), "a point at zero would be nowhere"


def test_tables_have_rows_and_no_empty_words(run):
    choice, tell = default_choice(run), (measured.settings, measured.versions)
    for table in (*(one(run) for one in tell), measured.definitions(run, choice)):
        words_, meanings = table.iloc[:, 0], table.iloc[:, 1]
        assert len(table) > 3 and words_.is_unique and (meanings.str.len() > 0).all()
    assert (measured.subgroups(run)[track_of(run).nouns.items] > 0).all()


def test_notes_name_variants_and_methods_as_people_do(run):
    variant = run.table("variants").query("n_cut > 0").iloc[0]
    label = track_of(run).variants.label(variant.to_dict())
    said = measured.in_words(run, f"Look at {variant['variant']}, not at x{variant['variant']}.")
    assert said == f"Look at “{label}”, not at x{variant['variant']}."


# A method that was asked for and could not be built is said wherever it would have stood.


LOST = "lost-run"


def without(run, method, store):
    """The run as it is written where no variant of `method` could be built, for any axis."""
    meta, tables = parts_of(run)
    gone = set(tables["variants"].query("method == @method")["variant"])
    tables = {
        name: table[~table["variant"].isin(gone)] if "variant" in table else table
        for name, table in tables.items()
    }
    return store.write(LOST, meta, tables)


@pytest.fixture(scope="module", params=tracks())
def lost(request, tmp_path_factory):
    run = kept(request.param)
    method = lookup.methods(run)[-1]
    return without(run, method, Store(tmp_path_factory.mktemp("store"))), method


def test_charts_that_compare_methods_say_it_and_no_others_do(lost):
    run, method = lost
    axis, name = run.meta["request"]["axes"][0], words.method_name(method)
    said = lookup.not_built(run, axis)
    assert said == f"{track_of(run).methods.not_built}: {name}."
    choice = default_choice(run, axis)
    assert said in pareto(run, choice).said
    panels = list(axis_panels(run, choice))
    curves = [panel for panel in panels if said in panel.mind]
    assert curves or not any("along" in panel.key for panel in panels)
    whole = kept(track_of(run).name)
    assert (
        lookup.not_built(whole, axis) == ""
        and track_of(run).methods.not_built not in pareto(whole, choice).said
    )


def test_pages_say_it_beside_the_methods(lost, monkeypatch):
    run, method = lost
    use_store(run.path.parents[1], monkeypatch)
    at = opened("trade_off", run=LOST)
    assert_calm(at)
    assert lookup.not_built(run, run.meta["request"]["axes"][0]) in words_of(at).replace("\\", "")


# Small pictures, of every kind of audit: what was cut, and who pays.


@pytest.mark.parametrize("name", tracks())
def test_the_picture_holds_what_the_variant_says_and_stays_small(name):
    run = made_up.kept(name)
    axis = run.meta["request"]["axes"][0]
    for method in lookup.methods(run, axis):
        for level in lookup.levels(run, method, axis):
            panel = what_was_cut(run, Choice(method, axis, level))
            variant = lookup.variant_of(run, Choice(method, axis, level))
            if not variant["n_cut"]:
                assert not panel.has_chart and track_of(run).nouns.whole in panel.answer
                continue
            assert panel.has_chart and panel.figure.layout.height <= HEIGHT
            table = panel.table
            if run.has("layers"):
                assert (table["kept"] <= table.iloc[:, 4]).all() and (table["share kept"] < 1).any()
            else:
                drawn = panel.figure.data[0].z
                assert drawn.size == run.n_units == len(table)
                assert (1 - drawn).sum() == pytest.approx(variant["n_cut"], abs=1)


CIRCLE = "{http://www.w3.org/2000/svg}circle"
HOSTILE = "<b>x</b> & \u202e"


@pytest.mark.parametrize("track", tracks())
def test_a_row_has_a_mark_before_and_one_after(track, tmp_path, monkeypatch):
    run = made_up.kept(track)
    if not (run.table("groups")["verdict"] == "").any():
        run = made_up.make(track, tmp_path, "made-up-run")
    choice = default_choice(run)
    measure = track_of(run).readings.of(choice.reading).group
    table = pairs(run, choice, measure)
    rows = min(MOST, int((table["verdict"] == "").sum()))
    assert rows
    marks = ElementTree.fromstring(thumbnail(run, choice)).iter(CIRCLE)
    assert len(list(marks)) == 2 * rows
    uncut = ElementTree.fromstring(
        thumbnail(run, replace(choice, method="dense", level=track_of(run).level.none))
    )
    assert len(list(uncut.iter(CIRCLE))) == rows
    monkeypatch.setattr(
        "engine.report.charts.by_group.pairs", lambda *_, **__: table.assign(group=HOSTILE)
    )
    said = thumbnail(run, choice)
    assert "<b>" not in said and "\u202e" not in said and ElementTree.fromstring(said) is not None
