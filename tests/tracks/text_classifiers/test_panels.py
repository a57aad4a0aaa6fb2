"""Panels of a text classifier's run: answers follow the tables, hard cases are said, names and
texts stay text."""

import numpy as np
import pytest

from engine.core import words
from engine.report import phrasing, story
from engine.report.bundle import write_masks
from engine.report.charts import lookup, metric_curve, pareto
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.report.report import model_card
from engine.report.tracks import track_of, tracks
from engine.report.verdict import verdict
from engine.store.runs import Store
from engine.surgery.record import read_mask
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels import curve, importance, lens, published, survival
from engine.tracks.text_classifiers.tables import tickets_of
from tests.builders import changed, parts_of
from tests.made_up import choices, small
from tests.tracks.text_classifiers.made_up_run import make_run
from tests.tracks.text_classifiers.made_up_world import CONSTANT


def at(method, level=0.5, axis="length"):
    return Choice(method, axis, level, None, "accuracy")


ISP = at("isp:conductance")
ONCE = at("once:conductance")
ALL_SCORES = ("conductance", "michel", "magnitude", "random")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make_run(folder, "plain")
    make_run(
        folder, "scores", scores=ALL_SCORES, sparsities=(0.25, 0.5), task="other remarks", stream=4
    )
    make_run(folder, "same", helps=False, sparsities=(0.5,), trials=2, pretrained=False)
    make_run(folder, "matthews", sparsities=(0.25, 0.5), metric="matthews")
    return Store(folder)


@pytest.fixture(scope="module")
def run(store):
    return store.open("plain")


def test_the_track_declares_what_pages_ask(run):
    track = tracks()["text_classifiers"]
    assert track_of(run) is track and track.readings.offered(run) == ("accuracy", "auc")
    assert track.methods.order(["once:random", "isp:random", "isp:conductance"]) == [
        "isp:conductance",
        "isp:random",
        "once:random",
    ]
    arms = [f"{procedure}:{score}" for procedure in own.PROCEDURES for score in own.IMPORTANCE]
    styles = [track.methods.style(arm) for arm in arms]
    assert len({(one.colour, one.symbol) for one in styles}) == len(arms) == 70
    compared = track.methods.compared(arms, "isp:michel")
    assert len(compared) == 10 + 6 and all("isp:" in arm or ":michel" in arm for arm in compared)
    assert words.method_name("one-shot-isp:random") == "one-shot ISP by random choice"
    assert "(conductance)" in track.methods.definition(
        "isp:conductance"
    ) and "Algorithm 6.2" in track.methods.definition("isp:random")


def test_the_verdict_says_whether_it_is_a_ticket(run):
    quarter = verdict(run, at("isp:conductance", 0.25)).more
    assert "as good as the full one" in quarter and "not for “short” alone" in quarter
    assert "as good" not in verdict(run, ISP).more


def test_only_what_was_trained_from_pretrained_weights_wins(run):
    levels = survival.ticket_levels(run, "length", "long")
    assert set(levels.loc[levels["method"] == "isp:conductance", "state"]) == {"winning"}
    assert set(levels.loc[levels["method"] == "once:conductance", "state"]) == {"matching", "no"}
    answer = curve.tickets_curve(run, ONCE, group="long").said
    assert "matching, but no winning ticket up to 50 %" in answer
    stars = [
        symbol
        for part in curve.tickets_curve(run, ONCE, group="long").parts
        for trace in part.data
        if trace.mode == "lines+markers" and trace.x[0] is not None
        for symbol in trace.marker.symbol
    ]
    assert stars.count("star-open") == 2 and stars.count("star") == 3 + 2


def levels_as(run, folder, edit):
    """The run with other levels of tickets, and what follows from them."""
    levels = edit(run.table("ticket_levels"))
    won = np.where(levels["method"].str.startswith("isp"), "winning", "matching")
    levels["word"] = np.where(levels["matching"], won, "no")
    levels.loc[levels["n_seeds"] < 3, "word"] = ""
    other = changed(run, folder / "levels", "ticket_levels", lambda table: levels)
    return changed(other, folder / "tickets", "tickets", lambda table: tickets_of(levels))


