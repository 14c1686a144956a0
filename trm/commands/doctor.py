"""`trm doctor`: what is installed, what computes, and what is missing."""

import argparse
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version

import torch
from rich.console import Console
from rich.table import Table

from trm.commands.arguments import aside
from trm.solving.checkpoint import SHIPPED, load_solver
from trm.training.cli import cpu_multiplies_bfloat16

_PACKAGES = (
    *("canvas-trm", "torch", "lightning", "numpy", "albumentations", "tensorboard"),
    *("matplotlib", "safetensors", "jsonargparse"),
)
_NO_COMPILER = "no C++ compiler: leave model.init_args.compile off on a CPU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace) -> int:
    """Look and tell; 1 if something is missing that a command needs."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    missing = []
    for package in _PACKAGES:
        try:
            table.add_row(package, version(package))
        except PackageNotFoundError:
            table.add_row(package, "missing")
            missing.append(f"{package} is not installed: pip install {package}")
    for name, told in devices().items():
        table.add_row(name, told)
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    compiler = next(filter(None, map(shutil.which, candidates)), None)
    table.add_row("compile", f"yes, with {compiler}" if compiler else _NO_COMPILER)
    try:
        load_solver(SHIPPED, device="cpu")
        table.add_row("shipped model", "there, and loads")
    except (OSError, ValueError) as error:
        table.add_row("shipped model", "missing")
        missing.append(str(error))
    aside(args).print(table)
    for sentence in missing:
        Console(highlight=False).print(sentence, soft_wrap=True, markup=False)
    if not missing:
        aside(args).print("Nothing is missing.")
    return 1 if missing else 0


def devices() -> dict[str, str]:
    """What can compute here, and in which precisions, in words."""
    told = {"cpu": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads; {cpu_precision()}"}
    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        bfloat16 = "bfloat16 and float32" if torch.cuda.is_bf16_supported(False) else "float32"
        told[f"cuda:{i}"] = f"{about.name}, {about.total_memory / 2**30:.0f} GiB; {bfloat16}"
    if torch.backends.mps.is_available():
        told["mps"] = "Apple's GPU"
    if len(told) == 1:
        told["accelerator"] = "none: training and solving run on the CPU"
    return told


def cpu_precision() -> str:
    """In which precision a CPU should train, and why."""
    if cpu_multiplies_bfloat16():
        return "it has bfloat16 units, bf16-mixed is used as configured"
    return "it has no bfloat16 units, bf16-mixed becomes float32"
