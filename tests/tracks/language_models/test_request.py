"""Requests are checked before anything loads, and every fault is named at once."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from engine.audit.tracks import request_from
from engine.core.errors import RequestError
from engine.core.types import AXES
from engine.data.prompts.load import known_axes
from engine.models import catalog, runtime
from engine.models.catalog import ASSETS
from engine.models.checkpoint import load_tokenizer
from engine.tracks.language_models import request
from engine.tracks.language_models.request import (
    FIRST,
    LETTERS,
    QUICK,
    AuditRequest,
    PromptPlan,
    data_of,
    validate,
)
from engine.tracks.language_models.request_checks import cut_prompts, lost_groups
from tests.models.folders import copied
from tests.tiny import folder_of
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


def test_the_run_id_follows_contents_not_paths(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = world_request(tmp_path / "a"), world_request(tmp_path / "b")
    (tmp_path / "b" / "model" / "model.safetensors").write_bytes(
        (tmp_path / "a" / "model" / "model.safetensors").read_bytes()
    )
    assert validate(one).run_id == validate(two).run_id
    (tmp_path / "b" / "corpus.txt").write_text("w1 w2 " * 400)
    assert validate(one).run_id != validate(two).run_id


def test_effects_on_perplexity_are_exact_and_of_large_models_first_order(tmp_path, monkeypatch):
    asked = world_request(tmp_path)
    small, exact = validate(asked), validate(replace(asked, perplexity_estimator="exact"))
    assert small.request.perplexity_estimator == "exact" and small.run_id == exact.run_id
    monkeypatch.setattr(request, "LARGE", 10)
    large = validate(asked)
    assert large.request.is_first_order and not exact.request.is_first_order
    assert validate(exact.request).run_id == exact.run_id != large.run_id


def test_a_judge_made_for_another_model_warns_before_anything_is_computed(tmp_path):
    plan = validate(world_request(tmp_path))
    assert plan.warnings == []
    foreign = replace(
        plan, judge=replace(plan.judge, name="demo-judge", made_for={"demo-gpt2": "0" * 64})
    )
    [said] = foreign.warnings
    assert "demo-judge was made for the texts of demo-gpt2" in said
    assert "above its null band" in said
    own = replace(foreign, judge=replace(foreign.judge, made_for={"mine": plan.model.weight_hash}))
    assert own.warnings == []


def test_the_id_holds_the_versions_of_every_score_that_computes(tmp_path):
    """Those of the estimators that the estimator asked for computes with too, as deep as that
    goes."""

    def versions(**changes):
        asked = world_request(tmp_path, methods=("fasp", "gradient"), **changes)
        long = replace(asked, max_corpus_tokens=None)
        text = SimpleNamespace(text="x" * LETTERS)
        named = PromptPlan(long, None, text, None, None).versions
        return {name for name in named if not name.startswith("measurement")}

    always = {"audit", "selection fasp", "selection gradient", "score gradient by michel"}
    z_bias = {f"score z_bias by {name}" for name in ("auto", "reweight", "generate", "gradient")}
    few = PromptPlan(world_request(tmp_path, max_corpus_tokens=100), None, None, None, None)
    assert "short text" in few.versions
    assert versions(estimator="auto") == always | z_bias | {"score z_ppl by exact"}
    assert versions(estimator="reweight", perplexity_estimator="gradient") == always | {
        "score z_bias by reweight",
        "score z_bias by generate",
        "score z_ppl by gradient",
    }
    assert versions(estimator="generate") == always | {
        "score z_bias by generate",
        "score z_ppl by exact",
    }


def test_groups_that_a_cut_hides_are_one_fault_per_axis():
    names = ["friends", "market", "river", "sound"]
    rows = [
        (f"{name}-{at}", f"everybody is kind and gentle with {name}", "faith", name, f"t{at}", name)
        for name in names
        for at in range(2)
    ]
    prompts = pd.DataFrame(
        rows, columns=["prompt_id", "text", "axis", "subgroup", "template", "descriptor"]
    )
    tokenizer = load_tokenizer(ASSETS / "demo-gpt2")
    [fault] = lost_groups(tokenizer, prompts, ["faith"], 3)
    assert fault.where == "faith" and fault.what.startswith(
        "all 8 prompts of friends, market, river and 1 more are cut"
    )
    assert (
        lost_groups(tokenizer, prompts, ["faith"], 60)
        == lost_groups(tokenizer, prompts, ["others"], 3)
        == []
    )
    [fault] = lost_groups(
        load_tokenizer(folder_of("gpt2")), prompts, ["faith"], 60
    )  # it knows w0, w1 and so on
    assert (
        "the tokenizer has no tokens for the group in all 8 prompts of friends, market"
        in fault.what
    )


def bare_prompts(texts):
    """Prompts of the subgroups in `texts`, without descriptors."""
    rows = [
        (f"{group}-{at}", text, "faith", group, "", "")
        for group, own in texts.items()
        for at, text in enumerate(own)
    ]
    return pd.DataFrame(
        rows, columns=["prompt_id", "text", "axis", "subgroup", "template", "descriptor"]
    )


def test_groups_whose_prompts_read_alike_are_a_fault_and_cut_prompts_are_told():
    """Two groups of equal texts got a bias of .5, and no word that their names lay behind the
    cut."""
    tokenizer = load_tokenizer(folder_of("gpt2"))
    long = bare_prompts(
        {"one": ["w1 w2 w3 w4 w7", "w1 w2 w3 w5 w7"], "two": ["w1 w2 w3 w4 w8", "w1 w2 w3 w5 w8"]}
    )
    assert lost_groups(tokenizer, long, ["faith"], 5) == []
    assert cut_prompts(tokenizer, long, ["faith"], 5) == ()
    [fault] = lost_groups(tokenizer, long, ["faith"], 4)
    assert fault.what == (
        "the first 4 tokens of every prompt of one, two also begin a prompt of another subgroup."
    )
    [said] = cut_prompts(tokenizer, long, ["faith"], 4)
    assert said.startswith(
        "faith: 4 of 4 prompts are longer than 4 tokens: their ends are not read."
    )
    some = bare_prompts({"one": ["w1", "w2"], "two": ["w1", "w3"]})
    assert lost_groups(tokenizer, some, ["faith"], 4) == []


def test_a_plan_tells_of_prompts_that_are_cut(tmp_path):
    said = validate(world_request(tmp_path, max_prompt_tokens=1)).warnings
    assert said and all("prompts are longer than 1 tokens" in one for one in said)


def test_inspect_says_what_of_a_folder_is_not_read(tmp_path):
    folder = copied("gpt2", tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"x")
    note = "pytorch_model.bin is not read; model.safetensors is. Are they the same weights?"
    assert note in request.inspected({"model": str(folder)})


def test_the_quick_request_holds_up_and_is_small():
    plan = validate(request_from(QUICK.request("demo-gpt2")))
    request = plan.request
    assert len(request.axes) == 1 and request.seeds == 1 and request.n_controls == 0
    assert (
        len(plan.prompts.table.query("not split.str.startswith('spare')")) <= FIRST["max_prompts"]
    )
    assert str(FIRST["max_prompts"]) in QUICK.said and "wide" in QUICK.said


def test_what_is_not_named_suits_the_model(tmp_path, monkeypatch):
    """A toy reads the texts of its own world; any other model plain English, and what it says of
    people is judged by the judge for people where that is installed."""
    assert {path.parent.name for path in data_of(AuditRequest("demo-gpt2", ()))} == {"demo-data"}
    cut = shutil.copytree(ASSETS / "demo-gpt2", tmp_path / "cut")
    assert catalog.is_toy(str(cut)) and not catalog.is_toy("gpt2"), "a cut of a toy is one"
    prompts, text = data_of(AuditRequest("gpt2", ()))
    assert (prompts, text) == (ASSETS / "people" / "prompts.csv", ASSETS / "people" / "corpus.txt")
    assert set(known_axes(prompts)) == set(AXES) and len(text.read_text("utf-8")) > 40_000
    named = data_of(AuditRequest("gpt2", (), prompts="a.csv", corpus="b.txt"))
    assert named == (Path("a.csv"), Path("b.txt"))
    for is_installed, judge in ((True, "judge-minilm"), (False, "demo-judge")):
        monkeypatch.setattr(catalog, "has_encoder", lambda _, found=is_installed: found)
        assert AuditRequest("gpt2", ()).judge == judge, "by whichever door it is asked"
        assert AuditRequest("demo-gpt2", ()).judge == "demo-judge"
        assert AuditRequest("gpt2", (), judge="mine").judge == "mine"


def test_a_processor_that_emulates_bfloat16_refuses_it(tmp_path, monkeypatch):
    asked = world_request(tmp_path, dtype="bfloat16")
    monkeypatch.setattr(runtime, "lacks_bfloat16", lambda device: False)
    assert validate(asked).request.dtype == "bfloat16"
    monkeypatch.setattr(runtime, "lacks_bfloat16", lambda device: True)
    with pytest.raises(RequestError, match="slower than float32 on this processor"):
        validate(asked)
