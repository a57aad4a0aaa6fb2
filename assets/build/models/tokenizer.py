"""Word-level tokenizer of demo-gpt2: one token per word, punctuation mark and line break; lower case only."""

from __future__ import annotations

from collections.abc import Iterable

from engine.models import runtime  # noqa: F401  (guards the transformers import)

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # isort: skip
from transformers import PreTrainedTokenizerFast  # isort: skip

SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
WORD = r"\n|\w+|[^\w\s]"


def word_tokenizer(texts: Iterable[str], n_positions: int) -> PreTrainedTokenizerFast:
    """Vocabulary = every word of `texts`, in alphabetical order. Decoding puts no space before punctuation."""
    splitter = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
    words: set[str] = {"\n"}
    for text in texts:
        words.update(piece for piece, _ in splitter.pre_tokenize_str(text.lower()))
    vocabulary = {word: at for at, word in enumerate([*SPECIAL, *sorted(words)])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = splitter
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=n_positions,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        padding_side="left",
    )
