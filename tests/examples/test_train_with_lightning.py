import logging
import re
import runpy


def test_the_example_learns_sums_without_a_warning(
    repository, tmp_path, monkeypatch, caplog, capsys
):
    """Warnings are errors here, but those that the example itself leaves out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train_with_lightning.py", "--epochs", "3"])
    caplog.set_level(logging.ERROR, "lightning.pytorch")  # as the example does; restored afterwards
    runpy.run_path(str(repository / "examples/train_with_lightning.py"), run_name="__main__")
    ran = capsys.readouterr()
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0].endswith(" parameters")
    steps = [re.fullmatch(r"step (\d+), \d+ s: (\d+) % solved", line) for line in lines[1:4]]
    assert [int(step[1]) for step in steps if step] == [40, 80, 120]
    assert [int(step[2]) for step in steps if step][-1] >= 90
    assert "123456 + 987654 = " in lines[-1]
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs", tmp_path / "runs/lightning.ckpt"]
