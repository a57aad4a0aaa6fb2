"""The command line on image classifiers: exit codes, JSON, and options of the wrong track."""

from pathlib import Path

from tests.classifiers.worlds import SMALL


def test_the_demo_model_and_its_images_need_no_words(capsys):
    from engine.cli import parser
    from engine.cli.audit import request_of_words, track_of_words

    args = parser().parse_args(["audit", "--model", "demo-resnet"])
    assert track_of_words(args).name == "image_classifiers"
    request = request_of_words(args)
    assert (request.model, request.data, request.axes) == (
        "demo-resnet",
        "avatars",
        ("male", "skin"),
    )
    args = parser().parse_args(["audit", "--model", "demo-gpt2"])
    assert track_of_words(args).name == "language_models"


def test_a_path_is_made_absolute_and_a_name_stays(monkeypatch, tmp_path):
    from engine.audit.command_line import absolute

    monkeypatch.chdir(tmp_path)
    Path("avatars").mkdir()
    Path("mine.csv").write_text("x")
    assert absolute("avatars") == "avatars" and absolute("./avatars") == str(tmp_path / "avatars")
    assert absolute("mine.csv") == str(tmp_path / "mine.csv") and absolute("resnet18") == "resnet18"


def test_words_become_the_request():
    from engine.cli import parser
    from engine.cli.audit import request_of_words

    words = (
        f"audit --model {SMALL} --data digits --axis class --axis class --speedup 2x,4 --train"
        " default --pw autobot:theta=0.3,gamma=2 --change underrepresent:classes=3/5,removed=0.5"
    )
    request = request_of_words(parser().parse_args(words.split()))
    assert request.axes == ("class",) and request.speedups == (2.0, 4.0) and request.train == {}
    assert request.pw == {"autobot": {"theta": 0.3, "gamma": 2}}
    assert request.changes == ({"name": "underrepresent", "classes": ["3", "5"], "removed": 0.5},)
