import pytest

from semimedref.config import compose, resolved
from semimedref.planning.images import Images, UnknownImagesError, images_of


def images(*overrides):
    return images_of(resolved(compose(list(overrides))))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["dataset=phantom", "ratio=2pct"], Images(100, 4900, 300, 600)),
        (["dataset=qata_cov19", "ratio=2pct"], Images(114, 5602, 1429, 2113)),
        (["dataset=mosmed_plus", "ratio=2pct"], Images(43, 2140, 273, 273)),  # rounded down
        (["dataset=qata_cov19", "ratio=100pct"], Images(5716, 0, 1429, 2113)),
    ],
)
def test_published_numbers_are_known_before_any_file_is_there(overrides, expected):
    assert images(*overrides) == expected


def test_posmed_is_the_sum_of_its_domains():
    found = images("dataset=posmed", "ratio=5pct")
    assert found.labeled == 92 + 30 + 65 + 40
    assert found.labeled + found.unlabeled == 1843 + 599 + 1305 + 806
    assert (found.valid, found.test) == (679 + 50 + 145 + 90, 542 + 113 + 798 + 379)


def test_all_six_groups_of_posmed_are_published_as_one_sum():
    assert images("dataset=posmed", "dataset.domains=6").total == 27996 + 3132 + 7598


def test_a_group_without_published_numbers_is_unknown():
    with pytest.raises(UnknownImagesError, match="published for lung_ct"):
        images("dataset=posmed", "dataset.domains=[lung_ct]")


def test_an_own_data_set_that_is_not_here_is_unknown():
    with pytest.raises(UnknownImagesError, match="own: the number of images is unknown"):
        images("dataset=own", "dataset.annotation=nowhere.csv")


def test_an_own_table_is_counted_without_its_pictures(tmp_path):
    rows = [
        f"{i}.png,{i}_mask.png,a lesion,{s}"
        for i, s in enumerate(("train", "train", "valid", "test"))
    ]
    (tmp_path / "my.csv").write_text("image,mask,text,split\n" + "\n".join(rows) + "\n")
    found = images("dataset=own", f"dataset.annotation={tmp_path / 'my.csv'}", "ratio.fraction=0.5")
    assert found == Images(1, 1, 1, 1)
