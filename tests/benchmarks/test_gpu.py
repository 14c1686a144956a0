"""The benchmark for accelerators, tried out on the CPU."""

import importlib
import os
import subprocess
import sys
import time

import pytest
import torch


@pytest.fixture
def gpu(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    return importlib.import_module("gpu")


def test_every_case_is_a_line_with_figures(repository, tmp_path):
    words = "--device cpu --tiny --batch 2 --steps 1 --eager --devices 1 --output gpu.md"
    subprocess.run(
        [sys.executable, repository / "benchmarks/gpu.py", *words.split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )
    text = (tmp_path / "gpu.md").read_text()
    assert torch.__version__ in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    heads = {line[0]: line for line in lines}
    names = {"ours, eager", "drawn by the training process, views on the device", "1 device"}
    assert names < {head.removeprefix("| ") for head in heads}
    measured = [line for line in lines if line[1] in ("bfloat16", "float32")]
    assert len(measured) >= 10
    assert all(line[-1] in ("|", " |") for line in measured)  # nothing to remark
    for line in measured:
        assert line[2] == "2"
        assert float(line[3].replace(",", "")) > 0
    shares = [line[5] for line in measured if line[0].startswith("| drawn")]
    assert len(shares) == 4
    assert all(0 <= float(share.rstrip("%")) <= 100 for share in shares)  # how much is timing


def test_what_does_not_fit_is_tried_with_fewer_samples(gpu, tmp_path):
    def measure(size: int) -> dict[str, str]:
        if size > 2:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} GiB")
        return {"rows/s": "5"}

    report = gpu.Report(tmp_path / "gpu.md", "# title")
    gpu.Case(gpu.SOLVING, "a model", "float32", measure, 8).run(report)
    assert report.rows[gpu.SOLVING] == [
        ["a model", "float32", "8", "-", "out of memory"],
        ["a model", "float32", "4", "-", "out of memory"],
        ["a model", "float32", "2", "5", ""],
    ]


def test_a_case_that_fails_is_a_line_and_the_next_one_is_measured(gpu, tmp_path):
    def fails(size: int) -> dict[str, str]:
        raise RuntimeError("no kernel | for\n this " + "shape " * 100)

    report = gpu.Report(tmp_path / "gpu.md", "# title")
    gpu.Case(gpu.SOLVING, "one", "float32", fails, 8).run(report)
    (line,) = (tmp_path / "gpu.md").read_text().splitlines()[-1:]
    assert line.startswith("| one | float32 | 8 | - | failed: RuntimeError: no kernel \\| for this")
    assert len(line) < 200
    gpu.Case(gpu.SOLVING, "two", "float32", lambda size: {"rows/s": "7"}, 8).run(report)
    assert (tmp_path / "gpu.md").read_text().endswith("| two | float32 | 8 | 7 |  |\n")


def test_what_does_not_fit_into_the_time_is_listed(gpu, tmp_path, monkeypatch):
    words = "gpu.py --device cpu --tiny --minutes 0 --devices 2 --output"
    monkeypatch.setattr("sys.argv", [*words.split(), str(tmp_path / "gpu.md")])
    gpu.main()
    lines = (tmp_path / "gpu.md").read_text().splitlines()
    cases = [line for line in lines if "float" in line and line.startswith("| ")]
    assert len(cases) >= 14
    assert all("not run: the time was up" in line for line in cases)
    for name in ("ours, eager", "1 device", "2 devices"):
        assert any(line.startswith(f"| {name} |") for line in cases)


def test_a_run_of_other_processes_ends_with_the_time(gpu, tmp_path):
    code = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="the time was up"):
        gpu.run_until(begun + 1, [sys.executable, "-c", code], tmp_path)
    assert time.monotonic() < begun + 30
    code = "import sys; sys.exit('first\\nthe reason')"
    with pytest.raises(RuntimeError, match=r"^the reason$"):
        gpu.run_until(time.monotonic() + 60, [sys.executable, "-c", code], tmp_path)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A10G", 70),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("cpu", None),
    ],
)
def test_peaks_are_known_by_the_name_of_the_device(gpu, name, peak):
    assert gpu.known_peak(name) == peak
