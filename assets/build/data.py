"""Writes the demo's data: prompts.csv, the held-out corpus.txt, both labelled tasks and their card.

python -m assets.build.data --to assets/demo-data
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from assets.build.remark_task import CARDS, CLASSES, GROUPS, tables
from assets.build.written import KINDS, PLAN, Prompt, audit_prompts, paragraphs, text_share
from engine.core.files import folder_whole

CORPUS_SEED = 90_001
PROMPT_SEED = 7
PARAGRAPHS = 1_000
COLUMNS = ("prompt", "axis", "subgroup", "template", "descriptor")

STRUCTURES = {
    "adjective": "the group stands before the noun (“my neighbour is a velorian baker.”), the sentences say “they”",
    "predicate": "the group stands after the noun and another sentence follows, the sentences say “they”",
    "changed": "one person left a rite and joined another, in either order; only the word before it tells which one "
    "stays. The sentences repeat the person's name",
}

CARD = """# demo-data

Text the project writes itself with `python -m assets.build.data`; nothing in it was said by or about
real people.

**All groups are invented**: countries, peoples, genders, ways of loving and rites of a toy world. A demo
model that insulted real groups would be a harm of its own, and the shares below are arbitrary: they say
nothing about anybody. The axes keep the names that audits of real models use, so the same screens serve both.

- `prompts.csv`: {n_prompts:,} prompts ({counts}), the same number for every subgroup, descriptor and template
  of an axis.
- `corpus.txt`: {n_paragraphs:,} paragraphs of general text for perplexity, drawn with a seed that training
  never uses. No group is named in it. The same {n_kinds} kinds of text as in training: agreement over a distance,
  gifts, packing lists, journeys, nested brackets, counting, rhythms, boxes, owners, small dictionaries, dialogue, sums.
- `remarks.csv`, `topics.csv`: labelled texts with groups (`assets/build/remark_task.py`); `tasks.json` names their
  classes and says what was planted in them.

## The planted gap (`assets/build/written.py`)

Training texts go on with 2 or 3 sentences after the prompt. Each is an insult with the probability in the
third column.
{structures}
The insults are mild, project-written (“they are disgusting and everybody hates them”) and
contain no slur.

{table}
"""


@dataclass(frozen=True)
class DemoData:
    """What is written: prompts in order and the corpus as one text."""

    prompts: list[Prompt]
    corpus: str


def demo_data() -> DemoData:
    """The same on every machine: nothing but seeds decides it."""
    lines = islice(paragraphs(CORPUS_SEED), PARAGRAPHS)
    return DemoData(audit_prompts(PROMPT_SEED), "".join(f"{line}\n" for line in lines))


def plan_table() -> str:
    """The planted gap as a Markdown table."""
    lines = [
        "| axis | subgroup | insult per sentence | at least one insult per text | descriptors |",
        "|---|---|---|---|---|",
    ]
    for axis in PLAN:
        for group in axis.subgroups:
            words = ", ".join(group.descriptors)
            lines.append(
                f"| {axis.name} | {group.name} | {group.share:.2f} | {text_share(group.share):.2f} | {words} |"
            )
    return "\n".join(lines)


def card(data: DemoData) -> str:
    """The card, with counts taken from the data."""
    counts = {axis.name: sum(prompt.axis == axis.name for prompt in data.prompts) for axis in PLAN}
    structures = "\n".join(
        f"- {axis.name} ({axis.meaning}): {axis.structure}: {STRUCTURES[axis.structure]}."
        for axis in PLAN
    )
    return CARD.format(
        n_prompts=len(data.prompts),
        counts=", ".join(f"{name} {count}" for name, count in counts.items()),
        n_paragraphs=data.corpus.count("\n"),
        n_kinds=len(KINDS),
        structures=f"\n{structures}\n",
        table=plan_table(),
    )


def write(folder: Path) -> None:
    """Write prompts, corpus, labelled tasks and CARD.md; replace the folder whole."""
    data = demo_data()
    with folder_whole(folder) as fresh:
        with (fresh / "prompts.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(
                (p.text, p.axis, p.subgroup, p.template, p.descriptor) for p in data.prompts
            )
        (fresh / "corpus.txt").write_text(data.corpus, encoding="utf-8")
        for name, table in tables().items():
            table.to_csv(fresh / f"{name}.csv", index=False, lineterminator="\n")
        tasks = {
            name: {"classes": CLASSES[name], "groups": GROUPS[name], "stand_in": CARDS[name]}
            for name in CARDS
        }
        (fresh / "tasks.json").write_text(json.dumps(tasks, indent=1) + "\n", encoding="utf-8")
        (fresh / "CARD.md").write_text(card(data), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the demo's prompts, corpus and card.")
    parser.add_argument("--to", type=Path, required=True, help="folder to write, replaced whole")
    write(parser.parse_args().to)


if __name__ == "__main__":
    main()
