"""``method=amvlm``: the teacher's mask and the sentence's make the pseudo-mask (TMI 2025)."""

from __future__ import annotations

from semimedref.method.vlm_taught import VLMTaught


class AMVLMMethod(VLMTaught):
    """L = L_seg(student, [mask; pseudo]) + w L_grounding: the text mask has no further loss."""
