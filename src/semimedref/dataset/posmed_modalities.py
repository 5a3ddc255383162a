"""The six native groups of PosMed and what the paper does with each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from semimedref.errors import UserError


@dataclass(frozen=True)
class Modality:
    """One group of PosMed.

    Attributes:
        number: its place in the seeds of the partition.
        name: the domain, in the words of the authors' lists.
        table: the name of its table and of its folder of pictures.
        reported: whether it stands in the paper's table.
        split: by the folds of its patients; as published; or with validation groups drawn from
            the training groups, where a published validation set joins the test set.
        group: what an image belongs to: a patient, a study of many slices, or itself.
    """

    number: int
    name: str
    table: str
    reported: bool
    split: Literal["folds", "official", "drawn"]
    group: Literal["patient", "study", "case"]


MODALITIES = (
    Modality(0, "brain_mri", "brain_tumors_ct_scan", True, "folds", "patient"),
    Modality(1, "breast_ultrasound", "breast_tumors_ct_scan", True, "official", "case"),
    Modality(2, "lung_ct", "lung_CT", False, "drawn", "study"),
    Modality(3, "lung_xray", "lung_Xray", False, "official", "case"),
    Modality(4, "polyp_endoscopy", "polyp_endoscopy", True, "drawn", "case"),
    Modality(5, "skin_dermoscopy", "skin_rgbimage", True, "drawn", "case"),
)
_NAMES = {word.lower(): m for m in MODALITIES for word in (m.table, m.name)}


def modality_of(word: str) -> Modality | None:
    """The modality of that name or with a table of that name, in any spelling of its letters."""
    return _NAMES.get(word.strip().lower())


def chosen_modalities(domains: int | Sequence[str]) -> tuple[Modality, ...]:
    """The modalities of a model: the 4 that the paper reports, all 6, or some by name."""
    if domains == len(MODALITIES):
        return MODALITIES
    reported = tuple(m for m in MODALITIES if m.reported)
    if domains == len(reported):
        return reported
    if not isinstance(domains, int):
        named = [modality_of(word) for word in domains]
        if named and None not in named:
            return tuple(m for m in MODALITIES if m in named)
    names = ", ".join(m.name for m in MODALITIES)
    raise UserError(f"dataset.domains={domains}: expected 4, 6 or a list of {names}")
