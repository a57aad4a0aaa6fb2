"""What holds for every panel of every kind of audit, and for how it was measured."""

import math
import re
from collections import Counter

import pytest

from engine.core import words
from engine.report import measured
from engine.report.charts.panel import needs_log
from engine.report.contents import all_panels, default_choice
from engine.report.tracks import track_of, tracks
from engine.report.verdict import verdict
from engine.store.runs import EMBEDDED, Store
from tests import made_up

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
