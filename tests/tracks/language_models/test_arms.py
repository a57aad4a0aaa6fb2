"""Other checkpoints and compressed weights as variants: checked at the door, measured like cuts,
kept and read."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModelForCausalLM

from engine.audit.verification import verify_run
from engine.core.errors import RequestError
from engine.core.types import Hooks
from engine.models import catalog
from engine.report.bundle import export_run
from engine.report.charts import cost, lookup, pareto
from engine.report.charts.cost import saved_said
from engine.report.charts.panel import Choice
from engine.report.story import step
from engine.report.tracks import prediction_of, question, track_of
from engine.report.verdict import verdict
from engine.resident.warm import Warm
from engine.store.runs import Run, where
from engine.tracks.language_models import predicted
from engine.tracks.language_models.asks import Prompt
from engine.tracks.language_models.evidence import differences
from engine.tracks.language_models.growing import check_growth, grow
from engine.tracks.language_models.panels import cuts as arms
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.run import run_audit
from tests.builders import exchanged, faults_of
from tests.models.folders import edit
from tests.tiny import build
from tests.tracks.language_models.worlds import growth, world_request

pytestmark = pytest.mark.usefixtures("words_judged")
FEW = {
    "methods": ("ppl_only", "wanda", "int8", "layer_drop", "random_weights"),
    "sparsities": (0.0, 0.3, 0.5),
    "axes": ("nationality",),
    "seeds": 1,
    "controls": None,
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> AuditRequest:
    """A request with compressions, another architecture, and the model's own copy."""
    folder = tmp_path_factory.mktemp("arms")
    shutil.copytree(build("gpt2", folder / "model"), folder / "copy")
    return world_request(
        folder, **FEW, against=(str(folder / "copy"), str(build("llama_grouped", folder / "llama")))
    )


@pytest.fixture(scope="module")
def run(asked, store, words_judged_here):
    return run_audit(asked, store)


def changed(request: AuditRequest, **values: object) -> AuditRequest:
    return AuditRequest.from_dict({**request.to_dict(), **values})


def faults(request: AuditRequest) -> str:
    return " ".join(f"{one.where}: {one.what} {one.fix}" for one in faults_of(validate, request))


def test_an_arm_is_a_variant_like_any_other(run):
    variants, results = run.table("variants").set_index("variant"), run.table("results")
    of = variants.groupby("method").size().to_dict()
    assert of == {
        "dense": 1,
        "ppl_only": 2,
        "wanda": 2,
        "int8": 1,
        "layer_drop": 1,
        "random_weights": 2,
        "against-copy": 1,
        "against-llama": 1,
    }
    assert (variants["arm"] != "").sum() == 8 and verify_run(run)["ok"]
    counts = results.groupby("variant")["metric"].nunique()
    assert counts.drop("dense").nunique() == 1
    assert (
        set(run.table("generations")["variant"])
        == set(variants.index)
        == set(run.table("costs")["variant"])
    )


def test_a_compression_at_another_level_joins_the_audit_and_is_what_an_audit_of_it_finds(
    run, asked, store
):
    def more(method: str, level: float) -> Run:
        wanted = growth(run, axis="nationality", method=method, level=level)
        check_growth(wanted, store)
        return grow(wanted, store, Hooks())

    for method, level, wrong in (
        ("int8", 0.5, "only one level"),
        ("wanda", 1.2, "between 0 and 1"),
        ("layer_drop", 0.1, "is no level"),
        ("sparsegpt", 0.5, "not known"),
    ):
        with pytest.raises(RequestError, match=wrong):
            more(method, level)
    only = {"methods": ["random_weights"], "sparsities": (0.0, 0.4), "against": []}
    whole = run_audit(changed(asked, **only), store)
    grown = more("random_weights", 0.4)
    assert len(grown.added) == 1 and verify_run(grown)["ok"]
    for name in ("results", "generations", "variants"):
        new, same = (_rows_of(one, name, "random_weights-s0.400-r0") for one in (grown, whole))
        pd.testing.assert_frame_equal(new[same.columns], same)
    assert predicted.levels_of(grown, "wanda", "nationality")[0] == 0.05
    assert predicted.levels_of(grown, "layer_drop", "nationality") == [0.333, 0.667]
    assert prediction_of(grown).ahead(grown, Choice("wanda", "nationality", 0.2)) is None
    assert len(more("random_weights", 0.4).added) == 1


def _rows_of(run: Run, table: str, variant: str) -> pd.DataFrame:
    rows = run.table(table).query("variant == @variant")
    assert len(rows)
    return rows.drop(columns="text_id", errors="ignore").reset_index(drop=True)


def test_the_models_own_copy_differs_in_nothing(run):
    results = run.table("results")
    own = results[results["variant"] == "against-copy-s0.000"].set_index("metric")
    assert own.loc["divergence", "value"] < 1e-9 and own.loc["flipped", "value"] == 0
    assert own["delta"].abs().max() < 1e-9
    assert any("has the very weights" in said for said in run.meta["warnings"])
    assert "llama" not in " ".join(run.meta["warnings"])


