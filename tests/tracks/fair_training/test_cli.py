"""The command line of fair training: exit codes, JSON, resuming, and bad input that writes
nothing."""

from __future__ import annotations

import json

import pytest

from engine.cli import main, parser
from engine.cli.audit import request_of_words
from engine.core.errors import RequestError
from engine.tracks.fair_training.request import FairRequest, shares_of
from tests.builders import instead
from tests.classifiers.worlds import SMALL

TINY = [
    "fairtrain",
    "--model",
    SMALL,
    "--data",
    "avatars",
    "--target",
    "blond",
    "--group",
    "skin",
    "--sparsity",
    "k3",
    "--method",
    "pf,snip",
    "--set",
    "snip.batches=1",
    "--seeds",
    "1",
    "--iterations",
    "3",
    "--check-every",
    "3",
    "--recipe",
    "batch=16",
    "--train",
    "epochs=1",
    "--train",
    "batch=32",
    "--max-images",
    "100",
    "--device",
    "cpu",
    "--json",
]


def asked(*words: str) -> FairRequest:
    return request_of_words(parser().parse_args(["fairtrain", *words]))


def faults_of(capsys) -> dict[str, str]:
    return {
        fault["where"]: fault["what"] for fault in json.loads(capsys.readouterr().out)["faults"]
    }


