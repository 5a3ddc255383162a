"""``method=dusss``: the sentence's mask and the teacher's teach each other (AAAI 2025)."""

from __future__ import annotations

from semimedref.method.vlm_taught import VLMTaught


class DuSSS(VLMTaught):
    """L = (L_seg(student, [mask; pseudo]) + L_seg(text mask, teacher)) / 2 + w L_grounding."""
