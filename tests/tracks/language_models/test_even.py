"""Methods held to what any loader reads: chosen layer by layer, beside the free ones, and taken away."""

from __future__ import annotations

import json

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.report.bundle import export_run
from engine.report.charts.panel import Choice
from engine.store.runs import Store
from engine.surgery.heads.even import Shape, is_even
from engine.tracks.language_models.panels.even import price_of_even
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.selection.base import Ballot, selection_method
from engine.tracks.language_models.selection.even import even_cut
from tests.tiny import build
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


def test_the_groups_of_every_layer_are_ranked_by_the_sum_of_their_heads():
    scores = np.array([1.0, 5, 4, 3, 0, 0, 9, -8, 2, 2, 2, 1])  # 3 layers, groups of two: 6 7; 0 1; 4 3
    ballot = Ballot({"gradient": scores}, 12, 0.5)
    assert even_cut(selection_method("gradient"), ballot, Shape(3, 4, 2)) == (0, 1, 4, 5, 10, 11)
    assert even_cut(selection_method("gradient"), Ballot({"gradient": scores}, 12, 0.4), Shape(3, 4, 2)) == ()


def test_every_method_stays_even_at_every_level():
    shape, generator = Shape(4, 8, 2), np.random.default_rng(0)
    for name in ("fasp", "bias_only", "ppl_only", "random", "random_noncritical"):
        method = selection_method(name)
        for sparsity in (0.25, 0.5):
            scores = {one: generator.normal(size=32) for one in (*method.needs, "z_ppl")}
            cut = even_cut(method, Ballot(scores, 32, sparsity, 0.3, 1), shape)
            assert len(cut) == 32 * sparsity and is_even(HeadMask.from_units(4, 8, cut), shape)


@pytest.fixture(scope="module")
def run(tmp_path_factory, words_judged_here):
    folder = tmp_path_factory.mktemp("even")
    build("llama_grouped", folder / "model")
    asked = world_request(folder, methods=("ppl_only",), axes=("nationality",), sparsities=(0.0, 0.3, 0.5), seeds=1,
                          controls=None, deployable=True)  # fmt: skip
    return run_audit(asked, Store(folder / "store"))


def test_the_constraint_stands_beside_the_free_cut_and_its_price_is_told(run):
    variants = run.table("variants").set_index("variant")
    assert {"ppl_only-s0.500", "ppl_only+even-s0.500"} <= set(variants.index)
    assert "ppl_only+even-s0.300" not in variants.index  # three heads: not a group of two in each of three layers
    assert variants.loc["ppl_only+even-s0.500", "realised"] == 0.5
    panel = price_of_even(run, Choice(method="ppl_only", axis="nationality", level=0.5, reading="group_means"))
    assert len(panel.table) == 3 and "held to it, 50 % of the heads" in panel.answer


def test_the_export_has_a_folder_that_plain_transformers_loads(run, tmp_path):
    export_run(run, tmp_path, ["checkpoint"], variant="ppl_only+even-s0.500")
    (folder,) = (tmp_path / "checkpoint").iterdir()
    assert json.loads((folder / "agreement.json").read_text())["plain"]["holds"]
    assert AutoModelForCausalLM.from_pretrained(folder / "plain").config.num_attention_heads == 2


def test_a_config_that_cannot_say_it_is_refused_before_anything_loads(tmp_path):
    with pytest.raises(RequestError, match="head_dim"):
        validate(world_request(tmp_path, deployable=True))
