"""The walk through a folder of data ends, whatever its links point at."""

from semimedref.dataset.walk import walk


def files(root):
    return [(folder / name).relative_to(root).as_posix() for folder, _, names in walk(root)
            for name in names]  # fmt: skip


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_links_to_where_one_is_end(tmp_path):
    touch(tmp_path / "a.png", tmp_path / "sub" / "b.png")
    for link in (tmp_path / "l1", tmp_path / "l2", tmp_path / "sub" / "l3"):
        link.symlink_to(tmp_path)
    assert files(tmp_path) == ["a.png", "sub/b.png"]


def test_a_link_out_of_the_root_is_followed_but_not_upwards(tmp_path):
    touch(tmp_path / "root" / "a.png", tmp_path / "disk" / "b.png", tmp_path / "c.png")
    (tmp_path / "root" / "images").symlink_to(tmp_path / "disk")
    (tmp_path / "root" / "up").symlink_to(tmp_path)
    assert files(tmp_path / "root") == ["a.png", "images/b.png"]


def test_a_folder_is_met_under_its_own_name_before_a_linked_one(tmp_path):
    touch(tmp_path / "z" / "deep" / "a.png")
    (tmp_path / "a_link").symlink_to(tmp_path / "z" / "deep")
    assert files(tmp_path) == ["z/deep/a.png"]


def test_hidden_files_and_what_macos_leaves_are_not_met(tmp_path):
    touch(tmp_path / ".git" / "a.png", tmp_path / "__MACOSX" / "b.png", tmp_path / "x" / "._c.png")
    assert files(tmp_path) == []


def test_a_folder_that_is_taken_out_is_not_entered(tmp_path):
    touch(tmp_path / "in" / "a.png", tmp_path / "out" / "b.png")
    met = []
    for folder, below, _ in walk(tmp_path):
        met.append(folder.name)
        below[:] = [name for name in below if name != "out"]
    assert met == [tmp_path.name, "in"]
