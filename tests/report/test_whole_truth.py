"""First sentences of the embedded audits against their tables: every clear change is named, the
harms first, and nothing that is unclear. What holds for verdicts of every kind of audit."""

import importlib
import re
from dataclasses import replace
from functools import cache

import pytest
from scipy.stats import t

from engine.audit.tracks import tracks
from engine.core import words
from engine.report import phrasing, story
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from engine.report.verdict import TAKE, advised, sentence, verdict
from engine.store.runs import EMBEDDED, Store
from tests.made_up import choices, kept

READ = importlib.import_module("engine.report.verdict")
VERBS = {"raises": 1, "widens": 1, "lowers": -1, "narrows": -1}


@pytest.fixture(scope="module", autouse=True)
def found_once():
    """A sentence of a choice, and what moved, for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_sentence", "moves_of"):
            patch.setattr(READ, name, _of_choice(getattr(READ, name)))
        yield


def _of_choice(find):
    kept = cache(lambda run, choice: find(lookup.View(run, choice)))
    return lambda view: kept(view.run, view.choice)


@pytest.fixture(params=Store(EMBEDDED).ids())
def run(request):
    return Store(EMBEDDED).open(request.param)


@pytest.fixture
def no_flips(monkeypatch):
    """For what looks at no count of flipped answers, which takes most of a verdict's time."""
    monkeypatch.setattr(READ, "flipped_said", lambda *_: "")


def _choices(run):
    """Every variant of every axis, once."""
    seen = set()
    for choice in choices(run):
        variant = lookup.variant_of(run, choice)["variant"]
        if variant != "dense" and (variant, choice.axis) not in seen:
            seen.add((variant, choice.axis))
            yield choice, variant


