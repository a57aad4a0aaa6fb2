"""WordPiece tokenizer of demo-bert: whole words of the project's text, and single letters for every other word."""

from __future__ import annotations

import string
from collections.abc import Iterable

from engine.models import runtime  # noqa: F401  (guards the transformers import)

from tokenizers import normalizers, pre_tokenizers  # isort: skip
from transformers import BertTokenizer  # isort: skip

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = string.ascii_lowercase + string.digits


def piece_tokenizer(texts: Iterable[str], n_positions: int) -> BertTokenizer:
    """Vocabulary = letters and every word of `texts`, in alphabetical order; lower case, padded on the right."""
    normal, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    pieces = {*LETTERS, *string.punctuation, *(f"##{letter}" for letter in LETTERS)}
    for word in {word for text in texts for word in text.split()}:
        pieces.update(piece for piece, _ in split.pre_tokenize_str(normal.normalize_str(word)))
    vocabulary = {piece: at for at, piece in enumerate([*SPECIAL, *sorted(pieces)])}
    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=n_positions)
