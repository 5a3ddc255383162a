"""Options that an error or a fix prints can be copied."""

import shlex

import pytest

from semimedref.config import compose
from semimedref.dataset.command_line import override


@pytest.mark.parametrize("path", ["data/QaTa", "with space (1)", "a,b", "x=y", "it's", 'say "a"'])
def test_a_path_comes_back_as_it_was(path):
    (arg,) = shlex.split(override("dataset.root", path))
    assert compose(["dataset=qata_cov19", arg]).dataset.root == path


def test_a_plain_path_is_not_quoted():
    assert override("dataset.root", "/data/MosMedData+") == "dataset.root=/data/MosMedData+"
