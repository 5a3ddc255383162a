"""BERT as a text encoder: CXR-BERT, MiniLM, or any BERT folder; no remote code is run."""

import json
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.encoders.tokenizer import Tokenizer, WordHash, WordPieces, knows_unk_pos
from semimedref.model.encoders.unk_pos import EmbeddingWithUnkPos
from semimedref.torchvision_shim import import_torchvision

log = logging.getLogger(__name__)

_FILES = ["config.json", "vocab.txt", "tokenizer*.json", "model.safetensors", "pytorch_model.bin"]
_EXAMPLE = "/path/to/BiomedVLP-CXR-BERT-specialized"


class BertText(TextEncoder):
    """Plain BERT without pooler and heads (Devlin et al., 2019).

    Args:
        weights: a folder, "hub:<id>", "package:<module>/<folder>", or "random".
        tokenizer: a folder with vocab.txt or tokenizer.json; null = the folder of the weights
            or, with random weights, a hash of words.
        layers: transformer layers; of weights with more, the first ones.
        width: hidden size.
        heads: attention heads.
        ffn_width: intermediate size.
        vocabulary: rows of the embedding.
        dropout_rate: rate of hidden and attention dropout.
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
        layers: int,
        width: int,
        heads: int,
        ffn_width: int,
        vocabulary: int,
        dropout_rate: float,
        unk_pos: str,
        max_tokens: int,
        frozen: bool,
        dropout: bool,
        cache: bool,
        center_on: Sequence[str] | None,
        random_seed: int,
    ) -> None:
        path = source.resolve(weights, key="text_encoder.weights", example=_EXAMPLE, files=_FILES)
        words = _tokenizer(tokenizer, path, vocabulary=vocabulary, unk_pos=unk_pos)
        super().__init__(
            width=width,
            tokenizer=words,
            max_tokens=max_tokens,
            frozen=frozen,
            dropout=dropout,
            cache=cache,
            center_on=center_on,
        )
        architecture = {
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": heads,
            "intermediate_size": ffn_width,
            "vocab_size": vocabulary,
        }
        self.bert = _build(architecture, dropout_rate, seed=random_seed if frozen else None)
        if path is not None:
            _check_architecture(path, architecture)
            _load(self.bert, path)
        if knows_unk_pos(unk_pos):
            plain = self.bert.get_input_embeddings()
            self.bert.set_input_embeddings(EmbeddingWithUnkPos(plain, unk=words.unk))
        self._freeze_if_asked()
        self._learn_center()

    def hidden_states(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states 1, 2 and last."""
        # A (B, 1, 1, L) mask is used as it is; from a (B, L) mask transformers would first ask the
        # device whether there is any padding, which makes the host wait.
        states = self.bert(
            input_ids, attention_mask=mask[:, None, None, :], output_hidden_states=True
        ).hidden_states
        return states[1], states[2], states[-1]


def _tokenizer(
    folder: str | None, weights: Path | None, *, vocabulary: int, unk_pos: str
) -> Tokenizer:
    place = Path(folder).expanduser() if folder else weights
    if place is None:
        return WordHash(vocabulary, unk_pos=unk_pos)
    place = place.parent if place.is_file() else place
    return WordPieces(place, vocabulary=vocabulary, unk_pos=unk_pos)


def _build(architecture: dict[str, int], dropout_rate: float, *, seed: int | None) -> nn.Module:
    import_torchvision()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        **architecture,
        hidden_dropout_prob=dropout_rate,
        attention_probs_dropout_prob=dropout_rate,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]) if seed is not None else nullcontext():
        if seed is not None:
            torch.manual_seed(seed)
        return BertModel(config, add_pooling_layer=False)


def _check_architecture(path: Path, architecture: dict[str, int]) -> None:
    file = (path.parent if path.is_file() else path) / "config.json"
    if not file.is_file():
        return
    found = json.loads(file.read_text())
    for name, expected in architecture.items():
        if name == "num_hidden_layers" and expected < found.get(name, expected):
            log.warning(
                "%s has %d layers, text_encoder.layers=%d: the first ones are used",
                file.parent, found[name], expected,
            )  # fmt: skip
            continue
        if found.get(name, expected) != expected:
            raise UserError(
                f"{file}: {name} is {found[name]}, the text_encoder option says {expected}. "
                "Choose the text_encoder option of these weights, or set its sizes"
            )


def _load(bert: nn.Module, path: Path) -> None:
    """Load what belongs to BERT; heads (cls.*, cls_projection_head.*, pooler.*) are left out."""
    given = {
        key.removeprefix("bert.")
        .replace("LayerNorm.gamma", "LayerNorm.weight")
        .replace("LayerNorm.beta", "LayerNorm.bias"): value
        for key, value in source.read(path).items()
    }
    own = bert.state_dict()
    source.check_fit(own, given, source=path)
    bert.load_state_dict({key: given[key] for key in own})
