"""The command line on image classifiers: exit codes, JSON, and options of the wrong track."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import main
from tests.builders import instead
from tests.classifiers.worlds import SMALL

TINY = f"--model {SMALL} --data digits --size 16 --axis class --train epochs=1 --device cpu".split()


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.strip().startswith(("{", "[")) else out


@pytest.fixture
def where(tmp_path):
    return ["--store", tmp_path / "store", "--json"]


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--gamma", "0.5"], "--gamma"),
        (["--method", "random+wp"], "labels@prune"),
        (["--set", "iterations=5"], "autobot.iterations=100"),
        (["--set", "taylor.momentum=2"], "Give a number from 0 to 0.999."),
        (["--pw", "autobot:theta=2"], "PW loss of autobot, theta"),
        (["--change", "blur"], "'blur' is not known"),
        (["--weights", "/no/such.pt"], "/no/such.pt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_requests_exit_with_2_and_write_nothing(
    capsys, tmp_path, monkeypatch, where, extra, said
):
    monkeypatch.setattr(
        "engine.audit.jobs.run_job", None
    )  # a request that slips through shall not run for minutes
    code, out = call(capsys, "audit", *instead(TINY, *extra), *where)
    assert code == 2 and said in json.dumps(out, ensure_ascii=False), out
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "extra",
    [
        ["--trials", "5"],
        ["--no-mirror"],
    ],
    ids=" ".join,
)
def test_options_of_images_are_refused_for_language_models(
    capsys, tmp_path, monkeypatch, where, extra
):
    monkeypatch.setattr("engine.audit.jobs.run_job", None)
    code, out = call(capsys, "audit", "--model", "demo-gpt2", "--axis", "religion", *extra, *where)
    assert code == 2 and {fault["where"] for fault in out["faults"]} == {extra[0]}
    assert not (tmp_path / "store").exists()


def test_faults_of_words_are_told_together(capsys, where):
    code, out = call(
        capsys,
        "audit",
        *instead(TINY, "--gamma", "0.5", "--speedup", "x", "--set", "a=1", "--pw", "b"),
        *where,
    )
    assert code == 2 and {fault["where"] for fault in out["faults"]} == {
        "--gamma",
        "--speedup",
        "--set",
        "--pw",
    }


def test_an_option_of_another_track_hides_no_other_fault(capsys, where):
    code, out = call(
        capsys,
        "audit",
        *instead(TINY, "--gamma", "0.5", "--trials", "0", "--method", "magic"),
        *where,
    )
    assert code == 2 and {fault["where"] for fault in out["faults"]} == {
        "--gamma",
        "trials",
        "method",
    }


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["celeba"], "avatars"),
        (["celeba", "--quick", "--speedup", "x"], "list of numbers"),
        (["celeba", "--quick", "--trials", "0"], "--trials"),
        (["celeba", "--quick", "--model", "resnet99"], "resnet99"),
        (["celeba", "--quick", "--speedup", "100000"], "out of reach"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_experiment_exits_with_2_and_writes_nothing(
    capsys, tmp_path, monkeypatch, where, words, said
):
    monkeypatch.setattr("engine.audit.jobs.run_job", None)
    code, out = call(capsys, "experiment", *words, *where)
    assert code == 2 and said in json.dumps(out, ensure_ascii=False)
    assert not (tmp_path / "store").exists()


def test_evaluate_refuses_what_only_a_classifier_of_texts_reads(capsys):
    asked = ["evaluate", "--model", "demo-resnet", "--text", "words", "--max-length", "8", "--json"]
    pytest.importorskip("engine.tracks.text_classifiers")
    assert main(asked) == 2
    assert {fault["where"] for fault in json.loads(capsys.readouterr().out)["faults"]} == {
        "--text",
        "--max-length",
    }


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
