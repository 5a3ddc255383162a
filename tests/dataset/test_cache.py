"""The pixel cache: decoded once, rebuilt when a source changes, safe for several builders."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trees
from trees import QATA

from semimedref.dataset import cache
from semimedref.dataset.roots import cache_root

BUILDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import trees
from semimedref.dataset import cache
read, marker = cache.read_image, Path(sys.argv[3])
def slowly(path):
    marker.touch()
    time.sleep(float(sys.argv[4]))
    return read(path)
cache.read_image = slowly
part = trees.qata(sys.argv[2]).split("train")
print(len(part.images), int(part.masks[:].sum()))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path):
    return trees.qata_one_csv(tmp_path / "data")


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded since."""
    files = []
    for name in ("read_image", "read_mask"):
        read = getattr(cache, name)

        def counted(path, *rest, read=read):
            files.append(path)
            return read(path, *rest)

        monkeypatch.setattr(cache, name, counted)
    return files


def builder(root, marker, seconds):
    command = [sys.executable, "-c", BUILDER, str(Path(__file__).parent), str(root), str(marker)]
    return subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE, text=True)


def folders():
    return sorted(p.name for p in (cache_root() / "pixels").iterdir() if p.is_dir())


def test_the_second_use_decodes_nothing(root, decoded):
    first = trees.qata(root).split("train")
    _ = first.masks[:]
    assert len(decoded) == 12  # six images, six masks
    decoded.clear()
    again = trees.qata(root).split("train")
    np.testing.assert_array_equal(again.images, first.images)
    np.testing.assert_array_equal(again.masks[:], first.masks[:])
    assert decoded == []


def test_only_the_masks_that_are_looked_at_are_decoded(root, decoded):
    part = trees.qata(root).split("train")
    decoded.clear()
    np.testing.assert_array_equal(part.masks[2], QATA[2].mask() // 255)
    assert [file.name for file in decoded] == ["mask_covid_11.png"]


def test_a_changed_image_is_another_cache(root, decoded):
    file = root / "train" / "images" / "covid_1.png"
    before = trees.qata(root).split("train").images[0].copy()
    trees.save(file, 255 - QATA[0].image())
    after = trees.qata(root).split("train").images[0]
    np.testing.assert_array_equal(after, 255 - before)
    assert len(folders()) == 2


def test_a_change_is_seen_even_if_size_and_time_of_the_file_are_restored(root):
    file = root / "train" / "images" / "covid_1.bmp"
    (root / "train" / "images" / "covid_1.png").unlink()
    trees.save(file, QATA[0].image())
    old = file.stat()
    _ = trees.qata(root).split("train").images
    trees.save(file, 255 - QATA[0].image())
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert file.stat().st_size == old.st_size
    after = trees.qata(root).split("train").images[0]
    np.testing.assert_array_equal(after, 255 - QATA[0].image())


def test_a_changed_mask_is_decoded_again_and_no_other(root, decoded):
    _ = trees.qata(root).split("train").masks[:]
    decoded.clear()
    trees.save(root / "train" / "masks" / "mask_covid_1.png", QATA[1].mask())
    masks = trees.qata(root).split("train").masks
    np.testing.assert_array_equal(masks[:][0], QATA[1].mask() // 255)
    assert [file.name for file in decoded] == ["mask_covid_1.png"]


def test_another_transform_is_another_cache(root):
    _ = trees.qata(root).split("train").images
    dataset = trees.qata(root)
    dataset.transform = cache.Transform(trees.SIDE, False, "above_half")
    _ = dataset.split("train").images
    assert len(folders()) == 2


def test_two_builders_at_once_give_one_good_cache(root, tmp_path):
    both = [builder(root, tmp_path / f"marker{i}", 0.05) for i in range(2)]
    said = [process.communicate(timeout=60)[0].split() for process in both]
    total = sum(int((case.mask() > 0).sum()) for case in QATA if case.split == "train")
    assert said == [["6", str(total)]] * 2
    started = [(tmp_path / f"marker{i}").exists() for i in range(2)]
    assert sum(started) == 1  # the other one waited and found the work done
    assert len(folders()) == 1


def test_a_killed_build_leaves_nothing_that_is_taken_for_a_cache(root, tmp_path):
    process = builder(root, tmp_path / "marker", 30)
    deadline = time.monotonic() + 60
    while not (tmp_path / "marker").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert all(name.endswith(".partial") for name in folders())
    part = trees.qata(root).split("train")
    np.testing.assert_array_equal(part.images[0], QATA[0].image())
    assert len(folders()) == 1 and not folders()[0].endswith(".partial")


def test_a_damaged_picture_stops_the_build_and_leaves_nothing(root):
    (root / "train" / "images" / "covid_1.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"covid_1\.png: image file is empty"):
        trees.qata(root).split("train")
    assert folders() == []
