"""The command line on image classifiers: exit codes, JSON, and options of the wrong track."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import main
from tests.builders import instead
from tests.classifiers.worlds import SMALL

TINY = [
    "--model",
    SMALL,
    "--data",
    "digits",
    "--size",
    "16",
    "--axis",
    "class",
    "--speedup",
    "2",
    "--trials",
    "1",
    "--train",
    "epochs=1",
    "--train",
    "batch=64",
    "--retrain",
    "epochs=1",
    "--max-images",
    "120",
    "--device",
    "cpu",
]


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.strip().startswith(("{", "[")) else out


@pytest.fixture
def where(tmp_path):
    return ["--store", tmp_path / "store", "--json"]


def test_audit_list_show_verify(capsys, tmp_path, where):
    words = [
        *TINY,
        "--method",
        "random",
        "--method",
        "magnitude+pw",
        "--multi-class",
        "ovr",
        "--retrain",
        "patience=1",
    ]
    code, done = call(capsys, "audit", *words, *where)
    assert code == 0, done
    assert done["request"]["multi_class"] == "ovr" and done["request"]["retrain"]["patience"] == 1
    assert {row["method"] for row in done["results"]} == {"dense", "random", "magnitude+pw"}
    assert done["request"]["speedups"] == [2.0] and done["model"]["architecture"] == SMALL
    assert [run["id"] for run in call(capsys, "runs", "list", *where)[1]] == [done["run"]]
    assert call(capsys, "runs", "show", done["run"], *where)[1]["results"] == done["results"]
    assert call(capsys, "runs", "verify", done["run"], *where)[1]["ok"]
    code, again = call(capsys, "audit", *words, *where)
    assert code == 0 and again["run"] == done["run"]
    code, said = call(capsys, "runs", "show", done["run"], "--store", tmp_path / "store")
    assert code == 0 and "magnitude+pw-2x" in said


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--gamma", "0.5"], "--gamma"),
        (["--judge", "demo-judge2"], "--judge"),
        (["--plain-case"], "--plain-case"),
        (["--sparsity", "0.1"], "--sparsity"),
        (["--method", "magic"], "Known: autobot"),
        (["--method", "random+wp"], "labels@prune"),
        (["--speedup", "two"], "list of numbers"),
        (["--speedup", "1"], "Give numbers above 1, such as"),
        (["--speedup", "1000"], "out of reach"),
        (["--trials", "0"], "trials"),
        (["--axis", "age"], "class"),
        (["--data", "/no/such"], "/no/such"),
        (["--set", "iterations=5"], "autobot.iterations=100"),
        (["--set", "autobot.iterations=x"], "'x' is not allowed"),
        (["--set", "autobot"], "NAME=VALUE"),
        (["--set", "taylor.momentum=2"], "Give a number from 0 to 0.999."),
        (["--set", "taylor.reading=never"], "Give one of training, cut."),
        (["--multi-class", "ovx"], "ovo"),
        (["--retrain", "patience=-1"], "retrain patience"),
        (["--size", "8"], "do not fit"),
        (["--pw", "autobot:theta=2"], "PW loss of autobot, theta"),
        (["--pw", "magic:theta=0.5"], "magic"),
        (["--retrain", "epoch=3"], "'epoch' is not known"),
        (["--retrain", "rate=high"], "retrain rate"),
        (["--change", "blur"], "'blur' is not known"),
        (["--change", "underrepresent:share=1"], "'share' is not known"),
        (["--weights", "/no/such.pt"], "/no/such.pt"),
        (["--keep-weights", "some"], "first"),
        (["--device", "tpu"], "cuda"),
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
        ["--retrain", "epochs=1"],
        ["--loss-share", "5"],
        ["--no-mirror"],
        ["--target", "blond"],
        ["--max-images", "50"],
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


def test_words_become_the_request(capsys):
    from engine.cli import parser
    from engine.cli.audit import request_of_words

    args = parser().parse_args(
        [
            "audit",
            "--model",
            SMALL,
            "--data",
            "digits",
            "--axis",
            "class",
            "--axis",
            "class",
            "--speedup",
            "2x,4",
            "--set",
            "autobot.iterations=50",
            "--set",
            "taylor.normalise=true",
            "--pw",
            "autobot:theta=0.3,gamma=2",
            "--change",
            "underrepresent:classes=3/5,removed=0.5",
            "--train",
            "default",
            "--no-mirror",
            "--seed",
            "4",
            "--retrain",
            "schedule=steps",
            "--retrain",
            "steps=[1, 2]",
        ]
    )
    request = request_of_words(args)
    assert request.axes == ("class",) and request.speedups == (2.0, 4.0) and request.first_seed == 4
    assert request.method_settings == {"autobot": {"iterations": 50}, "taylor": {"normalise": True}}
    assert request.pw == {"autobot": {"theta": 0.3, "gamma": 2}} and not request.mirror
    assert request.changes == ({"name": "underrepresent", "classes": ["3", "5"], "removed": 0.5},)
    assert request.train == {} and request.settings().retrain.steps == (1, 2)


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
