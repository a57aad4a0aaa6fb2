"""Write a cut text classifier, retrained or not, and load it again.

As replay.py does for language models. The weights are the classifier's own, so what was learned
after the cut is kept.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from engine.core.errors import RequestError
from engine.models.config_file import CONFIG, config_of, said_outputs
from engine.models.load_text_classifier import (
    TextClassifier,
    save_text_tokenizer,
)
from engine.surgery.heads.record import MaskRecord
from engine.surgery.heads.replay import read_cut, write_cut


def save_cut_classifier(cut: TextClassifier, record: MaskRecord, folder: str | Path) -> Path:
    """Write a cut classifier: config.json with its classes, its own weights, tokenizer, mask.json.
    Whole or not at all.

    RequestError where the folder exists and is not empty, or when the record is not the mask of
    this model.
    """
    return write_cut(cut, record, folder, partial(save_text_tokenizer, cut))


def load_cut_classifier(folder: str | Path, device: str = "cpu") -> TextClassifier:
    """Load what `save_cut_classifier` wrote. RequestError with every fault; each tensor must be
    there exactly."""
    parts = read_cut(Path(folder), device, causal=False)
    said, faults = said_outputs(config_of(Path(folder).expanduser()), CONFIG)
    if faults := faults + said.class_faults(CONFIG, "text"):
        raise RequestError(faults)
    return TextClassifier(
        **parts,
        classes=said.names or tuple(map(str, range(parts["model"].config.num_labels))),
        max_length=min(int(parts["tokenizer"].model_max_length), parts["adapter"].n_positions),
        has_head=True,
    )
