"""Files that only their owner may read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.files import private_text, replace_private


def exported(path: Path) -> None:
    with private_text(path) as file:
        file.write("secret")


WAYS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "streamed": (".{}.part", exported),
    "at once": ("{}.new", lambda path: replace_private(path, b"secret")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("left", ["a file", "a link", "a link to nothing"])
def test_what_another_has_left_beside_it_is_not_used(tmp_path: Path, way: str, left: str) -> None:
    """Neither a file that everybody may read, nor one of another's to which a link leads."""
    name, write = WAYS[way]
    path, others = tmp_path / "alice.json", tmp_path / "theirs"
    aside = path.with_name(name.format(path.name))
    if left == "a file":
        aside.touch()
        aside.chmod(0o666)
        others = aside
    else:
        aside.symlink_to(others)
        if left == "a link":
            others.touch()
    known = os.open(others, os.O_RDONLY) if others.exists() else None
    write(path)
    assert (path.read_text(), path.is_symlink(), path.stat().st_mode & 0o777) == ("secret", False, 0o600)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        {path.name, *([others.name] if left == "a link" else [])}
    )
    if known is not None:
        assert os.fstat(known).st_size == 0
        os.close(known)


def test_a_file_that_is_not_written_to_its_end_leaves_the_old_one(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "alice.json"
    path.write_text("old")

    def broken() -> None:
        with private_text(path) as file:
            file.write("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        broken()
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])
