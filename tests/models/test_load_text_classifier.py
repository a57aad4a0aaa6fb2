"""What loads as a text classifier, how new heads are drawn, and every way in which a checkpoint can
be wrong."""

from __future__ import annotations

import pytest
import torch

from engine.models.load_text_classifier import (
    inspect_text_model,
    load_text_classifier,
    save_text_classifier,
)
from tests.models.folders import copied, edit, edit_weights, faults_of
from tests.tiny import (
    CLASSES,
    ENCODERS,
    build,
    folder_of,
    text,
    tiny_text_classifier,
)

TEXTS = [text(3, 1, 4, 1, 5), text(9), text(2, 6, 5)]


@pytest.fixture
def folder(tmp_path):
    return copied("bert", tmp_path)


def without_head(folder, *also, named="BertForMaskedLM"):
    """As masked-language-model training leaves it; `also`: more beginnings of names that are left
    out."""
    edit_weights(
        folder, lambda w: {k: v for k, v in w.items() if not k.startswith(("classifier", *also))}
    )
    edit(folder, architectures=[named], id2label={"0": "LABEL_0", "1": "LABEL_1"}, label2id=None)
    return folder


def refusal(path, classes=CLASSES, **more):
    return faults_of(load_text_classifier, path, classes, device="cpu", **more)