def test_fairtrain_end_to_end(tmp_path, capsys):
    assert main([*TINY, "--store", str(tmp_path)]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["track"] == "fair_training" and {row["variant"] for row in found["results"]} == {
        "dense",
        "pf-48.8%",
        "snip-48.8%",
    }
    assert "load: " in said.err  # progress; a line every few seconds where it is no terminal
    assert main(["runs", "verify", found["run"], "--store", str(tmp_path)]) == 0
    assert main(["runs", "show", found["run"], "--store", str(tmp_path)]) == 0
    assert "iterations until a validation gap" in capsys.readouterr().out
    (job,) = [path.name for path in (tmp_path / "jobs").iterdir()]
    assert main(["fairtrain", "--resume", job, "--store", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == found["run"]
    assert (
        main(
            [
                "fairtrain",
                "--resume",
                job,
                "--lambda",
                "3",
                "--iterations",
                "3",
                "--seeds",
                "2",
                "--method",
                "pf",
                "--store",
                str(tmp_path),
                "--json",
            ]
        )
        == 2
    )
    wrong = faults_of(capsys)
    assert (
        set(wrong) == {"strength", "seeds", "methods"}
        and "was begun with 1.0, not 3.0" in wrong["strength"]
    )


def test_the_words_of_the_issue_are_a_request():
    found = asked(
        "--model",
        "demo-resnet",
        "--data",
        "avatars",
        "--target",
        "blond",
        "--group",
        "male",
        "--sparsity",
        "0.488,0.672,0.832",
        "--method",
        "bifp-str,snip,fpgm,lottery,pf,fp",
        "--seeds",
        "3",
    )
    assert found == FairRequest(
        "demo-resnet",
        "avatars",
        ("male",),
        target="blond",
        methods=("bifp-str", "snip", "fpgm", "lottery", "pf", "fp"),
    )


def test_every_option_reaches_its_field():
    found = asked(
        "--model",
        "demo-resnet",
        "--group",
        "male+skin",
        "--axis",
        "skin",
        "--lambda",
        "2",
        "--tau",
        "0.1",
        "--notion",
        "degradation",
        "--iterations",
        "7",
        "--check-every",
        "2",
        "--seed",
        "4",
        "--tradeoff",
        "0,1.5",
        "--tradeoff-sparsity",
        "0.6",
        "--tradeoff-method",
        "pf,fp",
        "--surface",
        "--fair-gap",
        "0.03",
        "--within",
        "0.01",
        "--tune-on",
        "validation",
        "--weights",
        "imagenet",
        "--classes",
        "a,b",
        "--size",
        "48",
        "--max-images",
        "50",
        "--change",
        "underrepresent:removed=0.5",
        "--train",
        "default",
        "--no-mirror",
        "--keep-weights",
        "all",
        "--restart",
        "--device",
        "cpu",
        "--title",
        "t",
        "--set",
        "pf.sharpness=2",
        "--recipe",
        "rate=0.1",
    )
    assert found == FairRequest(
        "demo-resnet",
        "avatars",
        ("male+skin", "skin"),
        strength=2.0,
        tolerance=0.1,
        notion="degradation",
        iterations=7,
        check_every=2,
        first_seed=4,
        tradeoff_strengths=(0.0, 1.5),
        tradeoff_sparsity=0.6,
        tradeoff_methods=("pf", "fp"),
        surface=True,
        fair_gap=0.03,
        within=0.01,
        tune_on="validation",
        weights="imagenet",
        classes=("a", "b"),
        size=48,
        max_images=50,
        train={},
        mirror=False,
        keep_weights="all",
        changes=({"name": "underrepresent", "removed": 0.5},),
        restart=True,
        device="cpu",
        title="t",
        method_settings={"pf": {"sharpness": 2}},
        recipe={"rate": 0.1},
    )


def test_what_is_not_said_is_left_to_the_request():
    assert asked("--model", "demo-resnet") == FairRequest(
        "demo-resnet", "avatars", ("male", "skin")
    )


def test_shares_may_be_steps_of_the_lottery_tickets_schedule():
    faults: list = []
    assert shares_of("s", "k3, k5,K8,0.5", faults) == (0.5, 0.488, 0.672, 0.832) and not faults
    shares_of("s", "kx", faults)
    assert "'kx' is not a list of numbers" in faults[0].what


def test_steps_that_cut_nothing_or_everything_are_faults():
    faults: list = []
    assert shares_of("s", "k34,k1", faults) == (0.999, 0.2) and not faults
    assert shares_of("s", "k0,k35,k40,k3,k" + "9" * 5000, faults) == (0.488,) and len(faults) == 4
    assert "'k40' cuts nothing or everything" in faults[2].what and "k1 to k34" in faults[2].fix
    faults.clear()
    assert shares_of("s", "k²", faults) == () and "'k²' is not a list of numbers" in faults[0].what


@pytest.mark.parametrize(
    "text",
    [
        "{cut short",
        "[1]",
        "null",
        '{"track": "fair_training"}',
        '{"track": "fair_training", "what": 1}',
    ],
)
def test_a_job_whose_request_is_damaged_is_a_wrong_request(text, tmp_path):
    from engine.audit.jobs import _prepare, job_id_of
    from engine.store.runs import Store
    from tests.tracks.fair_training.worlds import fair_request

    job = job_id_of(fair_request())
    (_prepare(Store(tmp_path), job, fair_request()) / "request.json").write_text(text)
    with pytest.raises(RequestError, match="request"):
        asked("--resume", job, "--store", str(tmp_path))


def test_faults_are_named_together_and_nothing_is_written(tmp_path, capsys):
    store = tmp_path / "store"
    wrong = [
        "--method",
        "magic",
        "--lambda",
        "-1",
        "--set",
        "pf.x=1",
        "--recipe",
        "epochs=3",
        "--group",
        "age",
    ]
    assert main(instead(TINY, "--store", str(store), *wrong, "--sparsity", "1.5")) == 2
    found = faults_of(capsys)
    assert {"method", "λ (strength)", "setting of pf", "recipe", "sparsity"} <= set(
        found
    ) and not store.exists()
    assert any("age" in what for what in found.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume", "job-0000000000000000"], "is not in the store"),
        ([], "is missing"),
        (["--model", "demo-resnet", "--sparsity", "half"], "not a list of numbers"),
        (["--model", "demo-resnet", "--set", "sharpness=2"], "names no method"),
        (["--model", "demo-resnet", "--recipe", "fast"], "is no NAME=VALUE"),
    ],
)
def test_words_that_cannot_be_read_are_a_wrong_request(words, said, tmp_path):
    with pytest.raises(RequestError, match=said):
        asked(*words, "--store", str(tmp_path))


def test_a_job_of_another_track_is_not_resumed_here(tmp_path):
    from engine.audit.jobs import _prepare, job_id_of
    from engine.store.runs import Store

    other = pytest.importorskip("tests.tracks.image_classifiers.worlds").image_request()
    job = job_id_of(other)
    _prepare(Store(tmp_path), job, other)
    with pytest.raises(RequestError, match="is no audit of fair training"):
        asked("--resume", job, "--store", str(tmp_path))
