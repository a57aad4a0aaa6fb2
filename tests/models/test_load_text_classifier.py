"""What loads as a text classifier, how new heads are drawn, and every way in which a checkpoint can
be wrong."""

import numpy as np
import pytest
import torch

from engine.models.load_text_classifier import (
    inspect_text_model,
    load_text_classifier,
    save_text_tokenizer,
)
from engine.surgery.heads.mask import prove_mask_works
from tests.builders import refused
from tests.models.folders import copied, edit, edit_weights
from tests.tiny import (
    CLASSES,
    ENCODERS,
    READ_WHOLE,
    TEXTS,
    build,
    folder_of,
    text,
    tiny_text_classifier,
)

FIRST = [0.0117429, 0.0021751, -0.0078669]
"""First numbers of a new head of tiny BERT with seed 5."""


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
    return refused(load_text_classifier, path, classes, device="cpu", **more)


@pytest.mark.parametrize("name", ENCODERS)
def test_inspection_says_what_loading_finds(name):
    info, clf = inspect_text_model(folder_of(name)), tiny_text_classifier(name)
    for one in (info, clf):
        assert (one.n_layers, one.n_heads, one.n_positions, one.vocab_size) == (3, 4, 64, 48)
        assert one.has_head and one.classes == CLASSES and one.n_parameters == clf.n_parameters
    assert info.weight_hash == clf.weight_hash
    assert (info.n_labels, info.pretrained, clf.max_length) == (3, None, 64)
    assert clf.notes == () and clf.cut is None


def test_a_loaded_classifier_is_ready():
    clf = tiny_text_classifier("distilbert")
    assert not clf.model.training
    assert not any(parameter.requires_grad for parameter in clf.model.parameters())
    assert clf.tokenizer.padding_side == "right"
    assert (clf.device.type, clf.dtype) == ("cpu", torch.float32)


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


def test_token_types_only_where_the_family_has_them(folder):
    for name in ("distilbert", "roberta"):
        assert set(tiny_text_classifier(name).encode(TEXTS, TEXTS)) == {
            "input_ids",
            "attention_mask",
        }
    edit(folder, type_vocab_size=1)
    types = "bert.embeddings.token_type_embeddings.weight"
    edit_weights(folder, lambda weights: weights | {types: weights[types][:1].clone()})
    clf = load_text_classifier(folder, CLASSES, device="cpu", max_length=64)
    assert set(clf.encode(TEXTS, TEXTS)) == {"input_ids", "attention_mask"}


def test_lengths_count_what_would_be_cut():
    clf = tiny_text_classifier("bert", max_length=8)
    found = clf.lengths([text(*[1] * 100), text(2), ""], [text(1), text(2, 2), ""])
    assert found.dtype == np.int64 and found.tolist() == [104, 6, 3]
    assert clf.lengths([text(1), ""]).tolist() == [3, 2]
    assert clf.encode([text(*[1] * 100)])["input_ids"].shape == (
        1,
        8,
    )  # asking for lengths left cutting on


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
    stream = torch.get_rng_state()
    one = tiny_text_classifier(name, new_head=True, seed=5)
    assert torch.equal(torch.get_rng_state(), stream), "the random stream is left alone"
    torch.manual_seed(2)
    same, other = (tiny_text_classifier(name, new_head=True, seed=seed) for seed in (5, 6))
    head = tuple(f"{module}." for module in one.adapter.head)
    again, others = same.model.state_dict(), (own, other.model.state_dict())
    for key, value in one.model.state_dict().items():
        assert torch.equal(value, again[key])
        if key.startswith(head) and key.endswith("weight"):
            assert not any(torch.equal(value, those[key]) for those in others)
            assert 0.01 < value.std() < 0.03  # initializer_range is 0.02
        elif key.startswith(head):
            assert not value.any()
        else:
            assert all(torch.equal(value, those[key]) for those in others)
    assert not one.has_head and "new and random (seed 5)" in one.notes[0]


@pytest.mark.parametrize("name", sorted(READ_WHOLE))
def test_through_a_new_head_every_family_still_hears_its_heads(name):
    """ModernBERT's has a norm: a scale of zero would answer every text alike."""
    clf = tiny_text_classifier(name, classes=("no", "yes"), new_head=True)
    prove_mask_works(clf)
    logits = clf.logits(clf.encode(TEXTS))
    assert (logits - logits[0]).abs().max() > 1e-3


def test_a_new_head_is_the_same_on_every_machine():
    clf = tiny_text_classifier("bert", new_head=True, seed=5)
    assert torch.allclose(clf.model.classifier.weight[0, :3], torch.tensor(FIRST), atol=1e-7)


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


def test_a_pooler_that_is_there_is_kept(folder):
    own = tiny_text_classifier("bert").model.state_dict()
    clf = load_text_classifier(without_head(folder), ("no", "yes"), device="cpu", max_length=64)
    assert torch.equal(
        clf.model.state_dict()["bert.pooler.dense.weight"], own["bert.pooler.dense.weight"]
    )
    assert len(clf.notes) == 1 and "head is new" in clf.notes[0]


