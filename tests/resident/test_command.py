"""The command `engine`: what it says of an engine that runs, of none, and of the jobs in line."""

from engine.audit import jobs
from engine.audit.jobs import JobState
from engine.cli import main
from engine.core.files import locked
from engine.resident.client import ask
from tests.builders import call


def told(capsys, store, *words):
    code, found = call(capsys, "engine", *words, "--store", store.root, "--json")
    assert code == 0
    return found


def test_without_an_engine_it_says_so_and_starts_none(engines, store, capsys):
    assert told(capsys, store, "status") == {
        "running": False,
        "store": str(store.root),
        "jobs": [],
    }
    assert told(capsys, store, "stop") == {"stopped": False}
    assert main(["engine", "status", "--store", str(store.root)]) == 0
    assert "The next question starts one." in capsys.readouterr().out


def test_started_seen_and_stopped(processes, store, capsys):
    began = told(capsys, store, "start")
    assert began["running"] and began["pid"] == processes[0].pid and began["loaded"] == []
    ask("echo", {}, store)
    folder = store.jobs_folder / "job-a"
    folder.mkdir(parents=True)
    with locked(folder / "lock", lambda: None):
        jobs._write(
            folder, JobState("job-a", "An audit", "running", started=jobs._now(), device="cpu")
        )
        assert main(["engine", "status", "--store", str(store.root)]) == 0
        said = capsys.readouterr().out
        assert (
            f"Engine {processes[0].pid} for" in said
            and "\n  model: 0 MB, for " in said
            and "used by 0 later questions" in said
            and "running: An audit" in said
        )
    assert told(capsys, store, "stop") == {"stopped": True} and processes[0].wait(30) == 0


def test_switched_off_this_process_answers_and_what_is_sent_is_the_same(
    engines, store, monkeypatch
):
    from tests.resident.fakes import known

    monkeypatch.setenv("PRUNEAUDIT_ENGINE", "off")
    monkeypatch.setattr("engine.resident.asks.asks", known)
    found = ask("echo", {"pair": (1, 2)}, store)
    assert found["given"] == {"pair": [1, 2]} and list(engines.iterdir()) == []