def test_ties_are_named_by_their_kind_and_levels_that_fail_are_said(run, tmp_path):
    def edit(table):
        table["matching"] = ~((table["method"] == "isp:random") & (table["sparsity"] == 0.5))
        table["matching"] &= table["method"] != "once:random"
        wide = (table["method"] == "isp:random") & (table["sparsity"] == 0.75)
        return table.assign(
            std=table["std"].where(~wide, 1.0), mean=table["full_mean"] - 0.2 * wide
        )

    tied = levels_as(run, tmp_path, edit)
    said = curve.tickets_curve(tied, at("once:random")).said
    assert (
        "single scoring by conductance, matching, but no winning ticket" in said
        and "winning tickets" in said
    )
    wide = "none at 50 %, and at 75 % only because its seeds differ widely"
    assert f"ISP by random choice ({wide})" in said
    mine = at("isp:random", 0.75)
    panel = curve.tickets_table(tied, mine)
    assert f"winning ticket up to 75 % of heads cut, but {wide}" in panel.said
    assert "(★)<br>75 %†" in {note.text for note in panel.figure.layout.annotations}
    for text in (panel.said, curve.tickets_by_group(tied, mine).said):
        assert "75 %) match only because seeds differ widely" in text
        assert "(75 %) have it again at a larger share" in text


def test_seeds_that_came_to_one_model_leave_it_open(run, tmp_path):
    def edit(table):
        same = table["method"] == "once:conductance"
        return table.assign(
            n_seeds=table["n_seeds"].where(~same, 1), matching=table["matching"] & ~same
        )

    open_ = levels_as(run, tmp_path, edit)
    for make in (
        curve.tickets_curve,
        curve.tickets_table,
        curve.tickets_by_group,
    ):
        answer = make(open_, ONCE).said
        is_open = "do not tell" in answer or "fewer than three of its seeds" in answer
        assert is_open and "no ticket" not in answer, make.__name__
    assert own.SAME_MODELS in verdict(open_, ONCE).more
    texts = {note.text for note in curve.tickets_table(open_, ONCE).figure.layout.annotations}
    assert "?" in texts


def test_the_card_beside_one_seed_is_about_that_seed(run):
    row = (
        run.table("variants")
        .set_index("variant", drop=False)
        .loc["isp:conductance-50%#1"]
        .to_dict()
    )
    card = model_card(run, row)
    own = lookup.result(run, "isp:conductance-50%#1", "accuracy")
    assert card.startswith("# synthetic-bert, pruned: ISP by conductance, 50 % cut, seed 1\n")
    assert f"- Accuracy: {phrasing.number(own['value'])} (" in card
    assert card.index("## This model") < card.index(
        "Means over all seeds of the audit, not this model."
    )
    pooled = model_card(run, lookup.variant_of(run, ISP))
    assert "## This model" not in pooled and "## Measured against the full model" in pooled


def test_with_two_seeds_nothing_is_called_a_ticket(store):
    run = store.open("same")
    for panel in (curve.tickets_curve(run, ISP), curve.tickets_table(run, ISP)):
        assert own.FEW_SEEDS in panel.said and "winning ticket up to" not in panel.said
    assert own.FEW_SEEDS in verdict(run, ISP).more


def test_a_full_model_that_was_brought_has_no_deviation(run, tmp_path):
    fixed = changed(run, tmp_path, "ticket_levels", {"full_std": np.nan})
    panel = curve.tickets_curve(fixed, ISP)
    assert (
        "one fixed model" in panel.caveat
        and "accuracy is 0.914." in panel.said
        and "nan" not in panel.said
    )


