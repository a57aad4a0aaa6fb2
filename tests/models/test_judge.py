"""Judges: found, pinned, asked once per text."""

import shutil
from functools import partial

import numpy as np
import pytest
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)  # isort: skip

from engine.core.errors import PruneAuditError, RequestError
from engine.models import runtime
from engine.models.catalog import ASSETS
from engine.models.judge import Judge, JudgeInfo, inspect_judge, load_judge
from engine.models.load_language_model import inspect_model
from tests.builders import refused
from tests.models.folders import edit, edit_weights

TEXTS = [
    "he walked to the market and bought some bread.",
    "you are a disgusting idiot and I hate you",
]


def judge_of(predict):
    return Judge(JudgeInfo("j", "d", None), predict)


def test_identical_texts_are_judged_once():
    asked = []
    judge = judge_of(lambda texts: asked.extend(texts) or np.full(len(texts), 0.25))
    assert judge.score(["a", "b", "a"]).tolist() == [0.25, 0.25, 0.25]
    judge.score(["b", "c"])
    assert asked == ["a", "b", "c"]


def test_a_judge_that_returns_nan_is_refused():
    with pytest.raises(PruneAuditError, match="no finite number"):
        judge_of(lambda texts: np.full(len(texts), np.nan)).score(["a"])


def test_an_unknown_judge_lists_the_known_ones():
    with pytest.raises(RequestError, match="demo-judge.*unbiased"):
        inspect_judge("no-such-judge")


def test_a_judge_has_the_hash_that_was_asked_for():
    with pytest.raises(RequestError, match="expected abc"):
        inspect_judge("demo-judge", "abc")


def test_a_verdict_is_of_its_text_alone_to_the_bit():
    """A resumed audit judges other texts together than one that nothing interrupted."""
    judge = load_judge("demo-judge")
    words = [
        "he",
        "walked",
        "to",
        "the",
        "market",
        "idiot",
        "and",
        "bought",
        "some",
        "bread",
        "neighbour",
    ]
    texts = [
        " ".join(words[(start * step + at) % 11] for at in range(3 + start))
        for start in range(12)
        for step in (1, 2, 3, 5)
    ]
    together = judge.predict(texts)
    assert [judge.predict([text] * 2)[0] for text in texts] == together.tolist()
    assert judge.predict(texts[::-3]).tolist() == together[::-3].tolist()


def test_where_memory_is_short_fewer_texts_are_judged_at_once(monkeypatch):
    judge, rows = load_judge("demo-judge"), []
    whole = judge.score(TEXTS * 9)
    monkeypatch.setattr(runtime, "on_device", lambda device: 4 << 20)
    judged_at_once = runtime.judged_at_once

    def noted(*given):
        rows.append(judged_at_once(*given))
        return rows[-1]

    monkeypatch.setattr(runtime, "judged_at_once", noted)
    judge.memory.clear()
    np.testing.assert_allclose(judge.score(TEXTS * 9), whole, atol=1e-6)
    assert rows and max(rows) < 16


def test_a_judge_made_for_one_model_is_foreign_to_every_other():
    judge = inspect_judge("demo-judge")
    own = inspect_model("demo-gpt2").weight_hash
    assert not judge.is_foreign_to(own) and judge.is_foreign_to("0" * 64)
    assert not JudgeInfo("any", "", None).is_foreign_to(own), (
        "a judge of any text is foreign to none"
    )


@pytest.mark.parametrize("made_for", [5, ["x"], "demo-gpt2"])
def test_a_card_that_names_its_model_wrongly_is_a_fault(tmp_path, made_for):
    folder = tmp_path / "judge"
    shutil.copytree(ASSETS / "demo-judge", folder)
    edit(folder, "judge.json", made_for=made_for)
    with pytest.raises(RequestError, match="cannot be read"):
        inspect_judge(str(folder))


def test_a_classifier_is_a_judge_once_its_label_is_named():
    with pytest.raises(RequestError, match="'kind', 'insulting'"):
        inspect_judge("demo-bert")
    with pytest.raises(RequestError, match="Known: insulting, kind"):
        inspect_judge("demo-bert", label="toxic")
    with pytest.raises(RequestError, match="Detoxify"):
        inspect_judge("demo-judge", label="toxic")
    with pytest.raises(RequestError, match="no classifier of texts"):
        inspect_judge("demo-gpt2", label="toxic")
    kind, insulting = (inspect_judge("demo-bert", label=label) for label in ("kind", "insulting"))
    assert kind.digest != insulting.digest, "the label is part of what the judge is"


def test_two_labels_of_a_classifier_share_one_probability_and_texts_do_not_share_verdicts():
    kind, insulting = (load_judge("demo-bert", label=label) for label in ("kind", "insulting"))
    texts = ["friends say kavo is gentle.", "everybody hates kavo.", "kavo"]
    assert kind.score(texts) + insulting.score(texts) == pytest.approx(1.0)
    assert [insulting.predict([text])[0] for text in texts] == insulting.predict(texts).tolist()


@pytest.mark.parametrize("kind", ["gpt2", "mpnet"])
def test_classifiers_of_every_family_judge_texts_of_no_token_and_of_too_many(tmp_path, kind):
    model = {"gpt2": "demo-gpt2", "mpnet": "demo-bert"}[kind]
    judge_with(tmp_path, 2, kind, model, {"max_position_embeddings": 24, "pad_token_id": 1})
    edit(tmp_path, "tokenizer_config.json", model_max_length=10**30)
    verdicts = load_judge(str(tmp_path), label="LABEL_1").score(["", "a market " * 40, "a market"])
    assert np.isfinite(verdicts).all() and len(set(verdicts)) == 3


