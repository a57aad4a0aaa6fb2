"""Figures and tables of the thesis: their requests hold up, runs are read beside what it prints."""

import pytest

from engine.audit.experiments import ExperimentAsk
from engine.store.runs import EMBEDDED, Store
from engine.tracks.text_classifiers.request import REMARKS
from tests.experiment_checks import QUICK, check_reading, of_paper
from tests.tracks.text_classifiers.made_up_run import PAPER, make_run

FOUND = of_paper("IG-BERT")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"), **PAPER)


def embedded():
    store = Store(EMBEDDED, read_only=True)
    return next(run for run in map(store.open, store.ids()) if run.meta["title"] == REMARKS.title)


def test_every_figure_and_table_is_there():
    wanted = {f"Fig. 6.{number}" for number in range(1, 8)} | {
        f"Table 6.{number}" for number in (2, 3, 4)
    }
    assert {one.figure for one in FOUND.values()} == wanted


def test_quick_requests_are_one_audit():
    assert all(one.requests(QUICK) == [REMARKS] for one in FOUND.values())


def test_figures_of_three_iterations_are_three_pictures():
    run = embedded()
    read = [FOUND[f"thesis-fig6.{place}"] for place in (2, 3, 4)]
    drawn = {tuple(one.answer for one in each.panels([run], QUICK)) for each in read}
    told = [check_reading(each, [run]) for each in read]
    assert len(drawn) == 3 == len({table["ours"].iloc[0] for table in told})
    for place, table in enumerate(told, 1):
        assert f"iteration {place} of 3 (" in table["differs"].iloc[0]


def test_tasks_that_were_not_run_keep_their_printed_numbers(run):
    table = check_reading(FOUND["thesis-table6.3"], [run])
    absent = table[table["differs"] == "this task was not run here"]
    assert len(absent) == 10 and absent["ours"].isna().all() and absent["paper"].notna().all()
    near = table[table["where"] == "Table 6.3, 70 %"]
    assert set(near["paper"]) <= {0.875, 0.836} and len(near)


def test_table_6_3_means_algorithm_6_1():
    table = check_reading(FOUND["thesis-table6.3"], [embedded()]).set_index("what")
    row = table.loc["remarks: accuracy, Algorithm 6.1 by conductance, 75 % cut"]
    assert row["paper"] == 0.836 and "share cut 75 %, not 70 %" in row["differs"]
    once = table.filter(like="accuracy, single scoring", axis=0)
    assert len(once) == 2 and once["paper"].isna().all() and once["ours"].notna().all()


def test_isp_stands_beside_its_one_shot_version():
    ours = check_reading(FOUND["thesis-fig6.7"], [embedded()]).set_index("what")["ours"]
    names = "seed by seed", "accuracy, ISP by conductance", "one-shot ISP by conductance"
    minus, isp, once = (ours.filter(like=f"{name}, 75 %").item() for name in names)
    assert minus == pytest.approx(isp - once)


def test_the_thesis_scale_asks_for_the_thesis_settings():
    ask = ExperimentAsk(data="glue")
    (mnli, *_), isp = FOUND["thesis-fig6.6"].requests(ask), FOUND["thesis-fig6.7"].requests(ask)
    assert mnli.model == "bert-base-uncased" and mnli.score_texts == 2000 and mnli.trials == 3
    assert len(FOUND["thesis-fig6.6"].requests(ask)) == 8
    assert [one.data for one in isp] == ["glue:mnli", "glue:qnli"] and isp[0].trials == 1
    (one,) = FOUND["thesis-fig6.2"].requests(ExperimentAsk(data="glue:mnli"))
    assert one == mnli, "figures of one task share its audit"


def test_a_folder_of_tasks_is_taken_apart(tmp_path):
    for name in ("SST-2", "RTE", "other"):
        (tmp_path / name).mkdir()
    found = FOUND["thesis-table6.2"]._sources(str(tmp_path))
    assert found == [str(tmp_path / "RTE"), str(tmp_path / "SST-2")]
