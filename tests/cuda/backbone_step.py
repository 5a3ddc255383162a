"""The real step of every network at its published size on fake CUDA tensors; see fake_cuda.py."""

from method_step import check_step

from semimedref.config import compose

ALONE = ["method=supervised", "augment=none", "align=none"]
SEMI = ["method=teacher_student", "augment=semi_medref", "align=pacl"]
RANDOM = ["image_encoder.weights=random", "text_encoder.weights=random"]
# The encoders that each network was published with, where they are not those of the scale.
ENCODERS = {
    "lavt": ["image_encoder=swin_base", "text_encoder=bert", "text_encoder.frozen=false"],
    "lvit": ["text_encoder=bert_words"],
    "vitexnet_recon": ["image_encoder=hf_swin_tiny"],
}


def step(name):
    """A supervised step and one of Semi-MedRef; the U-Net has no words to mix and to compare."""
    words = ["scale=paper", f"model={name}", *ENCODERS.get(name, []), *RANDOM]
    semi = SEMI if name != "unet" else ["method=teacher_student", "augment=weak_strong"]
    return {
        kind: check_step(compose([*words, *options]))
        for kind, options in (("alone", ALONE), ("semi", semi))
    }


def __getattr__(name):
    """The checks are called by the network's name."""
    return lambda: step(name)
