import pytest

from trm.files import replacing, write_object


def test_a_write_that_fails_in_the_middle_leaves_the_old_file(tmp_path):
    file = tmp_path / "cell.json"
    write_object(file, {"right": 1})

    def broken() -> None:
        with replacing(file) as part:
            part.write_text("{")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        broken()
    assert file.read_text() == '{"right": 1}\n'
    assert list(tmp_path.iterdir()) == [file]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    file = tmp_path / "grid.md"
    file.write_text("old")
    with replacing(file) as part:
        part.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
