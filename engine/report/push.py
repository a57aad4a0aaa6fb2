"""Put a cut model with its card on the Hugging Face hub. Nothing else here sends anything, and this only when asked."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, PruneAuditError, RequestError
from engine.models import runtime  # before huggingface_hub: a missing network must be a quick, clear error
from engine.report.bundle import export_run
from engine.store.runs import Run

_OWN_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_UNTOUCHED = {".gitattributes"}  # what the hub itself puts into a new repository
TOKEN = "HF_TOKEN"


@dataclass(frozen=True)
class Upload:
    """What would be sent: path below the repository's root and bytes of every file."""

    name: str
    private: bool
    files: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in self.files)


def push_checkpoint(
    run: Run,
    name: str,
    agreed: Callable[[Upload], bool],
    variant: str | None = None,
    base: str | None = None,
    private: bool = True,
) -> str | None:
    """Send the checkpoint of a variant to the new or empty repository `name` (OWNER/NAME) and return its address.

    `agreed` hears what would be sent and decides; None where it declines, and then nothing was sent. The token is the
    reader's own (HF_TOKEN, or where `hf auth login` keeps it), and is written nowhere. variant, base: as for
    `export_run`, whose errors are raised too. RequestError for a wrong name, no token, a repository that holds
    something or is closed to the token; PruneAuditError where the hub gives no answer.
    """
    token = _token()
    faults = [] if _OWN_NAME.fullmatch(name) else [Fault("push", f"{name!r} is no OWNER/NAME.", "Name both.")]
    if token is None:
        faults.append(Fault("push", "there is no token for the hub.", f"Set {TOKEN}, or log in with `hf auth login`."))
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        faults.append(Fault("push", "HF_HUB_OFFLINE is set: nothing may be sent.", "Unset it to send."))
    if faults:
        raise RequestError(faults)
    with tempfile.TemporaryDirectory(prefix="pruneaudit-push-") as place:
        export_run(run, Path(place), ("checkpoint",), variant=variant, base=base)
        folder = next((Path(place) / "checkpoint").iterdir())
        _head_of_card(run, folder / "README.md")
        upload = Upload(name, private, _files(folder))
        return _sent(upload, folder, token) if agreed(upload) else None


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()


def _files(folder: Path) -> tuple[tuple[str, int], ...]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple((path.relative_to(folder).as_posix(), path.stat().st_size) for path in inside)


def _head_of_card(run: Run, card: Path) -> None:
    """The hub reads what a model is from the first lines of its card; the base is named where it came from the hub."""
    model = run.meta.get("model", {})
    is_published = bool(model.get("revision")) and _OWN_NAME.fullmatch(str(model.get("name", "")))
    base = [f"base_model: {model['name']}"] if is_published else []
    library = ["library_name: transformers"] if any(card.parent.rglob("config.json")) else []
    head = ["---", *library, "tags: [pruned, pruneaudit]", *base, "---", "", ""]
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    card.write_text("\n".join(head) + text, encoding="utf-8")


def _sent(upload: Upload, folder: Path, token: str) -> str:
    """Send one commit: all files or none."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import HfHubHTTPError

    hub, made = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token), ""
    try:
        made = _made(hub, upload)
        found = hub.model_info(upload.name, timeout=8)
        if held := {item.rfilename for item in found.siblings or []} - _UNTOUCHED:
            what = f"{upload.name} holds {len(held)} files already, {min(held)} first; they are left as they are."
            raise RequestError(Fault("push", what, "Name a repository that is new or empty."))
        if bool(found.private) != upload.private:
            is_now = "private" if found.private else "public"
            what = f"{upload.name} is there already and is {is_now}, which is not what was asked."
            raise RequestError(Fault("push", what, "Ask for what it is, or name another repository."))
        sent = hub.upload_folder(repo_id=upload.name, folder_path=folder, commit_message="Cut with PruneAudit")
    except HfHubHTTPError as error:
        raise _refused(upload.name, error, made) from error
    except OSError as error:
        raise _no_answer(error, made) from error
    except Exception as error:  # the hub's client lets errors of several network libraries through
        if isinstance(error, PruneAuditError) or runtime.is_out_of_memory(error):
            raise
        raise _no_answer(error, made) from error
    return str(sent.repo_url)


def _made(hub: Any, upload: Upload) -> str:
    """Make the repository where there is none; what to say of it should nothing arrive, "" of one that was there."""
    from huggingface_hub.utils import HfHubHTTPError

    try:
        hub.create_repo(upload.name, private=upload.private)
    except HfHubHTTPError:
        hub.create_repo(upload.name, private=upload.private, exist_ok=True)  # raises where it is not there either
        return ""
    return f" The repository {upload.name} was made and is empty: it can be deleted there, or pushed to again."


def _refused(name: str, error: Exception, made: str) -> PruneAuditError:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403, 404):
        what = f"the hub does not let this token write to {name} (HTTP {status})."
        return RequestError(Fault("push", what, f"Use a token that may write there, or another OWNER.{made}"))
    return _no_answer(error, made)


def _no_answer(error: Exception, made: str) -> PruneAuditError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return PruneAuditError(f"The hub did not take it ({type(error).__name__}: {first}). Nothing was published.{made}")
