"""A real pre-trained Llama with grouped KV (5 layers x 8 heads on 4 KV heads): masked = cut =
reloaded."""

import pytest

from engine.core.types import HeadMask
from engine.models.load_language_model import load_language_model
from engine.surgery.agreement import agree
from engine.surgery.heads.mask import cut
from engine.surgery.heads.replay import load_cut, save_cut
from engine.surgery.record import check_mask_fits, read_mask, record_of
from tests.places import SHARED

STORIES = SHARED / "stories260k"
PROMPTS = [
    "Once upon a time there was a little girl",
    "Tom and his dog",
    "The sun was shining and the big red",
]

pytestmark = pytest.mark.skipif(
    not STORIES.is_dir(), reason="the stories260k checkpoint is not on this machine"
)


@pytest.fixture(scope="module")
def lm():
    return load_language_model(STORIES, device="cpu")


@pytest.mark.parametrize(
    "heads",
    [
        ((2, 5),),
        ((1, 0), (1, 1), (3, 4), (4, 6), (4, 7)),
        (*((0, head) for head in range(8)), (2, 1), (3, 7)),
    ],
    ids=["one head", "KV heads fully and partly dead", "layer 0 gone"],
)
def test_masked_equals_cut_equals_reloaded(lm, heads, tmp_path):
    mask = HeadMask(5, 8, heads)
    smaller = cut(lm, mask)
    folder = save_cut(smaller, record_of(lm, mask), tmp_path / "out")
    check_mask_fits(read_mask(folder / "mask.json"), lm)
    for other in (smaller, load_cut(folder)):
        found = agree(lm, mask, PROMPTS, other)
        assert found.holds and found.greedy_equal, found
    assert smaller.n_parameters < lm.n_parameters
