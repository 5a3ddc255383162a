"""Checks that run on fake CUDA tensors; see fake_cuda.py."""

import torch
import torch.nn.functional as F
from fake_cuda import DEVICE, fake_step_check
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.nn import Linear

from semimedref.model.encoders.bert import BertText
from semimedref.model.encoders.convnext import ConvNeXtTiny
from semimedref.model.mmi_unet import MMIUNet
from semimedref.model.segmenter import TextInput


def build_mmi_unet():
    """The published size; the teacher shares the frozen text encoder."""
    text = BertText(
        weights="random",
        tokenizer=None,
        layers=12,
        width=768,
        heads=12,
        ffn_width=3072,
        vocabulary=30522,
        dropout_rate=0.25,
        unk_pos="special",
        max_tokens=24,
        frozen=True,
        dropout=True,
        cache=False,
        center_on=None,
        random_seed=0,
    )
    student = MMIUNet(
        ConvNeXtTiny(weights="random"),
        text,
        image_side=224,
        heads=8,
        ffn_width=128,
        dropout=0.1,
        position_code=False,
        mask_padding=False,
    )
    return student.train(), student.twin()


def full_step():
    sizes = {}

    def start(student, teacher, *, autocast=False):
        trained = [p for p in student.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=3e-4, foreach=True, capturable=True)
        image = torch.randn(4 + 4, 1, 224, 224, device=DEVICE)
        mask = torch.rand(4, 1, 224, 224, device=DEVICE).round()
        text = TextInput(
            input_ids=torch.randint(5, 30522, (8, 24), device=DEVICE),
            attention_mask=torch.ones(8, 24, device=DEVICE, dtype=torch.bool),
            rows=None,
        )
        pairs = [
            (ours, theirs)
            for (key, ours), theirs in zip(
                teacher.trainable_state().items(), student.trainable_state().values(), strict=True
            )
            if not key.endswith("num_batches_tracked")
        ]
        ema, new = map(list, zip(*pairs, strict=True))

        def step():
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                with torch.no_grad():
                    pseudo = (teacher(image[4:], _half(teacher, text)).sigmoid() > 0.5).float()
                logits = student(image, student.encode_text(text, dropout=True))
                product = image[0, 0] @ image[0, 0]
            sizes["precision"] = [*sizes.get("precision", []), str(product.dtype)]
            loss = F.binary_cross_entropy_with_logits(logits.float(), torch.cat([mask, pseudo]))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            torch._foreach_lerp_(ema, new, 0.01)
            sizes["logits"] = list(logits.shape)
            sizes["gradients"] = sum(p.numel() for p in trained if p.grad is not None)
            sizes["device"] = str(loss.device)

        return step

    fake_step_check(build_mmi_unet, start)
    fake_step_check(build_mmi_unet, lambda s, t: start(s, t, autocast=True), steps=1)
    return sizes


def _half(teacher, text):
    return teacher.encode_text(TextInput(text.input_ids[4:], text.attention_mask[4:], rows=None))


class _ReadsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient.cpu().to(DEVICE)


def _bugs():
    x = torch.randn(4, 4, device=DEVICE)
    host = torch.randn(4, 4)
    return {
        "item": lambda net: net(x).mean().item(),
        "branch on a tensor": lambda net: 1 if net(x).mean() > 0 else 0,
        "boolean mask read": lambda net: net(x)[x > 0],
        "boolean mask write": lambda net: net(x).detach().index_put_((x > 0,), x.flatten()[:3]),
        "cpu operand": lambda net: net(x) + host,
        "cpu index": lambda net: net(x)[torch.arange(2)],
        "cpu generator": lambda net: torch.rand(4, device=DEVICE, generator=torch.Generator()),
        "cpu()": lambda net: net(x).cpu(),
        "numpy()": lambda net: net(x).detach().numpy(),
        "list to device": lambda net: net(x) + torch.tensor([1.0, 2, 3, 4], device=DEVICE),
        "to device": lambda net: net(host.to(DEVICE)),
        "nonzero": lambda net: net(x).nonzero(),
        "cpu() in backward": lambda net: _ReadsInBackward.apply(net(x)).sum().backward(),
    }


def seeded_bugs():
    """Return bug -> exception that it raised, None if it passed unseen."""
    names = []

    def start(net):
        names.extend(_bugs())
        return lambda: net(torch.randn(4, 4, device=DEVICE))

    fake_step_check(lambda: [Linear(4, 4)], start)  # a clean step passes
    return {name: _caught(name) for name in names}


def _caught(name):
    def start(net):
        bug = _bugs()[name]
        return lambda: bug(net)

    try:
        fake_step_check(lambda: [Linear(4, 4)], start, steps=1)
    except Exception as error:
        return type(error).__name__
    return None


def hidden_wait_of_a_flat_bert_mask():
    """A (B, L) mask makes transformers ask the device for its content: must be seen."""
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2)

    def start(bert):
        ids = torch.zeros(2, 8, dtype=torch.int64, device=DEVICE)
        mask = torch.ones(2, 8, dtype=torch.bool, device=DEVICE)
        return lambda: bert(ids, attention_mask=mask)

    try:
        fake_step_check(lambda: [BertModel(config, add_pooling_layer=False)], start)
    except DataDependentOutputException as error:
        return str(error)
    return None


def everything():
    return {
        "step": full_step(),
        "bugs": seeded_bugs(),
        "flat mask": hidden_wait_of_a_flat_bert_mask(),
    }
