"""What a page may have read and written: below stated roots, nothing hidden, no link out. Uploads
end."""

import os

import pytest

from engine.audit.tracks import tracks
from engine.core.errors import Fault, RequestError
from pages.shared import form, jobs, published, roots
from pages.shared.roots import is_inside, refuse_outside, refuse_target
from pages.shared.safe import faults_of


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
    assert (
        is_inside("~/models", inside)
        and is_inside(home / "models" / "new", inside)
        and is_inside("models", inside)
    )
    for path in (
        "~/.ssh/key",
        "/etc/passwd",
        home / "out" / "file.txt",
        home / ".." / "outside",
        "a\0b",
        "~nobody/x",
    ):
        assert not is_inside(path, inside), path
    ours = (
        roots.default_root() / "uploads" / "x.csv",
        roots.PROJECT / "assets",
        "~/.cache/huggingface/hub/models--x",
    )
    assert all(is_inside(path, inside) for path in ours)
    assert len(inside) == len(set(inside))


def test_a_request_that_names_other_files_is_refused_with_all_of_them(home, tmp_path):
    sound = {
        "model": "gpt2",
        "prompts": "embedded",
        "corpus": str(home / "models"),
        "seeds": 3,
        "axes": ["no/such"],
    }
    refuse_outside(sound)
    with pytest.raises(RequestError) as caught:
        refuse_outside(
            {
                **sound,
                "model": "/etc",
                "data": {"path": str(tmp_path / "outside")},
                "files": ["~/.ssh/key"],
            }
        )
    assert [fault.where for fault in caught.value.faults] == ["model", "data", "files"]


@pytest.mark.parametrize("there", ["/etc/passwd", "~/.ssh/key", "models/../../outside"])
def test_whether_something_is_there_is_not_told(home, there):
    def said(path):
        with pytest.raises(RequestError) as caught:
            refuse_outside({"model": path})
        return str(caught.value).replace(path, "")

    assert said(there) == said(f"{there}-that-is-not-there")


def test_a_path_behind_a_name_and_one_that_is_asked_in_place_are_refused_too(home, tmp_path):
    with pytest.raises(RequestError, match="may not be read from a page"):
        refuse_outside({"benchmarks": [f"bbq={tmp_path / 'outside' / 'file.txt'}"]})
    with pytest.raises(RequestError, match="benchmarks"):
        jobs.asked("measure", {"benchmarks": ["bbq=~/.ssh/key"]}, None)


def test_published_scores_are_read_below_the_roots_only(home, tmp_path):
    (tmp_path / "outside" / "scores.csv").write_text("secret")
    (home / "models" / "scores.csv").write_text("mine")
    (home / "models" / "link.csv").symlink_to(tmp_path / "outside" / "scores.csv")
    with pytest.raises(RequestError, match="may not be read from a page"):
        published._paths([], str(tmp_path / "outside"))
    assert published._paths([], "~/models") == [home / "models" / "scores.csv"]


def test_a_form_offers_no_columns_of_a_file_outside(home, tmp_path):
    one = form._Form(next(iter(tracks())), form.FULL)
    one.usual = {"data": "embedded"}
    one.asked = {
        "model": "/etc",
        "data": str(tmp_path / "outside" / "file.txt"),
        "corpus": str(home / "models"),
    }
    assert one._values == {"model": "", "data": "embedded", "corpus": str(home / "models")}


def test_roots_can_be_named(home, tmp_path, monkeypatch):
    monkeypatch.setenv(roots.READ, f"{tmp_path / 'outside'}{os.pathsep}~/models")
    assert is_inside(home / "out" / "file.txt", roots.readable()) and not is_inside(
        "~/else", roots.readable()
    )
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


def test_uploads_stay_in_the_store(home, tmp_path):
    upload = Upload(b"prompt,axis,subgroup\n", "../../etc/pass wd.csv")
    path = roots.kept(upload)
    assert path.resolve().is_relative_to(tmp_path / "store" / "uploads")
    assert path.read_bytes() == upload.content and path == roots.kept(upload)


def test_a_fault_names_an_upload_and_not_where_it_is_kept(home):
    path = roots.kept(Upload(b"x"))
    told = faults_of(RequestError(Fault(str(path), f"{str(path)!r} is wrong.", "Mend it.")))
    assert told == ["a.csv: 'a.csv' is wrong. Mend it."]


def test_uploads_have_a_quota_and_end(home, monkeypatch):
    monkeypatch.setattr(roots, "QUOTA", 10)
    first = roots.kept(Upload(b"12345"))
    assert roots.kept(Upload(b"12345")) == first
    with pytest.raises(RequestError, match="uploads take"):
        roots.kept(Upload(b"678901"))
    assert first.exists()
    os.utime(first, (0, 0))
    second = roots.kept(Upload(b"678901"))
    assert second.exists() and not first.exists()
