"""Methods held to what any loader reads: chosen layer by layer, beside the free ones, and taken
away."""

import json
from itertools import product

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.report.bundle import export_run
from engine.report.charts.panel import Choice
from engine.store.runs import Store
from engine.surgery.heads.mask import cut, masked
from engine.surgery.heads.replay import Shape, even_faults, is_even, save_even, shape_of
from engine.tracks.language_models.panels.cuts import price_of_even
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.selection import (
    Ballot,
    even_cut,
    level_faults,
    selection_method,
)
from tests.tiny import build, tiny_language_model
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


def test_the_groups_of_every_layer_are_ranked_by_the_sum_of_their_heads():
    """3 layers, groups of two: 6 7; 0 1; 4 3."""
    scores = {"gradient": np.array([1.0, 5, 4, 3, 0, 0, 9, -8, 2, 2, 2, 1])}
    for sparsity, units in ((0.5, (0, 1, 4, 5, 10, 11)), (0.4, ())):
        ballot = Ballot(scores, 12, sparsity)
        assert even_cut(selection_method("gradient"), ballot, Shape(3, 4, 2)) == units


def test_every_method_stays_even_at_every_level():
    shape, generator = Shape(4, 8, 2), np.random.default_rng(0)
    names = ("fasp", "bias_only", "ppl_only", "random", "random_noncritical")
    for name, sparsity in product(names, (0.25, 0.5)):
        method = selection_method(name)
        scores = {one: generator.normal(size=32) for one in (*method.needs, "z_ppl")}
        units = even_cut(method, Ballot(scores, 32, sparsity, 0.3, 1), shape)
        assert len(units) == 32 * sparsity and is_even(HeadMask.from_units(4, 8, units), shape)


@pytest.fixture(scope="module")
def run(tmp_path_factory, words_judged_here):
    folder = tmp_path_factory.mktemp("even")
    build("llama_grouped", folder / "model")
    asked = world_request(
        folder,
        methods=("ppl_only",),
        axes=("nationality",),
        sparsities=(0.0, 0.3, 0.5),
        seeds=1,
        controls=None,
        deployable=True,
    )
    return run_audit(asked, Store(folder / "store"))


def test_the_constraint_stands_beside_the_free_cut_and_its_price_is_told(run):
    variants = run.table("variants").set_index("variant")
    assert set(run.table("scores")["score"]) == {"z_ppl"}, "no other was asked for"
    assert {"ppl_only-s0.500", "ppl_only+even-s0.500"} <= set(variants.index)
    assert (
        "ppl_only+even-s0.300" not in variants.index
    )  # three heads: not a group of two in each of three layers
    assert variants.loc["ppl_only+even-s0.500", "realised"] == 0.5
    panel = price_of_even(
        run, Choice(method="ppl_only", axis="nationality", level=0.5, reading="group_means")
    )
    assert len(panel.table) == 3 and "with equal layers cuts 50 % of the heads" in panel.answer


def test_the_export_has_a_folder_that_plain_transformers_loads(run, tmp_path):
    export_run(run, tmp_path, ["checkpoint"], variant="ppl_only+even-s0.500")
    (folder,) = (tmp_path / "checkpoint").iterdir()
    assert json.loads((folder / "agreement.json").read_text())["plain"]["holds"]
    assert AutoModelForCausalLM.from_pretrained(folder / "plain").config.num_attention_heads == 2


@pytest.mark.parametrize("family", ["phi", "qwen3", "gemma3"])
def test_families_read_by_structure_load_with_the_logits_of_the_silenced_model(family, tmp_path):
    lm, ids = tiny_language_model(family), torch.arange(3, 23).view(2, 10)
    gone = tuple((layer, head) for layer in range(3) for head in ((2, 3) if layer % 2 else (0, 1)))
    assert not even_faults(lm.model.config)
    save_even(cut(lm, HeadMask(3, 4, gone)), shape_of(lm.model.config), tmp_path / "plain")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    with masked(lm, HeadMask(3, 4, gone)), torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, lm.model(ids).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("opt", "no head_dim"),
        ("gpt_neox", "no head_dim"),
        ("falcon_grouped", "num_key_value"),
        ("phi3", "taken apart"),
        ("olmo2", "all heads at once"),
        ("stablelm", "another width"),
    ],
)
def test_families_whose_model_would_not_be_what_their_config_says_are_refused(family, why):
    assert why in even_faults(tiny_language_model(family).model.config)[0].what


def test_what_changes_weights_is_refused_where_most_of_them_are_experts(tmp_path):
    build("mixtral", tmp_path / "model")
    with pytest.raises(RequestError, match="(int8|wanda), (wanda|int8) would leave the experts"):
        validate(world_request(tmp_path, methods=("wanda", "int8", "layer_drop")))


def test_levels_of_which_none_is_even_are_refused_and_the_smallest_that_is_named():
    """SmolLM2's audit at 5 to 20 % had no such cut, and said so when it was done."""
    shape = Shape(30, 9, 3)
    (fault,) = level_faults((0.05, 0.2), shape)
    assert "0.334" in fault.fix and not level_faults((0.05, 0.334), shape)
    assert level_faults((0.5,), Shape(2, 4, 4))[0].fix == "Leave it out."
