"""Every field of the files beside a language model or text classifier has a fate, and the refused
ones are refused."""

from __future__ import annotations

import json
import shutil

import pytest
from transformers import AutoTokenizer, GenerationConfig, PretrainedConfig
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from engine.core.errors import RequestError
from engine.models.checkpoint import inspect_folder
from engine.models.file_fields import FIELDS, IRRELEVANT, REFUSED, refusals, unread
from engine.models.load_language_model import inspect_model
from tests.tiny import DECODERS, folder_of

FILES = ("generation_config.json", "tokenizer_config.json", "config.json")


def refused(file: str) -> list[tuple[str, str]]:
    return [(file, name) for name, fate in FIELDS[file].items() if fate.kind == REFUSED]


def test_every_field_that_transformers_writes_is_known():
    assert unread("generation_config.json", GenerationConfig().to_dict()) == []
    assert unread("config.json", PretrainedConfig().to_dict()) == []
    assert not refusals("generation_config.json", GenerationConfig().to_dict(), "")
    assert not refusals("config.json", PretrainedConfig().to_dict(), "")
    special = PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES
    assert unread("tokenizer_config.json", dict.fromkeys(special)) == []


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "bloom", "gemma"])
def test_what_a_tokenizer_writes_of_itself_is_known(name, tmp_path):
    AutoTokenizer.from_pretrained(folder_of(name)).save_pretrained(tmp_path)
    assert (
        unread(
            "tokenizer_config.json", json.loads((tmp_path / "tokenizer_config.json").read_text())
        )
        == []
    )


@pytest.mark.parametrize("name", DECODERS)
def test_no_familys_own_config_has_a_note(name):
    assert inspect_model(folder_of(name)).notes == ()


@pytest.mark.parametrize(("file", "field"), [pair for file in FILES for pair in refused(file)])
def test_each_refused_field_is_refused(file, field, tmp_path):
    causal = file != "config.json" or field != "function_to_apply"
    folder = shutil.copytree(folder_of("gpt2" if causal else "bert"), tmp_path / "model")
    path = folder / file
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | {field: "sigmoid"}))
    with pytest.raises(RequestError, match=f"sets {field} to 'sigmoid', which is not obeyed here"):
        inspect_folder(folder, "it", causal=causal)
    path.write_text(json.dumps(old | {field: False if field.startswith("add_") else None}))
    assert inspect_folder(folder, "it", causal=causal).notes == ()


def test_every_fate_says_why_and_an_adapter_is_refused_by_its_kind():
    for file in (*FILES, "adapter_config.json"):
        assert FIELDS[file] and all(fate.why for fate in FIELDS[file].values())
    assert refusals("adapter_config.json", {"peft_type": "LORA", "r": 8}, "adapter_config.json")
    assert FIELDS["generation_config.json"]["temperature"].kind == IRRELEVANT
