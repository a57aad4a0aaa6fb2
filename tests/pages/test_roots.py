"""What a page may have read and written: below stated roots, nothing hidden, no link out. Uploads end."""

from __future__ import annotations

import os

import pytest

from engine.core.errors import RequestError
from pages.shared import roots, uploads
from pages.shared.roots import is_inside, refuse_outside, refuse_target


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "key").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file.txt").write_text("x")
    (home / "out").symlink_to(tmp_path / "outside")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    monkeypatch.delenv(roots.READ, raising=False)
    monkeypatch.delenv(roots.WRITE, raising=False)
    monkeypatch.chdir(home)
    return home


def test_home_is_inside_and_nothing_hidden_or_linked_out_of_it(home):
    inside = roots.readable()
    assert is_inside("~/models", inside) and is_inside(home / "models" / "new", inside) and is_inside("models", inside)
    for path in ("~/.ssh/key", "/etc/passwd", home / "out" / "file.txt", home / ".." / "outside", "a\0b", "~nobody/x"):
        assert not is_inside(path, inside), path
    ours = (
        uploads.default_root() / "uploads" / "x.csv",
        roots.PROJECT / "assets",
        "~/.cache/huggingface/hub/models--x",
    )
    assert all(is_inside(path, inside) for path in ours)


def test_a_request_that_names_other_files_is_refused_with_all_of_them(home, tmp_path):
    sound = {"model": "gpt2", "prompts": "embedded", "corpus": str(home / "models"), "seeds": 3, "axes": ["/no/such"]}
    refuse_outside(sound)
    with pytest.raises(RequestError) as caught:
        refuse_outside({**sound, "model": "/etc", "data": {"path": str(tmp_path / "outside")}, "files": ["~/.ssh/key"]})
    assert [fault.where for fault in caught.value.faults] == ["model", "data", "files"]


def test_roots_can_be_named(home, tmp_path, monkeypatch):
    monkeypatch.setenv(roots.READ, f"{tmp_path / 'outside'}{os.pathsep}~/models")
    assert is_inside(home / "out" / "file.txt", roots.readable()) and not is_inside("~/else", roots.readable())
    refuse_target("~/cut-model")
    with pytest.raises(RequestError, match="may not be written from a page"):
        refuse_target(str(tmp_path / "outside"))
    monkeypatch.setenv(roots.WRITE, str(tmp_path / "outside"))
    refuse_target(str(tmp_path / "outside" / "cut"))
    with pytest.raises(RequestError, match="may not be written"):
        refuse_target("~/cut-model")


class Upload:
    def __init__(self, content, name="a.csv"):
        self.content, self.name = content, name

    def getvalue(self):
        return self.content


def test_uploads_have_a_quota_and_end(home, monkeypatch):
    monkeypatch.setattr(uploads, "QUOTA", 10)
    first = uploads.kept(Upload(b"12345"))
    assert uploads.kept(Upload(b"12345")) == first
    with pytest.raises(RequestError, match="uploads take"):
        uploads.kept(Upload(b"678901"))
    assert first.exists()
    os.utime(first, (0, 0))
    second = uploads.kept(Upload(b"678901"))
    assert second.exists() and not first.exists()