def _some(run):
    """Some forty of them."""
    every = list(_choices(run))
    return every[:: 1 + len(every) // 40]


def _way(row, among=1):
    """1, -1, or 0 where the interval of the change holds zero or is none; of one of many groups the
    interval that 95 % of whole families of them hold, by Student's t."""
    low, high = row["delta_low"], row["delta_high"]  # NaN is neither
    wider = _wider(among)
    low, high = (row["delta"] + wider * (end - row["delta"]) for end in (low, high))
    return int(low > 0) - int(high < 0)


@cache
def _wider(among):
    return t(10).isf(0.025 / among) / t(10).isf(0.025)


@cache
def _tables(run):
    """The first row of results, and all of groups that may be compared, on test data, by variant,
    metric and axis."""
    results, groups = {}, {}
    for name, found in (("results", results), ("groups", groups)):
        for row in run.table(name).to_dict("records"):
            if row["split"] == "test" and (name == "results" or row["verdict"] == ""):
                found.setdefault((row["variant"], row["metric"], row["axis"]), []).append(row)
    return {key: rows[0] for key, rows in results.items()}, groups


@cache
def _quoted(run, axis):
    table = run.table("groups")
    return {words.quoted(name) for name in table.loc[table["axis"] == axis, "group"].unique()}


def _readings(choice, run):
    """What is read, and beside AUC, which sees only an order, accuracy, for its harms alone."""
    readings = track_of(run).readings
    return [
        readings.of(name) for name in (choice.reading, *["accuracy"] * (choice.reading == "auc"))
    ]


def groups_of(run, variant, measure, choice):
    """Groups whose change can be judged."""
    rows = _tables(run)[1].get((variant, measure.metric, choice.measured), [])
    return [row for row in rows if row["delta"] == row["delta"]]


def _expected(run, choice, variant):
    """(name, way, is it a harm) of every clear change, by the tables alone."""
    first, *also = _readings(choice, run)
    yield from _moved(run, choice, variant, first)
    for reading in also:
        yield from (one for one in _moved(run, choice, variant, reading) if one[2])


def _moved(run, choice, variant, reading):
    results, _ = _tables(run)

    def row_of(measure, name):
        return results[name, measure.metric, choice.measured if measure.per_axis else ""]

    for measure in filter(None, (reading.harm, reading.mean, reading.quality)):
        row, dense = row_of(measure, variant), row_of(measure, "dense")
        way, better = _way(row), -measure.sign
        is_chance = measure == reading.harm and dense["value"] <= dense["null_high"]
        if is_chance and (way == better or row["value"] <= row["null_high"]):
            way = 0
        if way:
            yield measure.name, way, way != better
    group = reading.group
    mine = groups_of(run, variant, group, choice)
    among = len(mine)
    for row in mine:
        if way := _way(row, among):
            yield f"{group.name} {words.quoted(row['group'])}", way, way == group.sign


def _beside(run, choice):
    return track_of(run).telling.beside(run, choice, lookup.variant_of(run, choice))


def _told(run, choice, variant, said):
    """(name, way, is it a harm) of every change that a verdict claims."""
    readings, every = _readings(choice, run), _quoted(run, choice.measured)
    told = re.sub(r" (between “[^”]*” and “[^”]*”|by (?!\d)[a-z ]+(?= (by|from)))", "", said)
    for short, full in _beside(run, choice):
        told = told.replace(full, "").replace(short, "")
    any_group = "|".join(reading.group.name for reading in readings)
    for side in told.removesuffix(".").split(", but "):
        verbs = list(re.finditer(rf"\b({'|'.join(VERBS)})\b", side))
        for place, found in enumerate(verbs):
            end = verbs[place + 1].start() if place + 1 < len(verbs) else len(side)
            part, way = side[found.end() : end], VERBS[found[1]]
            for reading in readings:
                group = reading.group
                here = re.search(rf"\b{group.name}\b(?! gap)((?!\b({any_group})\b).)*", part)
                of_groups = here[0] if here else ""
                names = re.findall(r"“[^”]*”", of_groups)
                if re.search(r"all \w+ (judged )?groups", of_groups):
                    judged = groups_of(run, variant, group, choice)
                    names = [words.quoted(row["group"]) for row in judged]
                named = [f"{group.name} {name}" for name in names]
                if counted := re.search(r"(\w+) of \w+ groups", of_groups):  # too many to name
                    known = {name for name, at, _ in _expected(run, choice, variant) if at == way}
                    named = sorted(known & {f"{group.name} {name}" for name in every})
                    assert phrasing.counted(len(named)) == counted[1]
                for name in named:
                    yield name, way, way == group.sign
                for measure in filter(None, (reading.harm, reading.mean, reading.quality)):
                    if re.search(rf"\b{measure.name}(?! gap| for)", part):
                        yield measure.name, way, way == measure.sign


def test_the_first_sentence_names_every_clear_change_and_nothing_unclear(run):
    for choice, variant in _choices(run):
        said = sentence(lookup.View(run, choice))[0]
        told, true = list(_told(run, choice, variant, said)), {*_expected(run, choice, variant)}
        if set(told) != true:  # no room for gains beside so many harms
            assert _beside(run, choice), (choice, said)
            true = {one for one in true if one[2] or one in told}
        assert set(told) == true, (choice, said)
        harms = [is_harm for _, _, is_harm in told]
        assert harms == sorted(harms, reverse=True), (choice, said)
        assert phrasing.length(said) <= 25, said


def test_every_reported_cut_is_advised_on_and_none_is_taken_without_its_harms(run):
    names = lookup.reported(run)["variant"]
    cuts = set(names[~names.str.startswith("dense")])
    found = {row["variant"]: row for row in advised(run, {})}
    assert set(found) == cuts
    for name in (name for name, row in found.items() if row["answer"] == TAKE):
        choice, first = default_choice(run, variant=name), found[name]["said"].partition(". ")[0]
        harms = [one for one in _expected(run, choice, name) if one[2]]
        told = [*_told(run, choice, name, first.rpartition(", but ")[0])]
        assert set(told) == set(harms) and phrasing.length(first) <= 25, first


def test_a_difference_that_may_be_chance_is_said_so_before_the_cut_too(run):
    """The first slide called 0.958 against 0.957 the problem."""
    for axis in run.meta["request"]["axes"]:
        choice = default_choice(run, axis)
        uncut = replace(choice, method="dense", level=track_of(run).level.none)
        dense = lookup.View(run, uncut).harm
        is_chance = dense["value"] <= dense["null_high"]
        first = story.step(run, choice, "problem").sentence
        chart = track_of(run).charts.groups(run, uncut).said
        for said in (first, verdict(run, uncut).sentence, chart):
            assert ("chance" in said) == is_chance, said
        assert len(first.split()) <= story.LONGEST


def test_no_page_moves_a_harm_of_which_another_claims_no_change(run, no_flips):
    """Slide 3 said "raises the bias", slide 4 "we claim no change"; so did Trade-off and
    Summary."""
    track = track_of(run)
    for choice, variant in _some(run):
        harm, view = track.readings.of(choice.reading).harm.name, lookup.View(run, choice)
        if not view.was_chance:
            continue
        is_claimed = any(name == harm for name, *_ in _expected(run, choice, variant))
        sure, found = story.step(run, choice, "how_sure").sentence, verdict(run, choice)
        assert not (is_claimed and "no change" in f"{sure} {found.more}"), (choice, sure)
        along = track.charts.harm(run, choice).answer
        if "selections" in along:  # the mean of several, whose ends are no interval of 95 %
            assert "95 % interval " not in along
        else:
            assert bool(re.search(r"\b(raises|lowers)\b", along)) == is_claimed, (choice, along)
        cut = story.step(run, choice, "cut").sentence
        assert " cuts " not in cut or re.search(r" cuts [\d,]+ ", cut), cut


REAL, JUDGE = "b8cb881d1cad3e7a", "32ed41382ef1bbf6"


def test_the_app_opens_on_the_real_models_audit_of_five_axes():
    """Computed again, it came to stand behind that of one."""
    first = {one.model: one.id for one in reversed(Store(EMBEDDED, read_only=True).list())}
    assert (first["SmolLM2-135M-Instruct"], first["judge-minilm"]) == (REAL, JUDGE)


def test_a_benchmark_is_never_called_the_bias_of_an_axis():
    """Occupations and pronouns made "raises the bias of race and ethnicity by 217 %"."""
    run = Store(EMBEDDED).open(REAL)
    name = track_of(run).readings.offered(run)[1]
    for choice, _ in _some(run):
        choice = replace(choice, reading=name)
        uncut = replace(choice, method="dense", level=0.0)
        for one in (verdict(run, choice), verdict(run, uncut)):
            text = f"{one.whole} {one.advice.said}"
            assert "bias of" not in text and "enough items" not in text, text
        steps = [story.step(run, choice, name) for name in story.TITLES]
        assert not any("bias of" in step.sentence or "Too few" in step.sentence for step in steps)


def test_a_published_test_that_clearly_got_worse_stands_in_the_first_sentence():
    """SmolLM2 without a fifth of its heads took most people for "she", and no headline said so."""
    run = Store(EMBEDDED).open(REAL)
    table = run.table("benchmarks")
    clear = table[(table["group"] == "") & (table["metric"] == "distance")]
    clear = set(clear.loc[(clear["delta_low"] > 0) & (clear["delta_p"] < 0.05), "variant"])
    for choice, variant in _choices(run):
        said = sentence(lookup.View(run, choice))[0]
        assert ("Occupations" in said or "other harm" in said) == (variant in clear), (choice, said)
    assert clear


@pytest.mark.parametrize(("run_id", "ways"), [(REAL, {"perplexity": 1}), (JUDGE, {"fpr": 1})])
def test_harms_to_groups_that_the_first_sentence_cannot_hold_come_next(run_id, ways, no_flips):
    """More accurate by false alarms about four groups, of which the advice to take it said
    nothing."""
    run, told = Store(EMBEDDED).open(run_id), 0
    table = run.table("groups")
    for choice, variant in _choices(run):
        mine = table[(table["variant"] == variant) & (table["axis"] == choice.measured)]
        mine = mine[mine["metric"].isin([*ways, "tpr"]) & mine["delta"].notna()]
        for metric, way in ways.items():
            harmed = [
                words.quoted(row["group"])
                for row in mine.to_dict("records")
                if row["metric"] == metric and _way(row, len(mine)) == way
            ]
            found = verdict(run, choice)
            assert not harmed or phrasing.names(harmed) in found.whole, (choice, found.whole)
            if harmed and found.advice.answer == TAKE:
                assert phrasing.names(harmed) in found.advice.said.partition(" Ruled out")[0]
            told += bool(harmed)
    assert told


TERMS = ("null band", "95", "±", "γ", "FASP", "BiFP", "interval", "nan")


@pytest.mark.parametrize("track", list(tracks()))
def test_every_choice_has_a_verdict_in_plain_words(track):
    run = kept(track)
    for choice in choices(run):
        said = verdict(run, choice)
        assert said.sentence.endswith(".") and len(said.numbers) <= 3 and said.cost
        assert not [term for term in TERMS if term in said.sentence], said.sentence
        assert not re.search(r"\b[a-z]+_[a-z_]+\b", f"{said.whole} {said.cost} {said.advice.said}")
