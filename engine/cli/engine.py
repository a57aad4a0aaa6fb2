"""engine: the background process that keeps models loaded; what it does, stop it, start it."""

from __future__ import annotations

import argparse
import time
from typing import Any

from engine.audit.command_line import command, store_of
from engine.core import words
from engine.core.types import Values
from engine.report import phrasing


def add(commands: Any) -> None:
    parser = commands.add_parser("engine", help="the background process that keeps models loaded")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, run, about in (
        ("status", status, "what it keeps loaded, answers and runs"),
        ("stop", stop, "end it; audits that run go on"),
        ("start", start, "start it before the first question"),
    ):
        action = actions.add_parser(name, help=about)
        command(action, run)


def status(args: argparse.Namespace) -> tuple[Values, str]:
    """What the engine of the store does, and the jobs of the store that run or wait."""
    from engine.resident import client

    return _shown(args, client.status(store_of(args)))


def start(args: argparse.Namespace) -> tuple[Values, str]:
    """Have an engine run; its status."""
    from engine.resident import client

    return _shown(args, client.start(store_of(args)))


def stop(args: argparse.Namespace) -> tuple[Values, str]:
    """End the engine. Jobs that wait do so until the next one starts."""
    from engine.resident import client

    stopped = client.stop(store_of(args))
    return {"stopped": stopped}, (
        "The engine has ended." if stopped else "No engine runs for this store."
    )


def _shown(args: argparse.Namespace, found: Values) -> tuple[dict[str, Any], str]:
    from engine.audit.jobs import list_jobs

    moving = [
        job for job in reversed(list_jobs(store_of(args))) if job.status in ("running", "queued")
    ]
    jobs = [
        {"job": job.job_id, "title": job.title, "status": job.status, "device": job.device}
        for job in moving
    ]
    return {**found, "jobs": jobs}, "\n".join(
        [*told(found), *(f"{job.status}: {job.title}" for job in moving)]
    )


def told(found: Values) -> list[str]:
    """An engine's status in lines: what is loaded, on what, since when, how often it was of use."""
    if not found["running"]:
        return [f"No engine runs for {found['store']}. The next question starts one."]
    memory = found["memory"]
    return [
        f"Engine {found['pid']} for {found['store']}, up {words.duration(found['uptime'])}"
        + (
            ""
            if found["current"]
            else "; it runs older code than what is on disk, so the next question replaces it"
        ),
        f"Loaded: {memory['used'] / 2**20:.0f} of {memory['budget'] / 2**20:.0f} MB"
        + "".join(f"\n  {_one(kept)}" for kept in found["kept"]),
        *(f"Answering: {one['question']} on {one['device']}" for one in found["answering"]),
        *(f"Waiting: {one['question']} for {one['device']}" for one in found["waiting"]),
        f"Log: {found['log']}",
    ]


def _one(kept: Values) -> str:
    where = f" on {kept['device']}" if kept["device"] else ""
    age = words.duration(time.time() - kept["since"])
    return (
        f"{kept['name']}{where}: {kept['bytes'] / 2**20:.0f} MB, for {age}, used by"
        f" {phrasing.count(kept['hits'], 'later question')}"
    )