@pytest.mark.parametrize("name", ENCODERS)
def test_inspection_says_what_loading_finds(name):
    info, clf = inspect_text_model(folder_of(name)), tiny_text_classifier(name)
    assert (info.n_layers, info.n_heads, info.n_positions, info.vocab_size) == (3, 4, 64, 48)
    assert (clf.n_layers, clf.n_heads, clf.n_positions, clf.vocab_size) == (3, 4, 64, 48)
    assert info.n_parameters == clf.n_parameters and info.weight_hash == clf.weight_hash
    assert (info.has_head, info.n_labels, info.classes, info.pretrained) == (True, 3, CLASSES, None)
    assert (clf.has_head, clf.classes, clf.max_length, clf.notes, clf.cut) == (
        True,
        CLASSES,
        64,
        (),
        None,
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_logits_are_those_of_plain_transformers(name):
    from transformers import AutoModelForSequenceClassification

    clf = tiny_text_classifier(name)
    batch = clf.encode(TEXTS, TEXTS[::-1])
    plain = AutoModelForSequenceClassification.from_pretrained(folder_of(name)).eval()
    assert torch.allclose(plain(**batch).logits, clf.logits(batch), atol=1e-6)
    assert clf.logits(batch).shape == (3, 3) and clf.logits(batch).dtype == torch.float32


@pytest.mark.parametrize(
    "name", ["gpt2_classifier", "llama_classifier", "qwen3_classifier", "opt_classifier"]
)
def test_a_decoder_that_names_no_padding_answers_at_the_end_of_each_text(tmp_path, name):
    from transformers import AutoModelForSequenceClassification

    clf = load_text_classifier(
        build(name, tmp_path, pad_token_id=None), CLASSES, device="cpu", max_length=64
    )
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert plain.config.pad_token_id is None
    texts = [text(1), text(2, 3, 4, 5), text(*range(6, 20))]
    alone = torch.cat([plain(input_ids=clf.encode([one])["input_ids"]).logits for one in texts])
    assert torch.allclose(clf.logits(clf.encode(texts)), alone, atol=1e-5)


def test_texts_as_the_model_reads_them():
    clf = tiny_text_classifier("bert", max_length=8)
    found = clf.encode([text(1), text(2, 2, 2)])
    assert found["input_ids"].tolist() == [[2, 6, 3, 1, 1], [2, 7, 7, 7, 3]]
    assert found["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert not found["token_type_ids"].any()
    pair = clf.encode([text(1, 1, 1, 1, 1)], [text(2, 2)])  # 10 tokens: the longer text gives way
    assert pair["input_ids"].tolist() == [[2, 6, 6, 6, 3, 7, 7, 3]]
    assert pair["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1]]


def test_fewer_positions_than_asked_for_are_said():
    clf = tiny_text_classifier("roberta", max_length=128)
    assert clf.max_length == 64
    assert clf.notes == ("Texts are cut at 64 tokens, not 128: the model has no more positions.",)
    clf.logits(clf.encode([text(*[1] * 200)]))


# ---- heads


@pytest.mark.parametrize("name", ENCODERS)
def test_a_new_head_depends_on_the_seed_alone_and_changes_nothing_else(name):
    own = tiny_text_classifier(name).model.state_dict()
    torch.manual_seed(1)
    one = tiny_text_classifier(name, new_head=True, seed=5)
    torch.manual_seed(2)
    same, other = (tiny_text_classifier(name, new_head=True, seed=seed) for seed in (5, 6))
    head = tuple(f"{module}." for module in one.adapter.head)
    for key, value in one.model.state_dict().items():
        assert torch.equal(value, same.model.state_dict()[key])
        if not key.startswith(head):
            assert torch.equal(value, own[key]) and torch.equal(
                value, other.model.state_dict()[key]
            )
        elif key.endswith("weight"):
            assert not torch.equal(value, own[key]) and not torch.equal(
                value, other.model.state_dict()[key]
            )
            assert 0.01 < value.std() < 0.03  # initializer_range is 0.02
        else:
            assert not value.any()
    assert not one.has_head and "new and random (seed 5)" in one.notes[0]


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_a_masked_language_model_gets_a_head_and_a_pooler(folder, prefix):
    """Its encoder arrives whole, whether names begin with the model's name or not."""
    own = tiny_text_classifier("bert").model.state_dict()
    without_head(folder, "bert.pooler", named="BertForMaskedLM" if prefix else "BertModel")
    edit_weights(
        folder, lambda weights: {k.replace("bert.", prefix): v for k, v in weights.items()}
    )
    info = inspect_text_model(folder)
    assert (info.has_head, info.classes, info.n_labels) == (False, (), 0)
    clf = load_text_classifier(folder, ("no", "yes"), device="cpu", seed=4)
    same = load_text_classifier(folder, ("no", "yes"), device="cpu", seed=4)
    for key, value in clf.model.state_dict().items():
        assert torch.equal(value, same.model.state_dict()[key])
        assert torch.equal(value, own[key]) or key.startswith(("classifier.", "bert.pooler."))
    assert clf.notes[0].startswith("The checkpoint has no pooler") and not clf.has_head


def test_a_saved_classifier_comes_back(tmp_path):
    clf = tiny_text_classifier("bert", classes=("no", "yes"), new_head=True, max_length=12)
    save_text_classifier(clf, tmp_path)
    assert inspect_text_model(tmp_path).classes == ("no", "yes")
    again = load_text_classifier(tmp_path, ("no", "yes"), device="cpu")
    assert again.has_head and torch.equal(
        again.logits(again.encode(TEXTS)), clf.logits(clf.encode(TEXTS))
    )
    assert again.tokenizer.model_max_length == 12 and clf.tokenizer.model_max_length == 64


# ---- classes


def test_classes_that_do_not_fit_the_head():
    (fault,) = refusal(folder_of("bert"), ("no", "yes"))
    assert "there are 2 classes, but the head of" in fault and "gives 3 numbers" in fault


@pytest.mark.parametrize("classes", [(), ("one",), ("a", "a", "b"), ("a", "", "b")])
def test_classes_that_are_none(classes):
    assert (
        "a classifier has two or more classes, each named once"
        in refusal(folder_of("bert"), classes)[0]
    )


def test_outputs_whose_names_contradict_each_other_or_the_weights(folder):
    edit(folder, label2id={"red": 1, "green": 0, "blue": 2})
    assert "label2id that contradicts its id2label" in refusal(folder)[0]
    edit(folder, id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    assert inspect_text_model(folder).classes == (
        "green",
        "red",
        "blue",
    ), "one of them has names: they are taken"
    edit(folder, id2label={"0": "no", "1": "yes"}, label2id=None)
    assert "names 2 outputs, the head in the weights has 3" in refusal(folder)[0]
    edit(folder, id2label=None, function_to_apply="sigmoid")
    assert any(
        "makes its answers by sigmoid" in one or "function_to_apply" in one
        for one in refusal(folder)
    )


# ---- what is wrong with a checkpoint


def test_all_faults_at_once(folder):
    edit(folder, model_type="t5")
    (folder / "tokenizer.json").unlink()
    found = refusal(folder, ("one",), max_length=2)
    assert [fault.split(":")[0] for fault in found] == [
        "architecture",
        str(folder),
        "classes",
        "max_length",
    ]
    assert "'t5' reads a text with one half and writes with the other" in found[0]


def test_a_language_model_is_no_text_classifier():
    (fault,) = refusal(folder_of("gpt2"))
    assert "'gpt2' continues texts" in fault and "or use an encoder" in fault


@pytest.mark.parametrize("new_head", [False, True])
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_decoder": True}, "describes a decoder"),
        ({"add_cross_attention": True}, "describes a decoder"),
        ({"position_embedding_type": "relative_key"}, "has relative_key positions"),
        ({"pad_token_id": 0}, "tokenizer: pads with token 1, config.json says 0."),
        ({"problem_type": "regression"}, "says by problem_type 'regression' that its outputs are"),
        ({"function_to_apply": "sigmoid"}, "sets function_to_apply to"),
        ({"num_hidden_layers": 2}, "tensors in its layers that its config.json does not ask for"),
        ({"max_position_embeddings": 32}, "of another shape"),
        ({"vocab_size": 40}, "it makes token 47, the model knows 0 to 39"),
    ],
)
def test_a_config_of_which_no_classifier_can_be_made(folder, fields, said, new_head):
    edit(folder, **fields)
    assert said in refusal(folder, new_head=new_head)[0]


def test_a_head_that_is_promised_and_missing(folder):
    without_head(folder, named="BertForSequenceClassification")
    assert "names a classification head that the weights do not hold" in refusal(folder)[0]


@pytest.mark.parametrize("fresh", [False, True])
def test_encoder_tensors_are_never_made_up(folder, fresh):
    edit_weights(
        folder, lambda weights: {k: v for k, v in weights.items() if "layer.1.attention" not in k}
    )
    assert "lacks 10 tensors that its config.json asks for" in refusal(folder, new_head=fresh)[0]