def test_a_classifier_without_its_trained_head_is_refused(tmp_path):
    folder = tmp_path / "judge"
    shutil.copytree(ASSETS / "demo-bert", folder, ignore=shutil.ignore_patterns("pretrained"))
    edit_weights(
        folder, lambda state: {name: state[name] for name in state if "classifier" not in name}
    )
    with pytest.raises(RequestError, match="lacks 2 tensors"):
        load_judge(str(folder), label="insulting")


def judge_with(folder, outputs=2, kind="bert", words="demo-bert", shape=(), **fields):
    """A tiny classifier with an embedded model's words and these fields of config.json; its
    tokenizer and itself."""
    sizes = {"vocab_size": 500, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    made = {"intermediate_size": 8, "num_labels": outputs, "initializer_range": 1.0}
    config = AutoConfig.for_model(kind, **sizes, **made, **dict(shape))
    model = AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / words)
    tokenizer.save_pretrained(folder)
    edit(folder, **fields)
    return tokenizer, model


SIGMOID_OF_TORCH = "torch.nn.modules.activation.Sigmoid"


@pytest.mark.parametrize(
    "outputs, fields, activation",
    [
        (2, {}, "softmax"),
        (2, {"problem_type": "single_label_classification"}, "softmax"),
        (2, {"problem_type": "multi_label_classification"}, "sigmoid"),
        (2, {"function_to_apply": "sigmoid"}, "sigmoid"),
        (
            2,
            {"function_to_apply": "softmax", "problem_type": "multi_label_classification"},
            "softmax",
        ),
        (1, {"problem_type": "multi_label_classification"}, "sigmoid"),
        (1, {"function_to_apply": "sigmoid"}, "sigmoid"),
        (1, {"sentence_transformers": {"activation_fn": SIGMOID_OF_TORCH}}, "sigmoid"),
        (1, {"sbert_ce_default_activation_function": SIGMOID_OF_TORCH}, "sigmoid"),
    ],
)
def test_what_an_output_is_stands_in_the_config_and_in_the_run(
    tmp_path, outputs, fields, activation
):
    tokenizer, model = judge_with(tmp_path, outputs, **fields)
    logits = model(**tokenizer(TEXTS, return_tensors="pt", padding=True)).logits.detach().double()
    right = logits.softmax(-1) if activation == "softmax" else logits.sigmoid()
    judge = load_judge(str(tmp_path), label=f"LABEL_{outputs - 1}")
    assert judge.score(TEXTS) == pytest.approx(right[:, -1].tolist(), abs=1e-5)
    assert f"output {outputs} of {outputs}, by {activation}." in judge.info.note


@pytest.mark.parametrize(
    "outputs, fields, said",
    [
        (1, {}, "one output and does not say what it is.*problem_type"),
        (1, {"problem_type": "regression"}, "trained for a regression"),
        (2, {"problem_type": "regression"}, "trained for a regression"),
        (2, {"function_to_apply": "none"}, "says 'none' of its outputs"),
        (1, {"function_to_apply": "softmax"}, "one output and does not say what it is"),
        (
            1,
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
            "says 'identity'",
        ),
        (2, {"label2id": {"LABEL_0": 1, "LABEL_1": 0}}, "label2id that contradicts its id2label"),
        (2, {"id2label": {"0": "bad", "1": "bad"}}, "names two outputs alike"),
        (2, {"id2label": {"1": "LABEL_0", "2": "LABEL_1"}}, "does not name the outputs 0, 1, 2"),
    ],
)
def test_a_classifier_that_gives_no_probability_of_a_label_is_no_judge(
    tmp_path, outputs, fields, said
):
    judge_with(tmp_path, outputs, **fields)
    with pytest.raises(RequestError, match=said):
        inspect_judge(str(tmp_path), label="LABEL_0")


def test_a_judge_is_what_its_folder_says_whole(tmp_path):
    """What it holds and is not read is named as a model's is; what would be disobeyed is
    refused."""
    judge_with(tmp_path)
    inspected = partial(inspect_judge, str(tmp_path), label="LABEL_1")
    plain = inspected()
    edit_weights(
        tmp_path, lambda state: state | {"v_head.weight": state["classifier.weight"].clone()}
    )
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    note = inspected().note
    assert (
        note.startswith(plain.note)
        and "v_head.weight is not used: was this a model of rewards?" in note
    )
    assert "pytorch_model.bin is not read" in note
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    edit(tmp_path, pruned_heads={"0": [1]}, num_hidden_layers=2)
    said = "\n".join(refused(inspected))
    assert "holds an adapter" in said and "sets pruned_heads" in said
    (tmp_path / "adapter_config.json").unlink()
    edit(tmp_path, pruned_heads=None)
    with pytest.raises(RequestError, match="lacks 16 tensors that its config.json asks for"):
        inspected()


def test_a_vocabulary_of_its_own_makes_another_judge(tmp_path):
    judge_with(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    digests = set()
    for words in ("[UNK] [PAD] [CLS] [SEP] [MASK] a b", "[UNK] [PAD] [CLS] [SEP] [MASK] b a"):
        (tmp_path / "vocab.txt").write_text(words.replace(" ", "\n"))
        digests.add(inspect_judge(str(tmp_path), label="LABEL_1").digest)
    assert len(digests) == 2