def test_whether_the_score_helps_is_read_from_the_interval(store, run, tmp_path):
    sure = changed(run, tmp_path / "sure", "arm_differences", {"q": 0.01})
    panel = importance.score_difference(sure, ONCE)
    row = panel.table.query("subgroup == 'all texts'").iloc[0]
    assert (
        row["difference low"] > 0 and "conductance chooses better than random choice" in panel.said
    )
    assert phrasing.number(row["difference"]) in panel.said and "It helps “short”" in panel.said
    control = at("once:random")
    assert importance.score_difference(sure, control).said == panel.said, (
        "the control shows what it is for"
    )
    same = importance.score_difference(store.open("same"), ONCE)
    assert "conductance and random choice do not clearly differ (accuracy" in same.said
    assert "does not help" not in same.said
    harm = {"value": -0.1, "low": -0.2, "high": -0.05, "q": 0.01}
    unsure = changed(run, tmp_path / "q", "arm_differences", {**harm, "q": 0.9})
    many = importance.score_difference(unsure, ONCE)
    assert (
        "do not clearly differ once all comparisons are counted" in many.said
        and "q = 0.900" in many.said
    )
    assert (
        "harms" not in many.said
        and "For “long” and “short” the interval excludes zero" in many.said
    )

    harmed = importance.score_difference(changed(run, tmp_path, "arm_differences", harm), ONCE)
    assert (
        "chooses worse than random choice" in harmed.said
        and "It harms “long” and “short”" in harmed.said
    )
    gone = importance.score_difference(changed(run, tmp_path, "arm_differences", None), ONCE)
    assert gone.figure is None and "does not compare" in gone.said
    every = importance.score_difference(store.open("scores"), ONCE)
    assert every.question.endswith("than random choice, Michel or magnitude?")


def test_tasks_are_compared_only_from_the_same_pretrained_weights(store, run, tmp_path):
    alone = survival.between_tasks(run, ISP)
    assert alone.figure is None and "there is no other audit" in alone.said
    other = store.open("same")
    assert (
        "of 1 other audit none is of another task" in survival.between_tasks(run, ISP, [other]).said
    )
    assert "has no pre-trained weights" in survival.between_tasks(other, ISP, [run]).said
    same_task = make_run(tmp_path, "same-task", sparsities=(0.5,))
    assert survival.between_tasks(run, ISP, [same_task]).figure is None, (
        "the same texts are no other task"
    )
    panel = survival.between_tasks(run, ISP, [store.open("scores"), other])
    assert panel.figure is not None and "in common; chance gives 50 %" in panel.said
    assert set(panel.table["task"]) == {"synthetic remarks", "other remarks"}
    missing = survival.between_tasks(run, at("isp:conductance", 0.75), [store.open("scores")])
    assert "have no ISP by conductance at 75 %: other remarks" in missing.said
    drawn = survival.between_tasks(run, at("isp:random"), [store.open("scores")])
    assert drawn.figure is None and "draws the same heads for the same seed" in drawn.said


def test_the_order_of_heads_is_kept_or_not_against_chance(run):
    kept = importance._kept_order
    assert "no better than chance" in kept(0.5, 16), "chance is .51"
    assert "partly" in kept(0.52, 16) and "partly" in kept(0.2, 200)
    panel = importance.importance_maps(run, ISP, "conductance", group="short")
    assert "on texts of “short”" in panel.question
    assert "1 head has maps that never vary and counts as 0" in panel.said


def test_importance_without_pretrained_weights(store):
    run = store.open("same")
    panel = importance.importance_maps(run, ISP, "conductance")
    assert len(panel.parts) == 1 and "pre-trained weights were not scored" in panel.caveat
    assert importance.importance_scatter(run, ISP).figure is None


