"""A tiny task of lm-eval: a YAML file beside its items, each of two to three words one of which is
right."""

from __future__ import annotations

import json
from pathlib import Path

TASK = """task: tiny
dataset_path: json
dataset_kwargs: {data_files: {test: items.jsonl}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
metadata: {version: 1}
"""


def write_task(folder: Path, text: str = TASK, n: int = 12) -> Path:
    """The task's file."""
    rows = [
        {
            "question": f"w{at} w{at + 1}",
            "choices": [f"w{at + 2}", f"w{at + 5}", f"w{at + 7}"][: 2 + at % 2],
            "gold": at % 2,
        }
        for at in range(n)
    ]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    path = folder / "task.yaml"
    path.write_text(text, encoding="utf-8")
    return path
