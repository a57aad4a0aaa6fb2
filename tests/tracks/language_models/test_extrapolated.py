"""A request that is too large to be predicted from its own texts gets a first number from a few
prompts of one axis."""

import json

import pytest

from engine.core.files import json_able
from engine.store.runs import Store
from engine.tracks.language_models import predict as extrapolated
from engine.tracks.language_models.controls import unlike_scores, variant_shards
from engine.tracks.language_models.predict import FEW_PROMPTS, predict
from engine.tracks.language_models.request import AuditRequest
from tests.tracks.language_models.worlds import world_request, write_prompts

pytestmark = pytest.mark.usefixtures("words_judged")


@pytest.fixture
def large(tmp_path):
    """Two axes of 240 prompts each."""
    return world_request(tmp_path, estimator="auto", prompts=str(write_prompts(tmp_path, n=120)))


def test_a_large_request_is_predicted_from_few_prompts_and_nothing_is_kept(
    large, tmp_path, monkeypatch
):
    monkeypatch.setattr(extrapolated, "PATIENCE", 0.0)
    store = Store(tmp_path / "store")
    found = predict(large, store)
    assert found["tried"]["prompts"] <= FEW_PROMPTS
    assert found["sure"] >= 1
    assert set(found["axes"]) == set(large.axes)
    assert found["words"].startswith("Predicted: ")
    assert f"{found['tried']['prompts']} prompts of" in found["words"]
    assert "nan" not in json.dumps(json_able(found), allow_nan=True).lower().split()
    assert "nan" not in found["words"]
    least, most = found["scoring_seconds"]
    assert 0 < least <= most and found["measuring_seconds"] > 0
    assert not list(store.root.rglob("*.shard"))
    per_prompt = [one["seconds"]["gradient"] / one["prompts"] for one in found["axes"].values()]
    assert per_prompt == pytest.approx(per_prompt[:1] * 2), "twice the prompts, twice as long"
    assert not any("bias" in said for said in found["axes"].values())


def test_of_a_slow_model_only_the_first_tokens_are_drawn(large, tmp_path, monkeypatch):
    monkeypatch.setattr(extrapolated, "PATIENCE", 0.0)
    monkeypatch.setattr(extrapolated, "SHORTLY", 0.0)
    drawn, plain = [], extrapolated.piloted

    def piloted(small, shard, **options):
        drawn.append((small.settings.decoding.max_new_tokens, options))
        return plain(small, shard, **options)

    monkeypatch.setattr(extrapolated, "piloted", piloted)
    found = predict(large, Store(tmp_path / "store"))
    tokens = min(extrapolated.BRIEF, large.max_new_tokens)
    assert drawn == [(tokens, {"reweighted": 2, "regenerated": 1})]
    least, most = found["scoring_seconds"]
    assert 0 < least <= most and "nan" not in found["words"]


def test_methods_and_axes_are_expected_to_cut_different_heads_whatever_the_axes_are_called():
    request = AuditRequest(
        model="demo-gpt2",
        axes=("religion", "gendered"),
        methods=("fasp", "bias_only", "magnitude"),
        sparsities=(0.0, 0.1, 0.2),
        gamma=0.3,
        controls=0,
    )
    cuts = {shard.cut for shard in variant_shards(request, 48, made_up=unlike_scores)}
    assert len(cuts) == 1 + 2 * (2 * 2 + 1)
