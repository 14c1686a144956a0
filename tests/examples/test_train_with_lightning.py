import os
import re
import subprocess
import sys


def test_the_example_learns_sums_without_a_warning(repository, tmp_path):
    """In a process of its own, as users run it: here, pytest turns warnings into errors."""
    words = [sys.executable, str(repository / "examples/train_with_lightning.py"), "--epochs", "3"]
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    how = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    ran = subprocess.run(words, timeout=300, check=True, **how)
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[0].endswith(" parameters")
    steps = [re.fullmatch(r"step (\d+), \d+ s: (\d+) % solved", line) for line in lines[1:4]]
    assert [int(step[1]) for step in steps if step] == [40, 80, 120]
    assert [int(step[2]) for step in steps if step][-1] >= 90
    assert "123456 + 987654 = " in lines[-1]
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs", tmp_path / "runs/lightning.ckpt"]
