"""A GPU gives the numbers of a processor, within what float32 moves. Skips where none is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.core.types import Decoding, HeadMask, stream_keys
from engine.models.decode import gumbel, sample, winners
from engine.models.load_language_model import load_language_model
from engine.store.runs import Store
from engine.surgery.heads.mask import cut, masked
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.run import run_audit, scores_only

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

PROMPTS = [f"The {word} was" for word in ("man", "woman", "nurse", "judge", "child", "baker")] * 20
IDS = [f"p{at}" for at in range(len(PROMPTS))]
MASK = HeadMask.from_units(6, 8, (0, 5, 7, 13, 42))


@pytest.fixture(scope="module")
def both():
    return [load_language_model("demo-gpt2", device=name) for name in ("cpu", "cuda")]


def test_auto_is_the_gpu():
    lm = load_language_model("demo-gpt2")
    assert lm.device.type == "cuda" and lm.dtype == torch.float32


def test_the_noise_and_what_wins_with_it_are_those_of_a_processor():
    keys = torch.from_numpy(np.array(stream_keys(3, IDS), np.int64))
    here, there = gumbel(keys, 5, 4096), gumbel(keys.cuda(), 5, 4096).cpu()
    torch.testing.assert_close(there, here, atol=1e-6, rtol=1e-6)
    logits = torch.randn(len(keys), 4096)
    token, lead = winners(logits, keys, 5, near=9.0)
    other, lead_there = winners(logits.cuda(), keys.cuda(), 5, near=9.0)
    assert torch.equal(other.cpu(), token)
    torch.testing.assert_close(lead_there.cpu(), lead, atol=1e-5, rtol=1e-5)


def test_texts_are_those_of_a_processor(both):
    """But for a token whose lead is below what float32 moves."""
    seeds, decoding = [0] * len(IDS), Decoding(max_new_tokens=20)
    here, there = (sample(lm, PROMPTS, IDS, seeds, decoding) for lm in both)
    assert sum(map(list.__eq__, here, there)) >= 0.98 * len(IDS)


def test_masked_is_cut(both):
    lm = both[1]
    ids = torch.arange(40, device=lm.device).reshape(2, 20)
    with torch.no_grad(), masked(lm, MASK):
        off = lm.model(input_ids=ids).logits
    with torch.no_grad():
        gone = cut(lm, MASK).model(input_ids=ids).logits
        whole = lm.model(input_ids=ids).logits
    torch.testing.assert_close(gone, off, atol=1e-4, rtol=1e-4)
    assert (off - whole).abs().max() > 1e-2


def test_convolutions_keep_float32():
    """Nine bits more than TF32's ten."""
    layer, x = torch.nn.Conv2d(64, 64, 3), torch.randn(4, 64, 32, 32)
    with torch.no_grad():
        exact = layer.double()(x.double())
        found = layer.float().cuda()(x.cuda()).double().cpu()
    assert (found - exact).norm() / exact.norm() < 1e-5


def test_scores_and_an_audit_are_those_of_a_processor(tmp_path):
    asked = AuditRequest(
        model="demo-gpt2",
        axes=("nationality",),
        methods=("fasp", "random"),
        sparsities=(0.0, 0.2),
        gamma=0.3,
        estimator="gradient",
        controls=0,
        seeds=1,
        max_prompts=100,
        max_corpus_tokens=1000,
    )
    stores = [Store(tmp_path / name) for name in ("cpu", "cuda")]
    asks = [replace(asked, device=name) for name in ("cpu", "cuda")]
    here, there = (scores_only(one, store) for one, store in zip(asks, stores, strict=True))
    column = "z_bias_nationality"
    np.testing.assert_allclose(there[column], here[column], atol=2e-3)
    np.testing.assert_allclose(there["z_ppl"], here["z_ppl"], rtol=2e-3, atol=1e-4)
    runs = [run_audit(one, store) for one, store in zip(asks, stores, strict=True)]
    assert runs[0].id == runs[1].id and runs[1].meta["provenance"]["device"] == "cuda:0"
    tables = [run.table("results").set_index(["variant", "axis", "metric"]) for run in runs]
    values = [table.loc[table["split"] == "test", "value"].sort_index() for table in tables]
    assert values[0].index.equals(values[1].index)
    np.testing.assert_allclose(values[1], values[0], rtol=0.05, atol=0.02)
