"""Writes requirements*.lock anew: every pinned package with the SHA-256 of its files: `python -m assets.build.lock`.

`make` installs by them (pip --require-hashes), so that a package that was exchanged on its way is refused. Hashes are
those that PyPI states for wheels of every platform, of the source archive where there is no wheel. It asks pypi.org.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INDEX = "https://pypi.org/simple/{name}/"
PINNED = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)\s*\Z")
ELSEWHERE: Mapping[str, Sequence[str]] = {
    # torch 2.13.0+cpu for Python 3.11 on Linux (x86-64), from download.pytorch.org/whl/cpu, which PyPI does not list
    "torch==2.13.0": ("6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",),
}
"""Hashes of builds that are on other indexes."""


def pins(path: Path) -> list[tuple[str, str]]:
    """(name, version) of every line of a requirements file. ValueError for one that pins nothing."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    found = [(line, PINNED.match(line)) for line in lines if line]
    if loose := [line for line, match in found if match is None]:
        raise ValueError(f"{path.name} pins no version in: {', '.join(loose)}")
    return [(match[1], match[2]) for _, match in found if match]


def hashes_of(name: str, version: str, files: Sequence[Mapping[str, Any]]) -> list[str]:
    """SHA-256 of the files of one version among all files of a project, as the index lists them."""
    mine = [file for file in files if (_plain(name), version) == _named_in(file["filename"])]
    wheels = [file for file in mine if file["filename"].endswith(".whl")]
    found = {file["hashes"]["sha256"] for file in wheels or mine if not file.get("yanked")}
    found |= set(ELSEWHERE.get(f"{name}=={version}", ()))
    if not found:
        raise ValueError(f"{name} {version} has no file on the index.")
    return sorted(found)


def _named_in(filename: str) -> tuple[str, str]:
    """Project and version that a wheel or source archive is of."""
    if filename.endswith(".whl"):
        name, version = filename.split("-")[:2]
    else:
        name, _, version = re.sub(r"\.(tar\.gz|zip|tar\.bz2)\Z", "", filename).rpartition("-")
    return _plain(name), version


def _plain(name: str) -> str:
    """A project's name in its one form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(name: str) -> list[dict[str, Any]]:
    asked = urllib.request.Request(
        INDEX.format(name=_plain(name)),
        headers={"Accept": "application/vnd.pypi.simple.v1+json"},
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)["files"]


def lock(path: Path) -> Path:
    """Write the lock of a requirements file beside it."""
    lines = [f"# Written by `make lock` from {path.name}. Not edited by hand."]
    for name, version in pins(path):
        told = " \\\n".join(f"    --hash=sha256:{one}" for one in hashes_of(name, version, _files(name)))
        lines.append(f"{name}=={version} \\\n{told}")
    target = path.with_suffix(".lock")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def strangers(report: Mapping[str, Any], locked: str) -> list[str]:
    """Packages of a report of pip (`pip install --report`) whose hash is not in the lock."""
    found = []
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"].split("+")[0]
        digest = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", "none")
        block = locked.partition(f"\n{name}=={version} ")[2].split("\n\n")[0].partition("==")[0]
        if digest not in re.findall(r"--hash=sha256:(\S+)", block):
            found.append(f"{name} {item['metadata']['version']} ({digest})")
    return found


def check(report: Path) -> None:
    """End with what is wrong where pip installed something else than the lock says."""
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    if wrong := strangers(json.loads(report.read_text(encoding="utf-8")), locked):
        sys.exit(f"not the files that requirements.lock names: {', '.join(wrong)}")


def main() -> None:
    if sys.argv[1:2] == ["--check"]:
        check(Path(sys.argv[2]))
        return
    for path in sorted(ROOT.glob("requirements*.txt")):
        print(lock(path).name, file=sys.stderr)


if __name__ == "__main__":
    main()
