"""The embedding of `[UNK_POS]`: a copy of [UNK]'s that never learns (paper, PosAug)."""

import torch
from torch import Tensor, nn


class EmbeddingWithUnkPos(nn.Embedding):
    """An embedding of V rows with one more, for id V, outside its weights.

    The row is no parameter and in no state dict: imported weights load as they are, and exported
    ones hold what was imported. Every other id gives what the plain embedding gives.
    """

    def __init__(self, plain: nn.Embedding, *, unk: int) -> None:
        super().__init__(
            plain.num_embeddings,
            plain.embedding_dim,
            padding_idx=plain.padding_idx,
            _weight=plain.weight,
        )
        self.unk = unk
        self.register_buffer("row", plain.weight[unk].detach().clone(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids (B, L) from 0 to V."""
        special = ids == self.num_embeddings
        known = super().forward(ids.masked_fill(special, self.unk))
        return torch.where(special[..., None], self.row, known)
