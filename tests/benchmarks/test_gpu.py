"""The benchmark for accelerators, tried out on the CPU."""

import sys
import time

import pytest
import torch


@pytest.fixture
def gpu(program, monkeypatch):
    found = program("gpu")
    monkeypatch.setattr(found.gc, "collect", lambda: None)  # which takes as long as the cases
    return found


def test_every_case_is_a_line_with_figures(gpu, tmp_path, monkeypatch):
    words = "gpu.py --device cpu --tiny --batch 2 --steps 1 --eager --devices 0 --output"
    monkeypatch.setattr("sys.argv", [*words.split(), str(tmp_path / "gpu.md")])
    gpu.main()
    text = (tmp_path / "gpu.md").read_text()
    assert torch.__version__ in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    names = {line[0].removeprefix("| ") for line in lines}
    assert {"ours, eager", "drawn by the training process, turned"} < names
    measured = [line for line in lines if line[1] in ("bfloat16", "float32")]
    assert len(measured) >= 9
    for line in measured:
        assert line[-1] in ("|", " |")  # nothing to remark
        assert line[2] == "2"
        assert float(line[3].replace(",", "")) > 0


def test_a_failed_case_is_a_line_and_the_next_case_is_measured(gpu, tmp_path):
    def measure(batch: int) -> dict[str, str]:
        if batch > 2:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {batch} GiB")
        return {"rows/s": "5"}

    def fails(batch: int) -> dict[str, str]:
        raise RuntimeError("no kernel | for\n this " + "shape " * 100)

    report = gpu.Report(tmp_path / "gpu.md", "# title")
    report.run((gpu.SOLVING, "one", "float32", fails), 8)
    report.run((gpu.SOLVING, "two", "float32", measure), 8)
    failed, *rest = report.rows[gpu.SOLVING]
    assert failed[:-1] == ["one", "float32", "8", "-"]
    assert failed[-1].startswith("failed: RuntimeError: no kernel \\| for this")
    short = [["two", "float32", batch, "-", "out of memory"] for batch in "84"]
    assert rest == [*short, ["two", "float32", "2", "5", ""]]
    assert (tmp_path / "gpu.md").read_text().endswith("| two | float32 | 2 | 5 |  |\n")


def test_a_run_of_other_processes_ends_with_the_time(gpu, tmp_path):
    code = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="the time was up"):
        gpu.run_until(begun + 1, [sys.executable, "-c", code], tmp_path)
    assert time.monotonic() < begun + 30
