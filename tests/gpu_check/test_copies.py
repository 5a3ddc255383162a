import torch

from semimedref.gpu_check.copies import Copies
from semimedref.model.reader import TextInput


def test_copies_from_the_host_are_noted_with_the_line_of_our_code():
    text = TextInput(torch.zeros(4, 24, dtype=torch.int64), None, torch.zeros(4).long())
    with Copies("meta") as copies:
        text.to("meta")
    (largest,) = copies.seen  # one line, of whose copies the larger counts
    assert largest.bytes == 4 * 24 * 8 and not largest.pinned
    assert largest.place.startswith("semimedref/model/reader.py:")
    assert copies.summary() == "0 page-locked copies, 1 others, at most 768 bytes"


def test_only_large_pageable_copies_are_too_large():
    with Copies("meta") as copies:
        torch.zeros(100).to("meta")
    assert [c.bytes for c in copies.above(399)] == [400]
    assert copies.above(400) == []


def test_work_on_the_device_is_no_copy():
    x = torch.zeros(3, device="meta")
    with Copies("meta") as copies:
        (x + 1).to(torch.float64)
    assert copies.seen == []