def test_little_rounding_moves_little_and_chance_much(run):
    results = run.table("results").query("metric == 'divergence'").set_index("variant")["value"]
    kinds = [
        min(results[name] for name in results.index if name.startswith(start))
        for start in ("int8", "wanda", "random_weights", "against-llama")
    ]
    assert kinds == sorted(kinds) and kinds[0] < 0.01 * kinds[2]


def test_arms_change_neither_the_id_nor_the_scores_of_an_audit_without(asked, run, words_judged):
    plain = changed(asked, against=[], methods=["ppl_only"])
    plan = validate(plain)
    assert "against" not in plan.request.identity and "measurement divergence" not in plan.versions
    assert "measurement divergence" in validate(asked).versions
    assert validate(changed(asked, against=[asked.against[0]])).run_id != run.id


@pytest.mark.parametrize(
    ("method", "level"),
    [("wanda", 0.5), ("layer_drop", 0.333), ("against-llama", None)],
)
def test_charts_say_what_stands_in_the_place(run, method, level):
    known = lookup.levels(run, method, "nationality")
    choice = Choice(
        method=method,
        axis="nationality",
        level=known[-1] if level is None else level,
        reading="group_means",
    )
    variant = lookup.variant_of(run, choice)
    assert variant["method"] == method
    assert "heads" not in verdict(run, choice).sentence and "heads" not in question("summary", run)
    assert track_of(run).ways.made(variant)
    untimed = method in ("wanda", "int8", "random_weights")
    assert untimed == ("its time says nothing" in saved_said(run, variant))
    assert untimed == ("time (ms)" not in set(cost.cost(run, choice).table["what"]))
    assert "heads" not in cost.cost(run, choice).answer
    assert "do NOT agree" not in cost.cost(run, choice).mind
    assert set(pareto.points(run, choice, "test")["method"]) == set(lookup.reported(run)["method"])
    for make in arms.PANELS:
        panel = make(run, choice)
        few = make is arms.by_time  # what was computed in another format has no time
        assert len(panel.table) >= (3 * (not untimed) if few else 9) and "nan" not in panel.answer
        assert not few or untimed == panel.table.empty
    mine = arms.sizes(run, choice).set_index("method").loc[["int8", "wanda"], "bytes"]
    assert (mine < 1).all()


@pytest.mark.parametrize("reading", ["group_means", "paired_prompts"])
def test_two_ways_are_compared_prompt_by_prompt(run, reading):
    ids = run.table("variants").groupby("method")["variant"].first()
    names = (ids["wanda"], ids["random_weights"], "against-copy-s0.000")
    found = differences(run, "dense", names, "nationality", reading).set_index("variant")
    assert abs(found.loc[names[2], "delta"]) < 1e-9 and found.loc[names[2], "null_p"] == 1
    turned = differences(run, names[0], ("dense",), "nationality", reading).iloc[0]
    assert turned["delta"] == pytest.approx(-found.loc[names[0], "delta"])
    assert turned["null_p"] == pytest.approx(found.loc[names[0], "null_p"], abs=0.1)
    if reading == "group_means":  # as the audit's own rows have it
        own = where(run.table("results"), metric="bias:group_means").set_index("variant")
        theirs, ours = (
            one.loc[[*names[:2]], ["delta", "delta_low", "delta_high"]] for one in (own, found)
        )
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=1e-6)


def test_the_price_chart_compares_every_way_with_a_cut_of_heads(run, monkeypatch):
    for method, level in (("ppl_only", 0.5), ("wanda", 0.3)):
        choice = Choice(method=method, axis="nationality", level=level, reading="group_means")
        panel = arms.by_bytes(run, choice)
        compared = panel.table[panel.table["compared with"] != ""]
        assert len(compared) == 6
        assert compared[["bias minus that", "exchanged low", "q"]].notna().all().all()
        assert set(compared["compared with"]) == {"perplexity only, 50 % cut"}
        assert "exchanged:" in panel.more
        assert set(compared["takes as much"]) == {"no"}
        assert "No other method takes as much" in panel.answer
    monkeypatch.setattr(arms, "NEAR", 0.1)
    told = arms.by_bytes(run, choice).answer
    assert "Compared prompt by prompt with perplexity only, 50 % cut: of 2 other methods" in told, (
        told
    )


def test_another_tokenizer_is_refused_with_what_differs(asked, tmp_path):
    other = str(build("gpt2", tmp_path / "other"))
    with exchanged(other, "w1", "w2"):
        said = faults(changed(asked, against=[other]))
    assert "2 entries of the two vocabularies differ" in said
    again = build("gpt2", tmp_path / "again")
    edit(again, "tokenizer.json", pre_tokenizer={"type": "WhitespaceSplit"})  # not at signs
    assert "tokens, or others of them" in faults(changed(asked, against=[str(again)]))


