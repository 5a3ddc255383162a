"""Any text encoder of Hugging Face, from a folder or by its name; no remote code is run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.hf_folder import from_folder, read_config
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.encoders.tokenizer import Token, Tokenizer, knows_unk_pos
from semimedref.model.encoders.unk_pos import EmbeddingWithUnkPos
from semimedref.text.vocabulary import UNK_POS

_FILES = [
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
]
_EXAMPLE = "/path/to/roberta-base"


class AutoText(TextEncoder):
    """BERT, RoBERTa, ELECTRA, DeBERTa, the encoder of T5, ...: what its config.json says.

    Args:
        weights: a folder, "hub:<id>", "package:<module>/<folder>", or "random".
        tokenizer: a folder with tokenizer files; null = the folder of the weights. With random
            weights its config.json says what is built.
        width: hidden size, or None to take it from the model's configuration.
        unk_pos: "[UNK_POS]" is one "special" token or "plain" letters.
        max_tokens: every sentence is padded or cut to this many tokens.
        frozen: do not train it.
        dropout: keep dropout active where the student asks for it.
        cache: keep the features of each sentence in a table.
        center_on: sentences whose mean feature is taken off all features, and by whose spread they
            are divided; None leaves features as they come.
        random_seed: seed of frozen random weights, which are in no checkpoint.
    """

    def __init__(
        self,
        *,
        weights: str | None,
        tokenizer: str | None,
        width: int | None,
        unk_pos: str,
        max_tokens: int,
        frozen: bool,
        dropout: bool,
        cache: bool,
        center_on: Sequence[str] | None,
        random_seed: int,
    ) -> None:
        path = source.resolve(weights, key="text_encoder.weights", example=_EXAMPLE, files=_FILES)
        place = Path(tokenizer).expanduser() if tokenizer else path
        if place is None:
            raise UserError(
                "text_encoder.weights=random says nothing of the architecture: set "
                "text_encoder.tokenizer to a folder with config.json and tokenizer files"
            )
        key = "text_encoder.tokenizer" if path is None else "text_encoder.weights"
        config = read_config(path or place, key=key)
        _check_width(config.get_text_config().hidden_size, width)
        vocabulary = config.get_text_config().vocab_size
        words = AutoPieces(place, vocabulary=vocabulary, unk_pos=unk_pos)
        super().__init__(
            width=config.get_text_config().hidden_size,
            tokenizer=words,
            max_tokens=max_tokens,
            frozen=frozen,
            dropout=dropout,
            cache=cache,
            center_on=center_on,
        )
        # Padding has the model's own id: RoBERTa counts positions by it.
        self.pad = words.pad
        self.net = _build(config, path, seed=random_seed if frozen else None)
        _check_positions(self.net, max_tokens)
        if knows_unk_pos(unk_pos):
            plain = self.net.get_input_embeddings()
            self.net.set_input_embeddings(EmbeddingWithUnkPos(plain, unk=words.unk))
        self._freeze_if_asked()
        self._learn_center()

    def hidden_states(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states 1, 2 and last; what the mask hides is the model's own padding."""
        ids = input_ids.masked_fill(~mask, self.pad)
        found = self.net(ids, attention_mask=mask.long(), output_hidden_states=True)
        states = found.hidden_states
        # The last one as the model gives it: some have a norm behind the last layer.
        return states[1], states[min(2, len(states) - 1)], found.last_hidden_state


class AutoPieces(Tokenizer):
    """The tokenizer of a folder, whatever its kind.

    Attributes:
        pad: the id of padding.
    """

    def __init__(self, folder: Path, *, vocabulary: int, unk_pos: str) -> None:
        self._pieces = _read(folder)
        if len(self._pieces) > vocabulary:
            raise UserError(
                f"{folder}: its tokenizer has {len(self._pieces)} entries, the embedding of the "
                f"model has {vocabulary} rows. Expected the tokenizer that belongs to the weights: "
                "set text_encoder.tokenizer"
            )
        self.unk = self._pieces.unk_token_id
        self.pad = 0 if self._pieces.pad_token_id is None else self._pieces.pad_token_id
        self._moved: dict[int, int] = {}
        if knows_unk_pos(unk_pos):
            if self.unk is None:
                raise UserError(
                    f"{folder}: this tokenizer has no unknown token, as which [UNK_POS] would be "
                    "embedded. Set text_encoder.unk_pos=plain"
                )
            from tokenizers import AddedToken

            # Found before words are split at signs; its row comes after those of the embedding.
            self._pieces.add_tokens([AddedToken(UNK_POS, normalized=False)], special_tokens=True)
            self._moved[self._pieces.convert_tokens_to_ids(UNK_POS)] = vocabulary

    def tokens(self, sentence: str) -> list[Token]:
        """One token a piece."""
        found = self._pieces(sentence, return_offsets_mapping=True, verbose=False)
        pairs = zip(found["input_ids"], found["offset_mapping"], strict=True)
        return [Token(self._moved.get(i, i), start, end) for i, (start, end) in pairs]


def _read(folder: Path) -> Any:  # noqa: ANN401 - a class of transformers
    from transformers import AutoTokenizer

    try:
        pieces = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # each kind has its own exceptions for missing files
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{folder} holds no tokenizer that can be read ({reason}). Set "
            "text_encoder.tokenizer=/path/to/the/folder"
        ) from error
    if not pieces.is_fast:
        raise UserError(
            f"{folder}: this tokenizer does not say which characters a token stands for. Expected "
            "a folder with tokenizer.json"
        )
    return pieces


def _check_width(found: int, width: int | None) -> None:
    if width is not None and width != found:
        raise UserError(
            f"text_encoder.width={width}: the model's hidden size is {found}. "
            "Set text_encoder.width=null to take it from the model"
        )


def _check_positions(net: nn.Module, max_tokens: int) -> None:
    """RoBERTa and its kin count positions from the one after the padding's id."""
    most = getattr(net.config.get_text_config(), "max_position_embeddings", None)
    skipped = getattr(getattr(net, "embeddings", None), "padding_idx", None)
    most = most if most is None or skipped is None else most - skipped - 1
    if most is not None and max_tokens > most:
        raise UserError(
            f"text_encoder.max_tokens={max_tokens}: the model has {most} positions. "
            f"Set text_encoder.max_tokens={most} or less"
        )


def _build(
    config: Any,  # noqa: ANN401 - a class of transformers
    path: Path | None,
    *,
    seed: int | None,
) -> nn.Module:
    """The encoder alone: of an encoder-decoder its first half, without a pooler."""
    from transformers import AutoModel, AutoModelForTextEncoding
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

    known = type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    auto = AutoModelForTextEncoding if known else AutoModel
    if path is not None:
        net = from_folder(auto, path, config)
    else:
        with torch.random.fork_rng(devices=[]) if seed is not None else nullcontext():
            if seed is not None:
                torch.manual_seed(seed)
            net = auto.from_config(config)
    net = net.get_encoder() if config.is_encoder_decoder and not known else net
    if getattr(net, "pooler", None) is not None:
        net.pooler = None
    return net
