"""Sentence -> token ids: WordPiece from a vocabulary file, or a hash of words without any file."""

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from semimedref.errors import UserError

Tokenizer = Callable[[str, int], list[int]]  # (sentence, most tokens) -> ids with [CLS] and [SEP]

PAD, CLS, SEP = 0, 2, 3  # [PAD]=0 [UNK]=1 [CLS]=2 [SEP]=3 [MASK]=4, as in CXR-BERT's vocabulary
_SPECIAL = 5
_WORD = re.compile(r"\w+|[^\w\s]")


def word_hash(vocabulary: int) -> Tokenizer:
    """Return a tokenizer that needs no file: lower-cased word -> 5 + crc32(word) mod (V - 5).

    For random weights only: equal words get equal ids on every machine, different words may
    collide.
    """

    def tokenize(sentence: str, most: int) -> list[int]:
        words = _WORD.findall(sentence.lower())[: most - 2]
        return [
            CLS,
            *(_SPECIAL + zlib.crc32(word.encode()) % (vocabulary - _SPECIAL) for word in words),
            SEP,
        ]

    return tokenize


def word_pieces(folder: Path, *, vocabulary: int) -> Tokenizer:
    """Return BERT's WordPiece tokenizer of a folder with `vocab.txt` or `tokenizer.json`."""
    tokenizer = _read(folder)
    size = tokenizer.get_vocab_size()
    if size > vocabulary:
        raise UserError(
            f"{folder}: its tokenizer has {size} entries, text_encoder.vocabulary is {vocabulary}. "
            "Expected the tokenizer that belongs to the weights: set text_encoder.tokenizer"
        )

    def tokenize(sentence: str, most: int) -> list[int]:
        ids = tokenizer.encode(sentence).ids
        return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]

    return tokenize


def _read(folder: Path) -> "tokenizers.Tokenizer":  # noqa: F821 - imported where it is needed
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    if (folder / "vocab.txt").is_file():
        settings = folder / "tokenizer_config.json"
        lowercase = True
        if settings.is_file():
            lowercase = json.loads(settings.read_text()).get("do_lower_case", True)
        return BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=lowercase)
    if (folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer
    raise UserError(
        f"{folder} holds no tokenizer: expected vocab.txt or tokenizer.json. "
        "Set text_encoder.tokenizer=/path/to/the/folder"
    )
