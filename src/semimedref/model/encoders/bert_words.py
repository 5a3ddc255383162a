"""BERT's features of whole words: pieces of a word are averaged, [CLS] and [SEP] are left out.

As the package `bert-embedding` gives them, with which LViT reads (Li et al., IEEE TMI 2024).
"""

from __future__ import annotations

import logging
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.errors import UserError
from semimedref.model.encoders.bert import BertText
from semimedref.model.encoders.tokenizer import Token, Tokenizer, WordPieces
from semimedref.model.segmenter import TextFeatures, TextInput

log = logging.getLogger(__name__)

_SHORT = 9  # words from which on nothing is appended
_FILLER = " EOF XXX"
_GOES_ON = "##"  # how pieces begin that go on with a word


class BertWords(BertText):
    """The first words of a sentence, one feature each; signs are words, too.

    BERT sees `max_pieces` pieces. What words they belong to is computed from their ids, so the
    device need not wait for the host. Places after the last word are zero and masked.

    Args:
        weights: a folder, "hub:<id>", "package:<module>/<folder>", or "random".
        tokenizer: a folder with vocab.txt or tokenizer.json; null = the folder of the weights
            or, with random weights, a hash of words.
        layers: transformer layers.
        width: hidden size.
        heads: attention heads.
        ffn_width: intermediate size.
        vocabulary: rows of the embedding.
        dropout_rate: rate of hidden and attention dropout.
        unk_pos: "[UNK_POS]" is one "special" token or "plain" letters.
        max_pieces: of a sentence that BERT sees, with [CLS] and [SEP].
        max_tokens: words; every sentence is padded or cut to so many.
        filler: append " EOF XXX" to sentences of fewer than nine words, once for each that is
            missing; they are words as all others.
        frozen: do not train it.
        dropout: keep dropout active where the student asks for it.
        cache: keep the features of each sentence in a table.
        random_seed: seed of frozen random weights, which are in no checkpoint.
    """

    def __init__(
        self,
        *,
        weights: str | None,
        tokenizer: str | None,
        layers: int,
        width: int,
        heads: int,
        ffn_width: int,
        vocabulary: int,
        dropout_rate: float,
        unk_pos: str,
        max_pieces: int,
        max_tokens: int,
        filler: bool,
        frozen: bool,
        dropout: bool,
        cache: bool,
        random_seed: int,
    ) -> None:
        if max_pieces < 3:
            raise UserError(
                f"text_encoder.max_pieces={max_pieces}: expected 3 or more, as [CLS] and [SEP] are "
                "two of them"
            )
        super().__init__(
            weights=weights,
            tokenizer=tokenizer,
            layers=layers,
            width=width,
            heads=heads,
            ffn_width=ffn_width,
            vocabulary=vocabulary,
            dropout_rate=dropout_rate,
            unk_pos=unk_pos,
            max_tokens=max_tokens,
            frozen=frozen,
            dropout=dropout,
            cache=cache,
            center_on=None,
            random_seed=random_seed,
        )
        self.max_pieces, self.filler = max_pieces, filler
        self._warned = False
        self._continuations = _continuations(self._tokenize)
        table = [i in self._continuations for i in range(vocabulary + 1)]  # last: [UNK_POS]
        self.register_buffer("_goes_on", torch.tensor(table), persistent=False)

    def hidden_states(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states 1, 2 and last (B, max_tokens, D), of words."""
        member = self._members(input_ids, mask)
        share = member / member.sum(2, keepdim=True).clamp(min=1)
        first, second, last = super().hidden_states(input_ids, mask)
        return share @ first, share @ second, share @ last

    def forward(self, text: TextInput, *, dropout: bool = False) -> TextFeatures:
        """Encode; the mask (B, max_tokens) says where a word is."""
        features = super().forward(text, dropout=dropout)
        if text.rows is not None:
            return features
        return replace(features, mask=self._members(text.input_ids, text.attention_mask).any(2))

    def tokenize(self, text: str) -> list[Token]:
        """The words that are read of a text, with their characters; fillers stand for none."""
        *pieces, _ = self._tokenize.tokens(self._filled(text))
        words: list[Token] = []
        for piece in pieces[1 : self.max_pieces - 1]:
            if words and self._continues(piece):
                words[-1] = words[-1]._replace(end=piece.end)
            else:
                words.append(piece)
        read, end = words[: self.max_tokens], len(text)
        return [w if w.start < end else w._replace(start=end, end=end) for w in read]

    def _members(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Whether a piece belongs to a word: (B, max_tokens, L), 0 or 1."""
        # [CLS] is the first piece, [SEP] the one that no other follows.
        inside = F.pad(mask[:, 2:], (1, 1), value=False)
        begins = inside & ~self._goes_on[input_ids]
        word = begins.cumsum(1) - 1
        places = torch.arange(self.max_tokens, device=mask.device)[:, None]
        return ((word[:, None] == places) & inside[:, None]).to(self._tokens.dtype)

    @property
    def _input_length(self) -> int:
        return self.max_pieces

    def _filled(self, text: str) -> str:
        missing = _SHORT - len(text.split())
        return text + _FILLER * missing if self.filler and missing > 0 else text

    def _warn_if_cut(self, text: str) -> None:
        """Say it once: ten words, as published, are fewer than nearly every sentence has."""
        read = self.tokenize(text)
        _, *pieces, _ = self._tokenize.tokens(text)
        words = [piece for piece in pieces if not self._continues(piece)]
        if len(words) > len(read) and not self._warned:
            self._warned = True
            log.warning(
                "a sentence has %d words, %d are read (text_encoder.max_tokens=%d, max_pieces=%d; "
                "further sentences are not reported): %s",
                len(words), len(read), self.max_tokens, self.max_pieces, text,
            )  # fmt: skip

    def _continues(self, piece: Token) -> bool:
        return piece.id in self._continuations


def _continuations(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids of pieces that go on with a word; hashed words are whole."""
    if not isinstance(tokenizer, WordPieces):
        return frozenset()
    known = tokenizer._pieces.get_vocab()
    return frozenset(i for piece, i in known.items() if piece.startswith(_GOES_ON))
