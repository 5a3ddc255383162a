import pytest

SETTINGS = {
    "image_width": 12,
    "text_width": 10,
    "width": 8,
    "image_layers": 1,
    "text_layers": 2,
    "temperature": 0.07,
    "weight_labeled": 0.02,
    "weight_unlabeled": 0.10,
    "image_feature": "pre_fusion",
    "start": "burn_in",
    "nested": False,
    "unlabeled_view": "weak",
}


@pytest.fixture
def alignment():
    """Build a small alignment: alignment(PACL, temperature=0.1)."""
    return lambda kind, **changes: kind(**{**SETTINGS, **changes})