def test_quantised_weights_need_their_loader_and_never_are_the_base(asked, tmp_path):
    other = build("gpt2", tmp_path / "int4")
    lone = "pip install --no-deps gptqmodel optimum"  # else pip exchanges torch
    for how, wanted in (
        ("gptq", "needs gptqmodel and optimum"),
        ("awq", lone),
        ("rot13", "is not known here"),
    ):
        edit(other, quantization_config={"quant_method": how})
        assert wanted in faults(changed(asked, against=[str(other)]))
    assert "name this one with --against" in faults(changed(asked, model=str(other), against=[]))


def test_what_cannot_be_read_is_told_with_its_name(asked, tmp_path):
    other = build("gpt2", tmp_path / "sharded")
    AutoModelForCausalLM.from_pretrained(other).save_pretrained(other, max_shard_size="20KB")
    (other / "model.safetensors").unlink()
    next(iter(other.glob("model-0000*"))).unlink()
    assert "against" in (told := faults(changed(asked, against=[str(other)])))
    assert "is missing" in told
    own = asked.against[0]
    assert "named twice" in faults(changed(asked, against=[own, f"{own}/"]))
    short = build("gpt2", tmp_path / "short", n_positions=32)
    assert "windows of text would not be the same" in faults(changed(asked, against=[str(short)]))


@pytest.mark.parametrize("method", ["wanda", "layer_drop"])
def test_an_arm_is_taken_away_as_a_folder_that_plain_transformers_loads(run, method, tmp_path):
    variant = run.table("variants").query("method == @method").iloc[-1]["variant"]
    export_run(run, tmp_path, ["checkpoint", "model_card"], variant=variant)
    (folder,) = (tmp_path / "checkpoint").iterdir()
    agreement = json.loads((folder / "agreement.json").read_text())
    assert agreement["reloaded"]["holds"]
    assert "heads removed" not in (folder / "README.md").read_text()
    loaded = AutoModelForCausalLM.from_pretrained(folder / "model")
    assert len(loaded.transformer.h) == (2 if method == "layer_drop" else 3)
    with pytest.raises(RequestError, match="has no mask"):
        export_run(run, tmp_path / "mask", ["masks"], variant=variant)
    with pytest.raises(RequestError, match="is there already"):
        export_run(run, tmp_path / "other", ["checkpoint"], variant="against-copy-s0.000")


@pytest.mark.parametrize("start", ["wanda-s0.500", "layer_drop", "against-llama"])
def test_the_playground_asks_the_arm_itself(run, store, start):
    texts = where(run.table("generations"), split="test").merge(run.table("texts"))
    row = texts[texts["variant"].str.startswith(start)].iloc[0]
    prompt = where(run.table("prompts"), prompt_id=row["prompt_id"])["text"].item()
    given = {"run": run.id, "prompt": prompt, **row[["variant", "axis"]], "seed": int(row["seed"])}
    answer = Prompt().answer(given, Warm(10**9), Hooks(), store)
    assert answer["rows"][0]["pruned"]["text"] == row["text"]


def test_an_arm_that_predicts_worse_than_a_guess_is_unusable_and_not_less_biased(store, tmp_path):
    ruin = shutil.copytree(catalog.resolve("demo-gpt2"), tmp_path / "ruin")
    model = AutoModelForCausalLM.from_pretrained(ruin)
    for part in model.parameters():
        part.data.mul_(3.0)
    model.save_pretrained(ruin)
    few = FEW | {"methods": ("magnitude",), "sparsities": (0.0, 0.1), "max_prompts": 60}
    asked = {"model": "demo-gpt2", "against": (str(ruin),), "max_corpus_tokens": 2000, **few}
    run, name = run_audit(AuditRequest(**asked), store), "against-ruin-s0.000"
    results, groups = run.table("results"), run.table("groups")
    text = where(results, metric="perplexity").set_index("variant")["value"]
    assert text["dense"] <= 428 < text[name]
    own, changes = where(groups, variant=name), where(results, variant=name).set_index("metric")
    assert own["verdict"].eq("unusable").all()
    assert own["delta"].isna().all() and own["value"].notna().any()
    assert changes.filter(regex="^bias", axis=0)["delta"].isna().all()
    assert changes.loc["perplexity", "delta"] > 0
    cuts = groups[~groups["variant"].isin(["dense", name])]
    assert cuts["delta"].notna().all() and not cuts["verdict"].eq("unusable").any()
    said = (
        "Putting checkpoint ruin in the model's place gives an unusable model: it predicts text"
        " worse"
    )
    assert sum(said in warning for warning in run.meta["warnings"]) == 1
    choice = Choice("against-ruin", "nationality", 0.0)
    shown = verdict(run, choice)
    assert shown.whole.startswith(said) and shown.meaning == ""
    assert {one.kind for one in shown.numbers} <= {"not compared", ""}
    steps = {step(run, choice, name).sentence for name in ("who_pays", "how_sure")}
    assert steps == {shown.sentence}