def test_iterations_that_were_not_measured_are_said(run, tmp_path):
    assert "scores once and cuts 3 times" in survival.iterations(run, ONCE).said
    table = run.table("iterations")
    there = table["iteration"] != 2
    sparse = {"metric": table["metric"].where(there), "retrained": there}
    some = survival.iterations(changed(run, tmp_path, "iterations", sparse), ISP)
    assert "only where a level was asked for" in some.caveat and "nan" not in some.said


def test_the_lens_reads_the_matrices_back(run):
    text_id = lens.examples(run)["text_id"].iat[0]
    row = lens.row_of(run, text_id, "fine-tuned", 0, 1)
    assert row["attention"].shape == (row["n_tokens"],) * 2 and np.allclose(
        row["attention"].sum(axis=1), 1, atol=5e-3
    )
    assert np.abs(row["attribution"]).max() == pytest.approx(row["scale"], rel=1e-3)
    maps = lens.lens_maps(run, ISP, text_id, "fine-tuned", 0, 1)
    assert len(maps.parts) == 2 and np.allclose(maps.parts[0].data[0].z, row["attention"])
    top = maps.table.iloc[0]
    assert abs(top["attribution"]) == pytest.approx(row["scale"], rel=1e-3)
    scatter = lens.lens_scatter(run, ISP, text_id, "fine-tuned", 0, 1)
    assert (
        f"{row['correlation']:.2f}" in scatter.said
        and len(scatter.figure.data[0].x) == row["n_tokens"] ** 2
    )
    constant = lens.lens_scatter(run, ISP, text_id, "fine-tuned", *divmod(CONSTANT, 4))
    assert "does not vary" in constant.said
    assert "of seed 0, the first" in maps.caveat and "for the predicted class" in maps.caveat
    small = lens.lens_heads(run, ISP, text_id, "fine-tuned", (0, 1)).figure
    places = [(list(trace.x), list(trace.y)) for trace in small.data]
    assert ([1], [0]) in places, "the head that is shown is marked"
    gone = lens.lens_maps(run, ISP, text_id, "fine-tuned", 2, 2)
    assert gone.parts == () and "was cut, or its maps were not kept" in gone.said
    assert "head is still random" in lens.lens_maps(run, ISP, text_id, "pre-trained", 0, 1).said
    assert lens.stage_said(run, "isp:conductance-25%#0") == "ISP by conductance, 25 % cut"


def test_a_task_with_matthews_can_be_read_by_it(store):
    run = store.open("matthews")
    assert track_of(run).readings.offered(run) == ("accuracy", "auc", "matthews")
    choice = Choice("isp:conductance", "length", 0.5, None, "matthews")
    assert "Matthews correlation" in curve.tickets_curve(run, choice).said
    assert "accuracy is" in curve.tickets_curve(run, choice, group="long").said


def test_degenerate_seeds_are_warned_of_and_crossed(run):
    wrong = at("once:random", 0.75)
    assert "predicts one class for every text" in verdict(run, wrong).more
    for panel in (metric_curve.gap_along(run, wrong), pareto.pareto(run, wrong)):
        marks = [trace for trace in panel.figure.data if trace.name == "degenerate seeds"]
        assert len(marks) == 1 and marks[0].marker.symbol == "x", "stars mean tickets here"
    assert " of 3 seeds end" in verdict(run, wrong).more, "not trials"


def test_masks_are_those_of_seeds_and_say_what_was_trained(run, tmp_path):
    takable = lookup.takable(run, lookup.variant_of(run, ISP))
    named = [f"ISP by conductance, 50 % cut, seed {seed}" for seed in range(3)]
    assert list(takable.values()) == named
    for variant, procedure, trained in (
        ("isp:conductance-50%#0", "isp", "from the pre-trained weights"),
        ("once:random-25%#1", "once", "before the cut"),
    ):
        settings = read_mask(write_masks(run, tmp_path, variant)[0]).settings
        assert settings["procedure"] == procedure and trained in settings["trained"]


