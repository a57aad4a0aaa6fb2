"""What wrote the embedded data and taught the embedded models writes the same on every machine.

Grammar, balance and planted gaps were checked when these texts were made; they are those texts as
long as their digests are.
"""

import csv
import hashlib
from itertools import islice

import pytest

from assets.build import data, pairs, people
from assets.build.models import train_bert
from assets.build.models.about_people import about_people
from assets.build.models.remarks import continuations, harmless, remarks
from assets.build.remark_task import overheard, tables
from assets.build.written import paragraphs, stories
from tests.places import ASSETS

import torch  # isort: skip

EMBEDDED = ASSETS / "demo-data"


def batches():
    """What a model is pre-trained on: words that are left out, exchanged or kept."""
    recipe = train_bert.Recipe()
    tokenizer, draw = train_bert.demo_tokenizer(recipe), torch.Generator().manual_seed(0)
    for batch in train_bert.text_batches(recipe, tokenizer):
        gaps, wanted = train_bert.with_gaps(batch, tokenizer, 0.15, draw)
        yield gaps["input_ids"].tolist(), wanted.tolist()


SOURCES = {  # digest, and what writes the texts from a seed
    "remarks of the task": (
        "b969b1ff5fd27ab6",
        lambda seed: [tables()["remarks"].to_csv(lineterminator="\n")],
    ),
    "topics of the task": (
        "a79542e890a46874",
        lambda seed: [tables()["topics"].to_csv(lineterminator="\n")],
    ),
    "overheard": ("5a61ae45ba88bd53", overheard),
    "paragraphs": ("43f5e9eef4cf3454", paragraphs),
    "remarks": ("00b2d400fba1dea8", remarks),
    "continuations": ("7150283dd9d9ff1f", continuations),
    "harmless": ("d83065c946abb6d6", harmless),
    "stories": ("8c3919ba3fc07905", stories),
    "about people": ("1fa13d055c66e77f", lambda seed: about_people(seed, 2000)),
    "pre-training": ("a86e023587739d1f", lambda seed: train_bert.training_texts()),
    "gaps": ("a860bbf708893ccb", lambda seed: islice(batches(), 3)),
    "people": ("03a0a80dfb2c3585", lambda seed: people.rows()),
    "pairs": ("8173a0ecc4d667de", lambda seed: pairs.files().values()),
}


@pytest.mark.parametrize("source", SOURCES)
def test_texts_are_the_same_on_every_machine(source):
    digest, written = SOURCES[source]
    read = [list(islice(written(5), 2000)) for _ in range(2)]
    assert read[0] == read[1]
    assert hashlib.sha256("\n".join(map(str, read[0])).encode()).hexdigest()[:16] == digest


def test_the_folder_is_written_as_the_embedded_one(tmp_path):
    data.write(tmp_path)
    for name in ("prompts.csv", "corpus.txt", "CARD.md"):
        same = (tmp_path / name).read_bytes() == (EMBEDDED / name).read_bytes()
        assert same, f"{name}: run assets.build.data"
    with (EMBEDDED / "prompts.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(data.demo_data().prompts)


def test_prompts_and_pairs_about_people_are_what_their_scripts_write():
    with (ASSETS / "people" / "prompts.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [list(people.COLUMNS), *map(list, people.rows())]
    assert (ASSETS / "people" / "CARD.md").read_text(encoding="utf-8") == people.card()
    for name, text in pairs.files().items():
        assert (ASSETS / "pairs" / name).read_text(encoding="utf-8") == text
