"""The contract of text encoders: padding rule, freezing, dropout and the table of features."""

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders.tokenizer import PAD, Token, Tokenizer
from semimedref.model.segmenter import TextFeatures, TextInput

log = logging.getLogger(__name__)

_KEPT = 50_000  # sentences whose tokens are kept


class TextEncoder(nn.Module, ABC):
    """Sentences -> features of exactly `max_tokens` tokens, padding included.

    A frozen encoder stays in evaluation mode whatever `train()` is called, runs without gradient,
    and is not part of checkpoints. With `cache` the features of each sentence are computed once, in
    `prepare`, and `forward` only picks rows of a table. Sentences enter the table one at a time, so
    their features depend neither on the order nor on the other sentences of a batch.

    Attributes:
        width: D, the size of a token's features.
        frozen: weights are not trained.
        dropout: dropout may be active (where `forward` is asked for it).
        cache: features come from the table.
        center_on: sentences by which features are centered, or None.
    """

    def __init__(
        self,
        *,
        width: int,
        tokenizer: Tokenizer,
        max_tokens: int,
        frozen: bool,
        dropout: bool,
        cache: bool,
        center_on: Sequence[str] | None,
    ) -> None:
        super().__init__()
        if cache and dropout:
            raise UserError(
                "text_encoder.cache=true and text_encoder.dropout=true exclude each other: cached "
                "features have no dropout. Set one of them to false"
            )
        if cache and not frozen:
            raise UserError(
                "text_encoder.cache=true needs a frozen text encoder: features of a trained one "
                "change at every step. Set text_encoder.cache=false or text_encoder.frozen=true"
            )
        if center_on and not frozen:
            raise UserError(
                "text_encoder.center_on needs a frozen text encoder: what is learned once about a "
                "trained one is soon untrue. Set text_encoder.center_on=null"
            )
        self.width, self.max_tokens = width, max_tokens
        self.center_on = list(center_on) if center_on else None
        self.frozen, self.dropout, self.cache = frozen, dropout, cache
        self._tokenize = tokenizer
        self._ids: dict[str, list[int]] = {}
        self._row: dict[str, int] = {}
        # The table, with room for more rows than are in use; never part of a checkpoint.
        self.register_buffer("_tokens", torch.empty(0, max_tokens, width), persistent=False)
        self.register_buffer(
            "_mask", torch.empty(0, max_tokens, dtype=torch.bool), persistent=False
        )
        self.register_buffer("_pooled", torch.empty(0, width), persistent=False)
        for name in ("tokens", "pooled"):
            self.register_buffer(f"_mean_{name}", torch.zeros(width), persistent=False)
            self.register_buffer(f"_spread_{name}", torch.ones(()), persistent=False)

    @abstractmethod
    def hidden_states(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states 1, 2 and last (B, L, D) of ids (B, L) and a bool mask (B, L)."""

    def prepare(self, sentences: Sequence[str]) -> TextInput:
        """Tokenize or look up sentences on the host; returns CPU tensors."""
        if not self.cache:
            return self._tokens_of(sentences)
        self._add_rows([text for text in dict.fromkeys(sentences) if text not in self._row])
        rows = torch.tensor([self._row[text] for text in sentences], dtype=torch.int64)
        return TextInput(input_ids=None, attention_mask=None, rows=rows)

    def blank(self, number: int, device: torch.device) -> TextInput:
        """So many sentences without words, for a step without data."""
        if self.cache:
            rows = torch.zeros(number, dtype=torch.int64, device=device)
            return TextInput(input_ids=None, attention_mask=None, rows=rows)
        shape = (number, self._input_length)
        ids = torch.full(shape, PAD, dtype=torch.int64, device=device)
        return TextInput(ids, torch.ones(shape, dtype=torch.bool, device=device), rows=None)

    def forward(self, text: TextInput, *, dropout: bool = False) -> TextFeatures:
        """Encode; dropout is active if it is asked for here and allowed by the config."""
        if text.rows is not None:
            return TextFeatures(
                tokens=self._tokens.index_select(0, text.rows),
                mask=self._mask.index_select(0, text.rows),
                pooled=self._pooled.index_select(0, text.rows),
            )
        gradient = torch.is_grad_enabled() and not self.frozen
        with torch.set_grad_enabled(gradient), self._dropout_is(dropout and self.dropout):
            first, second, last = self.hidden_states(text.input_ids, text.attention_mask)
            pooled = (first.mean(1) + second.mean(1) + last.mean(1)) / 3
            tokens, pooled = self._centered(last, pooled)
        return TextFeatures(tokens=tokens, mask=text.attention_mask, pooled=pooled)

    def tokenize(self, text: str) -> list[Token]:
        """The tokens that are read of a text, with the characters that they stand for."""
        found = self._tokenize.tokens(text)
        return (
            found if len(found) <= self.max_tokens else [*found[: self.max_tokens - 1], found[-1]]
        )

    def train(self, mode: bool = True) -> "TextEncoder":
        """Set the mode; a frozen encoder stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def _freeze_if_asked(self) -> None:
        """To be called at the end of a subclass's constructor."""
        if self.frozen:
            self.requires_grad_(False).eval()

    @torch.no_grad()
    def _learn_center(self) -> None:
        """To be called when the weights are there: mean and spread over the example sentences."""
        if self.center_on is None:
            return
        examples = self(self._tokens_of(self.center_on))
        for name, x in (("tokens", examples.tokens[examples.mask]), ("pooled", examples.pooled)):
            mean = x.mean(0)
            setattr(self, f"_mean_{name}", mean)
            setattr(self, f"_spread_{name}", (x - mean).square().mean().sqrt())

    def _centered(self, tokens: Tensor, pooled: Tensor) -> tuple[Tensor, Tensor]:
        if self.center_on is None:
            return tokens, pooled
        tokens = (tokens - self._mean_tokens) / self._spread_tokens
        return tokens, (pooled - self._mean_pooled) / self._spread_pooled

    def _tokens_of(self, sentences: Sequence[str]) -> TextInput:
        if len(self._ids) > _KEPT:  # reworded sentences never end
            self._ids.clear()
        for text in sentences:
            if text not in self._ids:
                self._ids[text] = self._tokenize(self._filled(text), self._input_length)
                self._warn_if_cut(text)
        ids = torch.full((len(sentences), self._input_length), PAD, dtype=torch.int64)
        mask = torch.zeros(len(sentences), self._input_length, dtype=torch.bool)
        for i, text in enumerate(sentences):
            known = self._ids[text]
            ids[i, : len(known)] = torch.tensor(known)
            mask[i, : len(known)] = True
        return TextInput(input_ids=ids, attention_mask=mask, rows=None)

    @property
    def _input_length(self) -> int:
        """How many ids the encoder gets of a sentence."""
        return self.max_tokens

    def _filled(self, text: str) -> str:
        """The text that is tokenized."""
        return text

    def _warn_if_cut(self, text: str) -> None:
        length = len(self._tokenize(text, sys.maxsize))
        if length > self.max_tokens:
            log.warning(
                "a sentence has %d tokens, text_encoder.max_tokens=%d are read: %s",
                length, self.max_tokens, text,
            )  # fmt: skip

    @torch.inference_mode(False)  # the table outlives an evaluation that adds to it
    def _add_rows(self, texts: list[str]) -> None:
        self._reserve(len(self._row) + len(texts))
        device = self._tokens.device
        for text in texts:
            row = len(self._row)
            with torch.no_grad(), torch.autocast(device.type, enabled=False):
                features = self(self._tokens_of([text]).to(device))
                self._tokens[row] = features.tokens[0]
                self._mask[row] = features.mask[0]
                self._pooled[row] = features.pooled[0]
            self._row[text] = row

    def _reserve(self, rows: int) -> None:
        """Grow the table to a power of two, so that adding N sentences copies O(N) rows."""
        used, room = len(self._row), self._tokens.shape[0]
        if rows <= room:
            return
        room = 1 << (rows - 1).bit_length()
        for name in ("_tokens", "_mask", "_pooled"):
            old = getattr(self, name)
            new = old.new_zeros(room, *old.shape[1:])
            new[:used] = old[:used]
            setattr(self, name, new)

    @contextmanager
    def _dropout_is(self, active: bool) -> Iterator[None]:
        """Text encoders have no state beside dropout that follows the training mode."""
        before = self.training
        if active != before:
            nn.Module.train(self, active)
        try:
            yield
        finally:
            if active != before:
                nn.Module.train(self, before)
