"""Writes the tree into README.md: every source file with the first line of its docstring. `python docs/tree.py`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- tree: written by docs/tree.py -->", "<!-- end of tree -->"
FOLDERS = ("pages", "engine", "benchmarks", "docs", "tests")
PLAIN = {
    "Makefile": "make run, make test, make test-slow, make demo, make benchmarks",
    "requirements.txt": "what runs, pinned",
    "requirements-dev.txt": "what tests need besides",
    "assets/demo-gpt2/": "the embedded language model, its card and recipe",
    "assets/demo-judge/": "the embedded toxicity judge in Detoxify's format, its card and hash",
    "assets/demo-data/": "prompts and held-out text of the demo",
    "assets/demo-run/": "the finished demo audit",
    "docs/LOG.md": "what was tried and what failed, with numbers",
    "docs/TABLES.md": "the columns of a run's tables",
}


def first_line(path: Path) -> str:
    """First sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def tree() -> str:
    """One line per file, by folder."""
    lines = [f"{'app.py':<44} {first_line(ROOT / 'app.py')}"]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            line = first_line(path)
            if path.name != "__init__.py" or line:
                lines.append(f"{path.relative_to(ROOT).as_posix():<44} {line}")
    lines += [f"{name:<44} {line}" for name, line in PLAIN.items()]
    return "\n".join(line.rstrip() for line in lines)


def with_tree(readme: str) -> str:
    """The README with its tree as it should be now."""
    before, rest = readme.split(START)
    return f"{before}{START}\n```\n{tree()}\n```\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    target = ROOT / "README.md"
    target.write_text(with_tree(target.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
