"""What a cut does elsewhere: the same numbers as an audit's at home, Fieller's ratio, refusals."""

import numpy as np
import pytest

from engine.core.errors import RequestError
from engine.core.types import Hooks
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Store, find_run
from engine.tracks.language_models import growing as transfers
from engine.tracks.language_models.evidence import transfer_text
from engine.tracks.language_models.growing import Ask, Place, row_of, transfer
from engine.tracks.language_models.panels.reliability import NOT_ELSEWHERE, transferred
from tests.tracks.language_models.worlds import WORDS, write_pairs, write_rows

pytestmark = pytest.mark.usefixtures("words_judged")
CHOICE = Choice("fasp", "religion", 0.3)


def other_prompts(folder):
    """Of the tiny world's religion, in other words."""
    rows = [
        (
            f"w{at % WORDS} w{group} w{(at * 5) % WORDS}",
            "religion",
            f"group{group}",
            f"t{at % 3}",
            "",
        )
        for group in (1, 2)
        for at in range(15)
    ]
    return str(write_rows(folder / "others.csv", rows))


@pytest.fixture(scope="module")
def grown(audited, tmp_path_factory, words_judged_here):
    """A store whose audit was asked once of other prompts, once of pairs; both rows."""
    folder = tmp_path_factory.mktemp("elsewhere")
    store = audited.copied(folder / "store")
    pairs = [(f"w{at} w2", f"w{at} w3", "religion" if at % 3 else "age") for at in range(24)]
    more = (
        {"prompts": other_prompts(folder)},
        {"benchmark": f"crows_pairs={write_pairs(folder, pairs)}"},
    )
    asks = [Ask("religion", "fasp", 0.3, controls=19, **one) for one in more]
    rows = [transfer(store.open(audited.run.id), ask, store, Hooks()) for ask in asks]
    return store, asks, rows


def test_a_change_at_home_is_the_audits_own_and_what_was_measured_is_found(
    audited, grown, monkeypatch
):
    store, asks, rows = grown
    run = find_run(audited.run.id, [store])
    variant = lookup.variant_of(run, CHOICE)["variant"]
    own = lookup.result(run, variant, "bias:group_means", "religion")
    dense = lookup.result(run, "dense", "bias:group_means", "religion")
    for row in rows:
        assert row["variant"] == variant and row["n_random"] == 19
        assert row["home"] == pytest.approx(100 * (own["value"] / dense["value"] - 1))
        assert row["p"] in [pytest.approx(count / 20) for count in range(1, 21)]
    assert [row["away_n"] for row in rows] == [24, 16]  # test prompts; pairs about religion
    assert len(run.table("transfer")) == 2
    monkeypatch.setattr(transfers, "open_audit", None)
    assert transfer(run, asks[0], store, Hooks())["away"] == rows[0]["away"]


def test_the_page_shows_each_source_and_says_what_arrives(audited, grown):
    store, _, rows = grown
    panel = transferred(find_run(audited.run.id, [store]), CHOICE)
    cut = lookup.variant_label(audited.run, lookup.variant_of(audited.run, CHOICE))
    assert panel.has_chart and set(panel.table["cut"]) == {cut}
    assert panel.answer in (transfer_text(*rows), transfer_text(*rows[::-1]))
    assert set(panel.table["source"]) == {"others.csv", "CrowS-Pairs"}
    assert transferred(audited.run, CHOICE).answer == NOT_ELSEWHERE


def test_what_arrives_is_fiellers_ratio_and_nothing_where_nothing_changes_at_home():
    draw = np.random.default_rng(0)
    random = draw.normal(0, 20, 99)
    home, away = (
        Place(-50.0, -60.0, -40.0, 14.0, random, 9),
        Place(-20.0, -28.0, -12.0, 11.0, random / 2, 9),
    )
    row = row_of(home, away)
    assert row["arrives"] == pytest.approx(0.4)
    for end in ("arrives_low", "arrives_high"):  # as far from zero as its own half width
        ratio = row[end]
        assert abs(-20 - ratio * -50) == pytest.approx(np.hypot(8, 10 * ratio))
    assert row["n_told"] == (np.abs(random) >= 10).sum() and row["random"] == pytest.approx(0.5)
    assert row["p"] == (1 + (random / 2 <= -20).sum()) / 100
    assert transfer_text({**row, "source": "others"}).startswith(
        "40 % of the change at home arrives"
    )
    none = row_of(Place(-5.0, -15.0, 5.0, 14.0, random, 9), away)
    assert np.isnan(none["arrives_low"])
    assert transfer_text({**none, "source": "others"}).startswith("The change at home may be zero")


def test_a_source_without_the_axis_says_what_it_has(audited, tmp_path):
    pairs = f"crows_pairs={write_pairs(tmp_path)}"
    own = audited.run.meta["request"]["prompts"]
    for axis, source, words in (
        ("religion", {"benchmark": pairs}, "It has: age, gender."),
        ("nationality", {"prompts": other_prompts(tmp_path)}, "Known: religion"),
        ("religion", {"prompts": own}, "are those of the audit"),
    ):
        with pytest.raises(RequestError, match=words):
            transfer(audited.run, Ask(axis, "fasp", 0.3, **source), Store(tmp_path), Hooks())
