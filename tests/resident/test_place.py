"""Where the engine is found: a folder that nobody else can open, and paths that a socket can
have."""

import os

import pytest

from engine.core.errors import PruneAuditError
from engine.resident.client import status, stop
from engine.resident.wire import LOG, LONGEST, code_digest, keep_short, last_words, place_of
from engine.store.runs import Store


def test_the_folder_is_private_and_one_folder_is_one_place(engines, tmp_path):
    one = place_of(Store(tmp_path / "a"))
    assert one.socket.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert (
        place_of(Store(tmp_path / "link")).socket
        == one.socket
        != place_of(Store(tmp_path / "b")).socket
    )


@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_a_folder_that_others_can_open_is_refused(engines, store, how):
    folder = engines / "pruneaudit"
    if how == "open":
        folder.mkdir()
        folder.chmod(0o755)
    elif how == "link":
        (engines / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(engines / "elsewhere")
    else:
        folder.touch()
    with pytest.raises(PruneAuditError, match="PRUNEAUDIT_ENGINE=off"):
        place_of(store)


def test_another_user_s_folder_is_refused(engines, store, monkeypatch):
    place_of(store)
    mine = os.getuid()
    monkeypatch.setattr("engine.resident.wire.os.getuid", lambda: mine + 1)
    with pytest.raises(PruneAuditError, match="only you can open"):
        place_of(store)


def test_a_long_path_gives_way_to_a_short_one(engines, store, monkeypatch):
    deep = engines / ("x" * 80)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    monkeypatch.setattr("engine.resident.wire.tempfile.gettempdir", lambda: str(engines))
    assert (
        len(str(place_of(store).socket)) < LONGEST
        and place_of(store).socket.parent.parent == engines
    )


def test_looking_for_an_engine_makes_no_store(engines, store):
    assert not status(store)["running"] and not stop(store) and not store.root.exists()


def test_a_log_keeps_its_last_part(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"old\n" * (LOG // 4) + b"the last line\n")
    keep_short(log)
    assert log.stat().st_size == LOG // 4 and last_words(log, 1) == "the last line"
    assert last_words(tmp_path / "none") == ""


def test_other_code_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.audit.session.ENGINE", tmp_path)
    monkeypatch.delenv("PRUNEAUDIT_RAY", raising=False)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one.py").write_text("1")
    first = code_digest()
    (tmp_path / "inner" / "one.pyc").write_text("1")
    assert code_digest() == first
    (tmp_path / "inner" / "one.py").write_text("22")
    second = code_digest()
    monkeypatch.setenv("PRUNEAUDIT_RAY", "host:1")
    assert len({first, second, code_digest()}) == 3, "jobs compute where the app was told to"