def test_names_of_old_checkpoints(folder):
    """bert-base-uncased still calls LayerNorm's weights gamma and beta."""
    own = tiny_text_classifier("bert").model.state_dict()

    def old(name):
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )

    edit_weights(folder, lambda weights: {old(key): value for key, value in weights.items()})
    found = load_text_classifier(folder, CLASSES, device="cpu").model.state_dict()
    assert all(torch.equal(found[key], own[key]) for key in own)


def test_a_token_classifiers_head_is_none(folder):
    edit(folder, architectures=["BertForTokenClassification"])
    assert not inspect_text_model(folder).has_head
    clf = load_text_classifier(folder, CLASSES, device="cpu", seed=5)
    wanted = tiny_text_classifier("bert", new_head=True, seed=5).model.classifier.weight
    assert torch.equal(clf.model.classifier.weight, wanted)


def test_a_saved_classifier_comes_back(tmp_path):
    clf = tiny_text_classifier("bert", classes=("no", "yes"), new_head=True, max_length=12)
    clf.model.save_pretrained(tmp_path)
    save_text_tokenizer(clf, tmp_path)
    assert inspect_text_model(tmp_path).classes == ("no", "yes")
    again = load_text_classifier(tmp_path, ("no", "yes"), device="cpu")
    assert again.has_head and torch.equal(
        again.logits(again.encode(TEXTS)), clf.logits(clf.encode(TEXTS))
    )
    assert again.tokenizer.model_max_length == 12 and clf.tokenizer.model_max_length == 64


# ---- classes


NO_CLASSES = "a classifier has two or more classes, each named once"


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (("no", "yes"), "there are 2 classes, but the head of"),
        (("Blue", "Green", "Red"), "is not the order of"),
        ((), NO_CLASSES),
        (("one",), NO_CLASSES),
        (("a", "a", "b"), NO_CLASSES),
        (("a", "", "b"), NO_CLASSES),
    ],
)
def test_classes_that_do_not_fit_the_head(classes, said):
    assert said in refusal(folder_of("bert"), classes)[0]


def test_other_names_are_taken_and_said():
    clf = load_text_classifier(folder_of("bert"), ("a", "b", "c"), device="cpu", max_length=64)
    assert clf.classes == ("a", "b", "c") and clf.has_head
    assert clf.notes == ("The checkpoint calls its classes red, green, blue; here: a, b, c.",)


def test_outputs_whose_names_contradict_each_other_or_the_weights(folder):
    edit(folder, label2id={"red": 1, "green": 0, "blue": 2})
    assert "label2id that contradicts its id2label" in refusal(folder)[0]
    edit(folder, id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    taken = inspect_text_model(folder).classes  # one of them has names
    assert taken == ("green", "red", "blue")
    edit(folder, id2label={"0": "no", "1": "yes"}, label2id=None)
    assert "names 2 outputs, the head in the weights has 3" in refusal(folder)[0]
    edit(folder, id2label=None, function_to_apply="sigmoid")
    assert any("function_to_apply" in one for one in refusal(folder))


# ---- what is wrong with a checkpoint


def test_all_faults_at_once(folder):
    edit(folder, model_type="t5")
    (folder / "tokenizer.json").unlink()
    found = refusal(folder, ("one",), max_length=2)
    told = ["architecture", str(folder), "classes", "max_length"]
    assert [fault.split(":")[0] for fault in found] == told
    assert "'t5' reads a text with one half and writes with the other" in found[0]


def test_a_language_model_is_no_text_classifier():
    (fault,) = refusal(folder_of("gpt2"))
    assert "'gpt2' continues texts" in fault and "or use an encoder" in fault


@pytest.mark.parametrize("family", ["resnet", "swin"])
def test_what_reads_no_texts_is_told_in_words(folder, family):
    edit(
        folder,
        model_type=family,
        architectures=[f"{family}ForImageClassification"],
        hidden_act="relu",
    )
    fault = next(one for one in refusal(folder) if one.startswith("architecture"))
    assert "reads no texts: transformers has no text classifier of it. Use a folder" in fault


@pytest.mark.parametrize("new_head", [False, True])
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_decoder": True}, "describes a decoder"),
        ({"add_cross_attention": True}, "describes a decoder"),
        ({"position_embedding_type": "relative_key"}, "has relative_key positions"),
        ({"pad_token_id": 0}, "tokenizer: pads with token 1, config.json says 0."),
        ({"problem_type": "regression"}, "says by problem_type 'regression' that its outputs are"),
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
@pytest.mark.parametrize(("part", "count"), [("layer.1.attention", 10), ("pooler", 2)])
def test_tensors_of_an_encoder_are_never_made_up(folder, part, count, fresh):
    """Nor is the pooler of one that was fine-tuned."""
    edit_weights(folder, lambda weights: {k: v for k, v in weights.items() if part not in k})
    assert f"lacks {count} tensors" in refusal(folder, new_head=fresh)[0]


def test_absolute_positions_which_older_files_name_are_no_news(folder):
    edit(folder, position_embedding_type="absolute")
    assert inspect_text_model(folder).notes == ()
