"""A few cases of QaTa-COV19 and MosMedData+ as the tests draw them."""

import zlib
from dataclasses import dataclass

import numpy as np

SIDE = 24


@dataclass(frozen=True)
class Made:
    """A case as the tests draw it."""

    file: str  # as the pictures are called on disk
    split: str
    position: str  # left upper, middle, lower, right upper, middle, lower
    sgseg: str
    lvit: str

    @property
    def id(self):
        return self.file.lower()

    def image(self):
        rng = np.random.default_rng(zlib.crc32(self.file.encode()))
        return rng.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)

    def mask(self):
        """255 in a block inside every marked third of a half."""
        pixels = np.zeros((SIDE, SIDE), np.uint8)
        for region, on in enumerate(self.position):
            if on == "1":
                half, third = divmod(region, 3)
                top, left = third * SIDE // 3 + 2, half * SIDE // 2 + 3
                pixels[top : top + 4, left : left + 6] = 255
        return pixels


LEFT = ("100000", "unilateral pulmonary infection, one infected area, upper left lung.",
        "Unilateral pulmonary infection, one infected area, upper left lung.")  # fmt: skip
RIGHT = ("000011", "unilateral pulmonary infection, two infected areas, middle lower right lung.",
         "Unilateral pulmonary infection, one infected area, middle lower right lung.")  # fmt: skip
BOTH = ("111001", "bilateral pulmonary infection, four infected areas, upper middle lower left "
        "lung and lower right lung.",
        "Bilateral pulmonary infection, two infected areas, all left lung and lower right "
        "lung.")  # fmt: skip

QATA = [
    Made("covid_1.png", "train", *LEFT),
    Made("covid_10.png", "train", *RIGHT),
    Made("covid_11.png", "train", *LEFT),
    Made("covid_12.png", "train", *BOTH),
    Made("sub-S10001_ses-E20001_run-1_bp-chest_vp-ap_dx.png", "train", *BOTH),
    Made("sub-S10001_ses-E20002_run-1_bp-chest_vp-ap_dx.png", "train", *RIGHT),
    Made("covid_2.png", "valid", *LEFT),
    Made("sub-S10002_ses-E20003_run-1_bp-chest_vp-ap_cr.png", "valid", *BOTH),
    Made("sub-S10002_ses-E20004_run-1_bp-chest_vp-ap_cr.png", "valid", *RIGHT),
    Made("sub-S10003_ses-E20005_run-1_bp-chest_vp-pa_cr.png", "test", *LEFT),
    Made("sub-S10004_ses-E20006_run-1_bp-chest_vp-pa_cr.png", "test", *BOTH),
    Made("sub-S10004_ses-E20007_run-1_bp-chest_vp-pa_cr.png", "test", *RIGHT),
]

ONE = ("010000", "", "Unilateral pulmonary infection, one infected areas, middle left lung.")
SLOT = ("000010", "", "Unilateral pulmonary infection, one infected areas, left lung and middle "
        "right lung.")  # fmt: skip
WHOLE = ("111010", "", "Bilateral pulmonary infection, nine infected areas, all left lung and "
         "middle right lung..")  # fmt: skip

MOSMED = [
    Made("Jun_coronacases_case1_10.png", "train", *ONE),
    Made("Jun_coronacases_case1_9.png", "train", *SLOT),
    Made("Jun_radiopaedia_40_86625_0_case18_103.png", "train", *WHOLE),
    Made("Morozov_study_0255_12.png", "train", *ONE),
    Made("bjorke_1.png", "train", *WHOLE),
    Made("bjorke_10.png", "train", *SLOT),
    Made("Morozov_study_0256_1.png", "valid", *ONE),
    Made("Morozov_study_0256_2.png", "valid", *SLOT),
    Made("bjorke_5.png", "valid", *WHOLE),
    Made("Jun_coronacases_case2_30.png", "test", *ONE),
    Made("Jun_coronacases_case2_31.png", "test", *WHOLE),
    Made("bjorke_7.png", "test", *SLOT),
]


def of(cases, split):
    return [case for case in cases if case.split == split]


def gray_mask(case):
    """The mask of a case with a soft edge that rounds to the same: 200 inside, 100 outside."""
    mask = case.mask()
    soft = np.where(mask > 0, 200, 0).astype(np.uint8)
    soft[mask > 0] = np.where(np.arange((mask > 0).sum()) % 2, 255, 200)
    soft[-1, -1] = 100
    return soft
