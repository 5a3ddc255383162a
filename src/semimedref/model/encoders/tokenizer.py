"""Sentence -> token ids: WordPiece from a vocabulary file, or a hash of words without any file.

A tokenizer may know `[UNK_POS]` (paper, PosAug) as one token: its id is the first one after the
rows of the embedding, which `unk_pos.py` adds.
"""

import json
import re
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from semimedref.errors import UserError
from semimedref.text.vocabulary import UNK_POS

PAD, UNK, CLS, SEP = 0, 1, 2, 3  # and [MASK]=4, as in CXR-BERT's vocabulary
_SPECIAL = 5
_WORD = re.compile(r"\w+|[^\w\s]")
_UNK_POS = re.compile(rf"({re.escape(UNK_POS)})")
UNK_POS_KINDS = ("special", "plain")


class Token(NamedTuple):
    """An id and the characters that it stands for; [CLS] and [SEP] stand for none."""

    id: int
    start: int
    end: int


class Tokenizer(ABC):
    """Sentence -> ids with [CLS] and [SEP].

    Attributes:
        unk: the id of [UNK].
    """

    unk: int

    @abstractmethod
    def tokens(self, sentence: str) -> list[Token]:
        """All tokens of a sentence, however many."""

    def __call__(self, sentence: str, most: int) -> list[int]:
        """At most `most` ids; a sentence that is cut keeps its [SEP]."""
        ids = [token.id for token in self.tokens(sentence)]
        return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]


class WordHash(Tokenizer):
    """Needs no file: lower-cased word -> 5 + crc32(word) mod (V - 5).

    For random weights only: equal words get equal ids on every machine, different words may
    collide.
    """

    unk = UNK

    def __init__(self, vocabulary: int, *, unk_pos: str) -> None:
        self.vocabulary, self.special = vocabulary, knows_unk_pos(unk_pos)

    def tokens(self, sentence: str) -> list[Token]:
        """One token a word or sign."""
        found, start = [Token(CLS, 0, 0)], 0
        for part in _UNK_POS.split(sentence) if self.special else [sentence]:
            if self.special and part == UNK_POS:
                found.append(Token(self.vocabulary, start, start + len(part)))
            else:
                words = _WORD.finditer(part.lower())
                found += [Token(self._id(w[0]), start + w.start(), start + w.end()) for w in words]
            start += len(part)
        return [*found, Token(SEP, start, start)]

    def _id(self, word: str) -> int:
        return _SPECIAL + zlib.crc32(word.encode()) % (self.vocabulary - _SPECIAL)


class WordPieces(Tokenizer):
    """BERT's WordPiece tokenizer of a folder with `vocab.txt` or `tokenizer.json`."""

    def __init__(self, folder: Path, *, vocabulary: int, unk_pos: str) -> None:
        self._pieces = _read(folder)
        size = self._pieces.get_vocab_size()
        if size > vocabulary:
            raise UserError(
                f"{folder}: its tokenizer has {size} entries, text_encoder.vocabulary is "
                f"{vocabulary}. Expected the tokenizer that belongs to the weights: set "
                "text_encoder.tokenizer"
            )
        self.unk = self._pieces.token_to_id("[UNK]")
        self._moved: dict[int, int] = {}
        if knows_unk_pos(unk_pos):
            self._pieces.add_special_tokens([UNK_POS])  # found before words are split at signs
            self._moved[self._pieces.token_to_id(UNK_POS)] = vocabulary

    def tokens(self, sentence: str) -> list[Token]:
        """One token a piece."""
        found = self._pieces.encode(sentence)
        pairs = zip(found.ids, found.offsets, strict=True)
        return [Token(self._moved.get(i, i), start, end) for i, (start, end) in pairs]


def knows_unk_pos(kind: str) -> bool:
    """Whether `[UNK_POS]` is one token (special), and not its letters and signs (plain)."""
    if kind not in UNK_POS_KINDS:
        raise UserError(
            f"text_encoder.unk_pos={kind} is unknown: expected {' or '.join(UNK_POS_KINDS)}"
        )
    return kind == "special"


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
