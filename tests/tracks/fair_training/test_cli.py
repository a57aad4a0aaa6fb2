"""The command line of fair training: exit codes, JSON, resuming, and bad input that writes
nothing."""

import pytest

from engine.audit.jobs import _prepare, job_id_of
from engine.cli import parser
from engine.cli.audit import request_of_words
from engine.core.errors import RequestError
from engine.store.runs import Store
from engine.tracks.fair_training.request import FairRequest, shares_of
from tests.tracks.fair_training.worlds import fair_request


def asked(*words: str) -> FairRequest:
    return request_of_words(parser().parse_args(["fairtrain", *words]))


def of_demo(words: str) -> FairRequest:
    return asked("--model", "demo-resnet", *words.split())


def test_names_and_shares_are_separated_by_commas_and_groups_may_cross():
    found = of_demo("--group male+skin --axis skin --method pf,fp")
    assert (found.axes, found.methods) == (("male+skin", "skin"), ("pf", "fp"))
    found = of_demo("--sparsity k3 --train default --tradeoff 0,1.5")
    assert (found.sparsities, found.train) == ((0.488,), {})
    assert found.tradeoff_strengths == (0.0, 1.5)


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
    job = job_id_of(fair_request())
    (_prepare(Store(tmp_path), job, fair_request()) / "request.json").write_text(text)
    with pytest.raises(RequestError, match="request"):
        asked("--resume", job, "--store", str(tmp_path))


def test_a_job_of_another_track_is_not_resumed_here(tmp_path):
    other = pytest.importorskip("tests.tracks.image_classifiers.worlds").image_request()
    job = job_id_of(other)
    _prepare(Store(tmp_path), job, other)
    with pytest.raises(RequestError, match="is no audit of fair training"):
        asked("--resume", job, "--store", str(tmp_path))
