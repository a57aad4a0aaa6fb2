"""A checkpoint on the hub: asked before, sent whole, private, into nobody's files, with the reader's own token."""

from __future__ import annotations

import types

import pytest

from engine.core.errors import PruneAuditError, RequestError
from engine.report import push
from tests.a_hub import TOKEN, a_hub

RUN = types.SimpleNamespace(meta={"model": {"name": "maker/base", "revision": "0" * 40}})


@pytest.fixture
def hub(monkeypatch):
    with a_hub() as one:
        monkeypatch.setenv("HF_ENDPOINT", one.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(push, "export_run", _writes)
        yield one


def _writes(run, to, what, variant=None, base=None):
    folder = to / "checkpoint" / "one"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("# the card\n")


def test_what_is_sent_is_what_was_shown_and_is_private(hub):
    shown = []
    address = push.push_checkpoint(RUN, "reader/small", lambda upload: shown.append(upload) or True)
    held = hub.repositories["reader/small"]
    assert address == f"{hub.address}/reader/small" and hub.private["reader/small"]
    assert {path: len(content) for path, content in held.items()} == dict(shown[0].files)
    card = held["README.md"].decode()
    assert card.startswith("---\n") and card.endswith("# the card\n") and "base_model: maker/base\n" in card
    assert TOKEN not in str(held)


def test_nothing_is_asked_of_the_hub_before_the_yes(hub):
    assert push.push_checkpoint(RUN, "reader/small", lambda upload: False) is None
    assert not hub.asked


def test_a_repository_that_holds_something_stays_as_it_is(hub):
    hub.repositories["reader/small"], hub.private["reader/small"] = {"theirs.txt": b"1"}, True
    with pytest.raises(RequestError, match="theirs.txt"):
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
    assert hub.repositories["reader/small"] == {"theirs.txt": b"1"}


def test_a_public_repository_does_not_get_what_was_to_be_private(hub):
    hub.repositories["reader/small"], hub.private["reader/small"] = {}, False
    with pytest.raises(RequestError, match="is public"):
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
    assert not hub.repositories["reader/small"]


def test_another_owner_and_another_token_are_refused_in_words(hub, monkeypatch):
    with pytest.raises(RequestError, match="403"):
        push.push_checkpoint(RUN, "other/small", lambda upload: True)
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with pytest.raises(RequestError, match="401") as error:
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
    assert "hf_another" not in str(error.value)


def test_a_repository_that_was_made_and_stayed_empty_is_said(hub):
    hub.full = True
    with pytest.raises(PruneAuditError, match="reader/small was made and is empty"):
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
    with pytest.raises(PruneAuditError) as error:
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
    assert "Nothing was published" in str(error.value) and "was made" not in str(error.value)


def test_no_name_no_token_and_offline_are_all_said_at_once(hub, monkeypatch):
    monkeypatch.setattr(push, "_token", lambda: None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RequestError) as error:
        push.push_checkpoint(RUN, "../small", lambda upload: True)
    assert len(error.value.faults) == 3


def test_a_hub_that_is_not_there_is_said_and_nothing_is_published(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(PruneAuditError, match="Nothing was published"):
        push.push_checkpoint(RUN, "reader/small", lambda upload: True)
