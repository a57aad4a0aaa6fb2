"""Tasks of lm-eval: a task's file is data, or it is refused; where the package is installed, what
is read of it."""

import json

import pytest

from engine.core.errors import RequestError
from engine.data.benchmarks.base import load_benchmark
from engine.data.benchmarks.lm_eval_tasks import are_names, checked, is_installed
from tests.builders import faults_of
from tests.tasks_of_lm_eval import TASK, write_task


def refused(folder, text):
    path = write_task(folder, text)
    return " ".join(f"{fault.what} {fault.fix}" for fault in faults_of(checked, path))


def test_a_task_of_plain_data_is_read_with_its_files_in_full(tmp_path):
    found = checked(write_task(tmp_path))
    assert found["dataset_kwargs"] == {
        "data_files": {"test": [str((tmp_path / "items.jsonl").resolve())]}
    }


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("doc_to_text:", "process_docs: !function utils.process\ndoc_to_text:", "!function"),
        ("doc_to_text:", "process_docs: !!python/name:os.system\ndoc_to_text:", "python/name"),
        ("doc_to_text:", "include: other.yaml\ndoc_to_text:", "include"),
        ("doc_to_text:", "unsafe_code: true\ndoc_to_text:", "unsafe_code"),
        ("dataset_path: json", "dataset_path: someone/dataset", "someone/dataset"),
        ("test: items.jsonl", "test: https://example.org/items.jsonl", "does not lie beside"),
        ("test: items.jsonl", "test: ../items.jsonl", "does not lie beside"),
        ("test: items.jsonl", "test: none.jsonl", "no such file"),
        ("dataset_kwargs: {", "dataset_kwargs: {trust_remote_code: true, ", "nothing else"),
        ("metric: acc", "metric: someone/metric", "metric_list"),
        ("metric: acc", "metric: acc\n    hf_evaluate: true", "metric_list"),
        ("multiple_choice", "loglikelihood_rolling", "output_type"),
        ("task: tiny", "task: ../tiny", "names no task"),
        ("doc_to_text:", "generation_kwargs: {do_sample: true}\ndoc_to_text:", "not drawn"),
        ("doc_to_text:", "num_fewshot: -1\ndoc_to_text:", "num_fewshot"),
        ("task: tiny", "task: [tiny", "Not YAML"),
    ],
)
def test_whatever_is_code_or_elsewhere_is_refused(tmp_path, was, becomes, told):
    assert was in TASK and told in refused(tmp_path, TASK.replace(was, becomes, 1))


def test_a_name_is_no_path_and_without_the_package_it_is_named(tmp_path, monkeypatch):
    assert (
        are_names("arc_easy,piqa")
        and not are_names("a/b")
        and not are_names(str(write_task(tmp_path)))
    )
    monkeypatch.setattr("engine.data.benchmarks.lm_eval_tasks.find_spec", lambda name: None)
    for place in ("arc_easy", str(write_task(tmp_path))):
        assert "requirements-lm-eval.txt" in faults_of(load_benchmark, "lm_eval", place)[0].fix


@pytest.mark.skipif(not is_installed(), reason="lm-eval is optional")
def test_items_are_the_documents_of_the_task(tmp_path):
    found = load_benchmark("lm_eval", write_task(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert found.items["item_id"].tolist() == [f"tiny {number}" for number in range(len(rows))]
    right = found.choices[found.choices["role"] == "right"]
    assert right["text"].tolist() == [row["choices"][row["gold"]] for row in rows]
    assert right["prefix"].tolist() == [row["question"] for row in rows]
    again = load_benchmark(
        "lm_eval", write_task(tmp_path, TASK.replace("task: tiny", "task: other"))
    )
    assert again.digest != found.digest
    with pytest.raises(RequestError, match="sandbox|unsafe|Security"):
        load_benchmark(
            "lm_eval",
            write_task(tmp_path, TASK.replace("{{question}}", "{{question.__class__.mro()}}")),
        )
