"""The control without image: where lesions lie, on average, for what the sentence names.

Its score says what can be had from the positions in the text and from nothing else.
"""

from torch import Tensor

from semimedref.errors import UserError
from semimedref.model.atlas import Atlas
from semimedref.model.encoders.position_words import PositionWords


class TextAtlas(Atlas):
    """The mean of all labeled masks, each weighted by exp(-distance / width).

    The distance is Hamming's, of the image's label to that of the sentence. A narrow width gives
    the mean mask of the images with that very label, and of the nearest labels if there are none.

    Args:
        vocabulary: of the data set's sentences.
        image_side: pixels a side of the masks.
        width: over how many differing regions an image's weight falls to 1 / e.
        smoothing: standard deviation of a Gaussian over the means, in image sides; 0 for none.
    """

    def __init__(self, vocabulary: str, *, image_side: int, width: float, smoothing: float) -> None:
        if not width > 0:
            raise UserError(f"model.width={width}: expected a number above 0, e.g. 0.7 or 0.01")
        super().__init__(PositionWords(vocabulary), image_side=image_side, smoothing=smoothing)
        self.width = width

    def shares(self, q: Tensor) -> Tensor:
        """Return the normalized weights (B, P): a label counts once for each of its images."""
        distance = (q[:, None] - self.labels).abs().sum(2)
        # In logarithms: at a narrow width every weight of an unseen label would round to zero.
        return (self.counts.log() - distance / self.width).softmax(dim=1)
