"""Perplexity: each token once, equal to one plain forward where the text fits."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from engine.core import memory
from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import Decoding, Window
from engine.models import runtime
from engine.models.decode import begin, draw_on, prompt_tokens, sample
from engine.models.load_language_model import load_language_model
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.likelihoods import (
    InPassing,
    prompt_nll,
    token_nll,
    window_nll,
)
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.perplexity import (
    block_of,
    paired_perplexity_difference,
    perplexity,
    spans_of,
)
from engine.tracks.language_models.request import _length_faults, validate
from tests.models.folders import copied
from tests.models.test_structure import CUT, TEXTS
from tests.tiny import TINY, text, tiny_language_model, tiny_model
from tests.tracks.language_models.worlds import world_request


@pytest.mark.parametrize("n", [2, 5, 16, 17, 40, 64, 65])
@pytest.mark.parametrize("window", [Window(16, 8), Window(16, 16), Window(16, 5), Window(64)])
def test_every_token_but_the_first_is_scored_once(n, window):
    scored = [at for span in spans_of(n, window, 64) for at in range(span.first, span.end)]
    assert scored == list(range(1, n))


@pytest.mark.parametrize(
    ("n", "positions", "found"),
    [
        (1800, 1024, [(0, 256, 1), (512, 768, 513), (1024, 1280, 1025), (1536, 1792, 1537)]),
        (2000, 4096, [(0, 1024, 1), (512, 1536, 1024), (1024, 2000, 1536)]),
    ],
)
def test_published_windows_begin_at_every_512th_token_and_longer_ones_score_what_is_new(
    n, positions, found
):
    spans = spans_of(n, Window(published=True), positions)
    assert [(span.start, span.end, span.first) for span in spans] == found


def test_the_published_perplexity_is_the_mean_of_window_means():
    windows = pd.DataFrame({"nll": [2.0, 12.0], "tokens": [2, 4]})
    assert perplexity(windows, Window(published=True)) == pytest.approx(np.exp(2.0))
    assert perplexity(windows) == pytest.approx(np.exp(14 / 6))


def test_equals_a_plain_forward_when_the_text_fits():
    lm = tiny_model("gpt2")
    tokens = [3 + (at * at) % 40 for at in range(50)]
    ids = torch.tensor([tokens])
    logits = lm.model(input_ids=ids).logits.double().log_softmax(-1)
    nll = -logits[0, :-1].gather(1, ids[0, 1:, None]).mean()
    assert perplexity(window_nll(lm, tokens, Window())) == pytest.approx(float(nll.exp()), rel=1e-5)


@pytest.fixture
def begun(tmp_path):
    """A model whose tokenizer begins every text with <s>, token 1."""
    folder = copied("llama", tmp_path)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    plain.save(str(folder / "tokenizer.json"))
    return folder


def test_every_window_begins_as_the_tokenizer_begins_a_text(begun):
    lm = load_language_model(begun, device="cpu")
    tokens = [3 + (at * at) % 40 for at in range(100)]
    table = window_nll(lm, tokens, Window(16, 8))
    assert table["tokens"].sum() == 100, "the first word is scored, too"
    for row in table.itertuples():
        ids = torch.tensor([[1, *tokens[row.window : row.window + 16]]])
        nll = -lm.model(input_ids=ids).logits[0, :-1].double().log_softmax(-1)
        nll = nll.gather(1, ids[0, 1:, None])[-row.tokens :]
        assert row.nll == pytest.approx(float(nll.sum()), rel=1e-5)
    assert window_nll(lm, tokens, Window())["window"].max() + 63 >= 100, "<s> has a place"


def test_what_begins_a_text_begins_it_once(begun):
    lm = load_language_model(begun, device="cpu")
    assert prompt_tokens(lm, ["w2 w3", "<s> w2 w3"], 22) == [[1, 5, 6]] * 2
    assert tiny_model("llama").begin == ()


def test_the_beginning_is_said_and_part_of_the_audit(begun, tmp_path, words_judged):
    plan = validate(world_request(tmp_path, model=str(begun)))
    assert any("begins with <s>, as its tokenizer has it" in note for note in plan.warnings)
    context = context_of(plan)
    dense = Shard("windows", (), split="test")
    (table,) = context.fetch([dense])
    assert table["tokens"].sum() == len(context.tokens["test"])
    for name in ("divergence", "michel", "head_means", "window_gradients"):
        assert len(context.fetch([replace(dense, kind=name)])[0])
    single = context.fetch([Shard("windows", (unit,), split="test") for unit in range(2)])
    assert all(one["tokens"].equals(table["tokens"]) for one in single)


@pytest.mark.parametrize("name", [*TINY, *CUT])
def test_texts_and_padded_prompts_are_as_likely_as_the_whole_model_says_of_each_alone(name):
    lm = tiny_language_model(name)
    prompts = [text(1, 2, 3), text(1, 2, 4), text(6, 7, 8, 9, 10)]  # two begin alike
    rows = prompt_tokens(lm, prompts, 22)
    ids = [torch.tensor([row]) for row in rows]
    with torch.no_grad():
        alone = [float(token_nll(lm.model(input_ids=one).logits, one).sum()) for one in ids]
    together = prompt_nll(lm, prompts, 22)
    assert together["nll"].to_numpy() == pytest.approx(alone, rel=1e-4)
    assert together["tokens"].tolist() == [len(row) - 1 for row in rows]
    lone, decoding = [text(4), *prompts, *[prompts[0]] * 2], Decoding(max_new_tokens=2)
    lengths = [len(row) - 1 for row in prompt_tokens(lm, lone, 22)]
    for count in (1, 4):
        assert prompt_nll(lm, lone[:count], 22)["tokens"].tolist() == lengths[:count]
    begun = begin(lm, lone, list("abcdef"), [0] * 6, decoding)
    some = InPassing(np.array([True, False, *[True] * 4]))  # equal ones are read once
    with some.of(lm, begun.prompts):
        draw_on(lm, begun, decoding, batch=some.batch)
    assert some.found[0, 1] == lengths[0]
    assert some.found[2:, 0] == pytest.approx([*alone[1:], *[alone[0]] * 2], rel=1e-4)
    with pytest.raises(PruneAuditError, match="no likelihood"):
        some.table(slice(None))
    read = window_nll(lm, rows[2][len(lm.begin) :], Window(20))
    assert read["nll"].sum() == pytest.approx(alone[2], rel=1e-4)


@pytest.mark.parametrize("cut", [(), (1, 2)])
def test_prompts_scored_while_texts_are_drawn_on_them_are_as_those_scored_alone(
    cut, tmp_path, words_judged
):
    plan = validate(world_request(tmp_path))
    alone, beside = context_of(plan), context_of(plan)
    wanted = [Shard("prompt_nll", cut, axis, "test") for axis in plan.request.axes]
    beside.beside = frozenset(wanted)
    beside.fetch([replace(one, kind="verdicts", seed=seed) for one in wanted for seed in (0, 1)])
    assert all(map(beside.kept, wanted)) and not any(map(alone.kept, wanted))
    for one, other in zip(beside.fetch(wanted), alone.fetch(wanted), strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=1e-5)


def test_two_texts_serve_validation_and_test(tmp_path, words_judged):
    request = world_request(tmp_path)
    other = tmp_path / "valid.txt"
    other.write_text(" ".join(f"w{at % 13}" for at in range(400)), encoding="utf-8")
    one, two = validate(request), validate(replace(request, validation_corpus=str(other)))
    assert one.run_id != two.run_id
    tokens = context_of(two).tokens
    assert len(tokens["validation"]) == 400 and len(tokens["test"]) == 900, (
        "nothing of the test text is given away"
    )
    with pytest.raises(RequestError, match="is also the text for test"):
        validate(replace(request, validation_corpus=request.corpus))


def test_published_windows_are_refused_where_the_context_is_too_short(tmp_path):
    short = SimpleNamespace(n_positions=7, name="tiny")
    request = world_request(tmp_path, published_perplexity=True)
    assert [fault.where for fault in _length_faults(request, short)][0] == "published_perplexity"


def test_a_change_of_one_window_of_text_is_told_from_its_blocks_of_tokens(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.tracks.language_models.perplexity.BLOCK", 4)
    context = context_of(validate(world_request(tmp_path, max_corpus_tokens=80)))
    dense, cut = context.fetch([Shard("windows", one, split="test") for one in ((), (0, 5))])
    whole = window_nll(context.lm, context.tokens["test"], Window())
    assert len(whole) == 1 and len(dense) == 16 and dense["tokens"].sum() == 63
    assert perplexity(dense) == pytest.approx(perplexity(whole), rel=1e-6)
    worse = cut.assign(nll=dense["nll"] + 2.0 * dense["tokens"])
    change = paired_perplexity_difference(dense, worse)
    assert change.low > 0
    assert np.isfinite(paired_perplexity_difference(dense, cut).low)


@pytest.mark.parametrize(
    ("n", "published", "positions", "block"),
    [(800, False, 1024, 32), (21_111, False, 128, None), (900, True, 1024, None)],
)
def test_only_a_text_of_few_windows_is_kept_in_blocks(n, published, positions, block):
    assert block_of(n, Window(published=published), positions) == block


@pytest.mark.parametrize("lost", [1, 3])
def test_what_is_lacking_of_a_bundle_is_computed_as_it_was_to_the_bit(tmp_path, lost):
    """Killed between two shards of a bundle, or with some damaged: alone they would be computed in
    another way."""
    context = context_of(validate(world_request(tmp_path)))
    shards = [Shard("windows", (unit,), split="validation") for unit in range(12)]
    whole = context.fetch(shards)
    for shard in shards[4 : 4 + lost]:
        del context.keeper[context.key(shard)]
    for one, other in zip(context.fetch(shards), whole, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_little_memory_changes_no_more_than_last_digits(monkeypatch):
    lm = load_language_model("demo-gpt2", device="cpu")
    texts = [
        "my neighbour is a velorian lawyer.",
        "we went home.",
        "the lawyer said: thank you.",
    ] * 20
    whole = prompt_nll(lm, texts, 22)
    monkeypatch.setenv(memory.STATED, str(runtime.OVERHEAD + lm.n_parameters * 4 + (4 << 20)))
    assert runtime.rows_at_once(lm, 256, 22) < len(texts)
    np.testing.assert_allclose(prompt_nll(lm, texts, 22), whole, rtol=1e-5)
    tokens = [2 + at % 300 for at in range(400)]
    windows = window_nll(lm, tokens, Window())
    monkeypatch.setattr(
        "engine.models.runtime.CPU_NUMBERS", 20 * lm.vocab_size
    )  # fewer than the positions of a window
    np.testing.assert_allclose(window_nll(lm, tokens, Window())["nll"], windows["nll"], rtol=1e-5)


@pytest.mark.parametrize("name", CUT)
def test_what_is_asked_of_a_model_read_by_its_structure_is_what_was_proved(name, monkeypatch):
    lm, tokens = tiny_model(name), list(range(3, 45))
    plain = window_nll(lm, tokens, Window())
    monkeypatch.setattr("engine.tracks.language_models.likelihoods.positions_at_once", lambda lm: 5)
    assert abs(window_nll(lm, tokens, Window())["nll"] - plain["nll"]).max() < 1e-2
    short = Decoding(max_new_tokens=4)
    each = [sample(lm, [one], [key], [0], short)[0] for one, key in zip(TEXTS, "ab", strict=True)]
    assert sample(lm, TEXTS, ["a", "b"], [0, 0], short) == each