def test_a_score_beats_chance_only_where_q_allows(run, tmp_path):
    none = changed(run, tmp_path, "random_ranks", {"q": 0.5, "value": 2.0})
    said = importance.random_masks(none, ONCE).said
    assert "no score clearly differs from 50 random masks" in said and "after correction" in said
    q = np.where(run.table("random_ranks")["method"] == "once:conductance", 0.01, 0.5)
    best = changed(run, tmp_path, "random_ranks", {"q": q})
    assert "single scoring by conductance stands above 50 random masks" in (
        importance.random_masks(best, ISP).said
    )


def test_an_older_run_says_that_it_holds_no_random_masks_and_no_truth(run, tmp_path):
    older = changed(run, tmp_path, "random_ranks", None, provenance={"versions": {}, "code": {}})
    assert "holds no random masks" in importance.random_masks(older, ONCE).said
    assert not importance.random_masks(older, ONCE).has_chart
    assert not any("Captum" in note for note in track_of(older).evidence.notes(older))
    assert (
        "--leave-one-out"
        in importance.score_truth(changed(run, tmp_path, "truth_agreement", None), ONCE).said
    )


def test_percentiles_read_as_english():
    said = [
        importance._place({"percentile": share})
        for share in (0.01, 0.02, 0.03, 0.11, 0.12, 0.22, 0.97)
    ]
    assert [one.split()[0] for one in said] == ["1st", "2nd", "3rd", "11th", "12th", "22nd", "97th"]


def test_thesis_tables_stand_beside_this_audit_where_the_task_is_the_same(run, store, tmp_path):
    panel = published.thesis_tables(run, ONCE)
    assert len(panel.table) == 14 + 18 + 20 and panel.table["here"].isna().all()
    assert "can be compared with this audit: synthetic remarks is none of its tasks." in panel.said
    assert "training texts a score reads 80, not 2000" in panel.caveat
    renamed = {0.75: 0.8, "isp:conductance": "igspf:conductance"}
    levels = run.table("ticket_levels")[["sparsity", "method"]].replace(renamed)
    data = {**run.meta["data"], "name": "MNLI"}
    mine = changed(run, tmp_path, "ticket_levels", {**levels}, data=data)
    found = published.thesis_tables(mine, ONCE)
    here = found.table[found.table["here"].notna()]
    assert here[["table", "task", "thesis"]].values.tolist() == [["6.4", "MNLI", 0.776]]
    assert found.said.startswith("1 of 52 printed numbers can be compared; they are")


# A model that guesses gets no verdict: no sentence, no colour, no advice.


@pytest.mark.parametrize(
    "why", ["could be guessing (AUC 0.48)", "predicts one class for every text"]
)
def test_no_verdict_on_cuts_of_a_model_that_has_not_learned_its_task(tmp_path, why):
    learned = small("text_classifiers", tmp_path / "learned", "learned")
    meta, tables = parts_of(learned)
    if "AUC" in why:
        rows = tables["results"]
        is_auc = (rows["metric"] == "auc") & (rows["axis"] == "") & (rows["variant"] == "dense")
        rows.loc[is_auc, ["value", "low", "high"]] = 0.48, 0.42, 0.54
    else:
        rows = tables["variants"]
        rows.loc[rows["variant"] == "dense", "degenerate"] = rows["pooled"].eq("dense").sum() or 1
    run = Store(tmp_path / "guesses").write("guesses", meta, tables)
    kinds = []
    for choice in choices(run):
        said = verdict(run, choice)
        assert why in said.sentence
        assert said.meaning == said.advice.said == ""
        kinds += [fact.kind for fact in said.numbers]
        sure = story.step(run, choice, "how_sure").sentence
        assert sure == said.sentence
        if choice.level != 0:
            assert sure == story.step(run, choice, "who_pays").sentence
    assert set(kinds) == {"", "no verdict"}
    before = verdict(learned, default_choice(learned))
    assert "guessing" not in before.sentence and "no verdict" not in str(before.numbers)
