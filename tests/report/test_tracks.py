"""Kinds of audit: each declares everything, is found by its name, and no page or shared panel names one."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest

from engine.core import words
from engine.core.errors import RequestError
from engine.report import contents
from engine.report.charts.panel import Choice
from engine.report.contract import Measure, Track
from engine.report.tracks import track_of, tracks
from engine.store.runs import Store
from tests.places import ROOT
from tests.tracks.fair_training.made_up_run import make_fair_run
from tests.tracks.image_classifiers.made_up_run import make_image_run
from tests.tracks.language_models.made_up_run import make_run
from tests.tracks.text_classifiers.made_up_run import make_text_run

SHARED_PAGES = ("compare", "export", "library", "overview", "pareto")
SMALL = {"images": 120, "trials": 2, "speedups": (2.0, 8.0), "switches": False, "loss_share": False}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, "heads-run", per_group=8)
    make_image_run(folder, "filters-run", **SMALL)
    make_text_run(folder, "tickets-run", trials=2, sparsities=(0.5,), texts=120)
    methods = ("bifp-str", "bifp-uns", "dense-tuned")
    make_fair_run(folder, "fair-run", methods=methods, seeds=2, images=120, sparsities=(0.488,), surface=False)
    return Store(folder)


@pytest.mark.parametrize("name", ["language_models", "image_classifiers", "text_classifiers", "fair_training"])
def test_every_track_declares_everything(name):
    track = tracks()[name]
    declared = {field for field in typing.get_type_hints(Track) if not field.startswith("_")}
    assert all(hasattr(track, field) for field in declared), sorted(declared)
    assert track.name == name and track.readings and set(track.offered) <= set(track.readings)
    for reading in track.readings:
        one = track.reading(reading)
        assert all(measure.metric in words.gathered("METRICS") for measure in (*one.cards, one.gap, one.group))
        assert all(measure.word.better in ("lower", "higher") for measure in one.cards)
        assert one.harm.word.better == "lower" and one.worst.better == one.best.better
    for view in track.views.values():
        assert view.split and view.label
    assert next(iter(track.views)) == "test"


def test_pages_of_one_kind_belong_to_it_alone():
    pages = [page for track in tracks().values() for page in track.pages]
    assert len(pages) == len(set(pages))
    assert all(page in pages and page not in track.pages for track in tracks().values() for page in track.also)
    assert all((ROOT / "pages" / f"{page}.py").is_file() for page in pages)


def test_runs_from_before_tracks_are_of_heads(store):
    assert "track" not in store.open("heads-run").meta
    assert track_of(store.open("heads-run")).name == "language_models"
    assert track_of(store.open("filters-run")).name == "image_classifiers"


def test_a_track_from_the_future_is_named_with_the_known_ones(store, tmp_path):
    run = store.open("heads-run")
    tables = {name: run.table(name) for name in run.meta["tables"]}
    meta = {**{key: value for key, value in run.meta.items() if key != "tables"}, "track": "masks"}
    with pytest.raises(
        RequestError, match="'masks' is not known.*fair_training, image_classifiers, language_models, text_classifiers"
    ):
        track_of(Store(tmp_path).write("later", meta, tables))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_what_is_shared_names_no_track():
    files = sorted((ROOT / "engine" / "report").rglob("*.py"))
    files += [ROOT / "pages" / f"{name}.py" for name in SHARED_PAGES]
    files += [ROOT / "pages" / "shared" / f"{name}.py" for name in ("controls", "frame", "panels", "safe")]
    for path in files:
        assert not {name for name in imported(path) if name.startswith("engine.tracks")}, path
        literals = {node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
        assert not literals & {"language_models", "image_classifiers", "text_classifiers", "fair_training"}, path


@pytest.mark.parametrize(
    ("name", "levels", "first"),
    [
        ("language_models", [0.0, 0.05, 0.2, 0.5], 0.2),
        ("language_models", [0.3, 0.5], 0.3),
        ("image_classifiers", [1.0, 16.0, 32.0, 64.0, 128.0, 256.0], 64.0),
        ("image_classifiers", [1.0, 2.0, 4.0], 2.0),
        ("image_classifiers", [1.0], 1.0),
        ("text_classifiers", [0.0, 0.1, 0.5, 0.9], 0.5),
        ("text_classifiers", [0.0], 0.0),
        ("fair_training", [0.0, 0.488, 0.672, 0.832], 0.672),
    ],
)
def test_where_a_reader_starts_does_not_depend_on_results(name, levels, first):
    assert tracks()[name].level.first(levels) == first


def test_directions_of_measures():
    gap, auc = Measure("auc_gap"), Measure("auc", few="images")
    assert (gap.better, gap.worse, gap.sign) == ("fell", "rose", 1)
    assert (auc.better, auc.worse, auc.sign) == ("rose", "fell", -1)
    assert auc.title == "AUC (higher is better)"
    row = {"delta": -0.094, "delta_low": -0.14, "delta_high": -0.048}
    assert auc.brief(row) == "−0.094 (−0.140 to −0.048)"
    assert auc.brief({**row, "delta_high": 0.01}).endswith("includes zero)")
    assert auc.change({**row, "delta_low": float("nan")}) == "−0.094, no interval: too few images"


@pytest.mark.parametrize("run_id", ["heads-run", "filters-run", "tickets-run", "fair-run"])
def test_a_default_choice_is_a_finished_variant(store, run_id):
    from engine.report.charts import lookup

    run = store.open(run_id)
    choice = contents.default_choice(run)
    assert lookup.variant_of(run, choice)["variant"] != "dense"
    assert choice.reading == track_of(run).readings[0]
    dense = Choice("dense", choice.axis, track_of(run).level.none)
    assert lookup.variant_of(run, dense)["variant"] == "dense"


def test_arms_are_told_apart_by_more_than_colour():
    track = tracks()["image_classifiers"]
    for base in ("autobot", "taylor", "random", "magnitude", "fpgm"):
        plain, pw, part = (track.style(arm) for arm in (base, f"{base}+pw", f"{base}+labels@retrain"))
        assert plain.colour == pw.colour == part.colour
        assert len({one.symbol for one in (plain, pw, part)}) == 3
        assert len({one.dash for one in (plain, pw, part)}) == 3
    bases = [track.style(f"{base}+pw") for base in ("autobot", "taylor", "random", "magnitude", "fpgm")]
    assert len({one.symbol for one in bases}) == len({one.colour for one in bases}) == 5


def test_arms_in_words():
    assert words.method_name("autobot+pw") == "AutoBot + PW"
    assert words.method_name("taylor") == "Taylor"
    assert words.method_name("random+labels@retrain") == "random + PW labels in retraining"
    track = tracks()["image_classifiers"]
    assert track.order(["random+pw", "taylor", "autobot+labels@prune", "autobot+pw", "autobot"]) == [
        "autobot", "autobot+pw", "autobot+labels@prune", "taylor", "random+pw",
    ]  # fmt: skip
    arms = ["autobot", "autobot+pw", "autobot+weights@prune", "autobot+labels"]
    assert track.compared(arms, "autobot") == ["autobot", "autobot+pw"]
    assert track.compared(arms, "autobot+labels") == ["autobot", "autobot+pw", "autobot+labels"]
