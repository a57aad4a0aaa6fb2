"""Check a request and start its audit as a job: what loads torch and would slow every page, done
where it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.audit import jobs
from engine.audit.ray_executor import address_faults
from engine.audit.tracks import request_from
from engine.core import memory
from engine.core.errors import Fault, RequestError
from engine.core.types import Hooks
from engine.resident.asks import Ask
from engine.resident.warm import Warm
from engine.store.runs import Store


class Start(Ask):
    """given: `request`, the JSON form of one, or `job_id` of a job to go on with; `start`: false
    only checks; `ray`: address of the cluster that shall compute it, where one shall; `memory`:
    what it may take, like "4G".

    The answer has `job_id`, "" where nothing was started.
    """

    name = "start"

    def answer(
        self, given: Mapping[str, Any], warm: Warm, hooks: Hooks, store: Store
    ) -> dict[str, Any]:
        request = self._request(given, store)
        hooks.check()
        address, allowed = given.get("ray"), given.get("memory")
        jobs.check(
            request,
            store,
            address_faults(address, "address of the cluster") + _memory_faults(allowed),
        )
        hooks.check()
        return {
            "job_id": (
                jobs.submit(request, store, address, allowed) if given.get("start", True) else ""
            )
        }

    def _request(self, given: Mapping[str, Any], store: Store) -> Any:
        if "job_id" not in given:
            if not isinstance(given.get("request"), Mapping):
                raise RequestError(
                    Fault("request", "is missing.", "Give a request, or the id of a job.")
                )
            return request_from(given["request"])
        try:
            return jobs.job_request(store, str(given["job_id"]))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            what = f"{given['job_id']!r} cannot be read from the store."
            raise RequestError(Fault("job", what, "Look at the list of jobs.")) from error


def _memory_faults(allowed: Any) -> list[Fault]:
    """What is wrong with the memory that an audit may take."""
    try:
        if allowed:
            memory.amount(str(allowed), "memory")
    except RequestError as error:
        return list(error.faults)
    return []
