"""`trm doctor`: what is installed, what computes, and what is missing.

It works where next to nothing is installed: nothing outside the standard library is imported but
to see whether it can be.
"""

import argparse
import importlib
import os
import platform
import re
import shutil
from importlib.metadata import PackageNotFoundError, requires, version

_OURS = "canvas-trm"
_IMPORTED = ("torch", "lightning")  # can be installed and yet not work
_NO_COMPILER = "no C++ compiler: leave model.init_args.compile off on a CPU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace) -> int:
    """Look and report; 1 if something is missing that a command needs."""
    report = {"python": f"{platform.python_version()} on {platform.platform()}"}
    missing = []
    for package in (_OURS, *needed()):
        try:
            report[package] = version(package)
        except PackageNotFoundError:
            report[package] = "missing"
            missing.append(f"{package} is not installed: pip install {package}")
    for module in _IMPORTED:
        try:
            importlib.import_module(module)
        except (ImportError, OSError) as error:  # OSError: of a library that it loads
            if report.get(module) != "missing":
                missing.append(f"{module} is installed and cannot be imported: {error}")
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    compiler = next(filter(None, map(shutil.which, candidates)), None)
    report["compile"] = f"yes, with {compiler}" if compiler else _NO_COMPILER
    if missing:
        report["devices"] = report["shipped model"] = "not looked at: first install what is missing"
    else:
        report |= devices()
        report["shipped model"], wrong = shipped()
        missing += wrong
    if not args.quiet:
        for name, sentence in report.items():
            print(f"{name:<{max(map(len, report))}}  {sentence}")
    for sentence in missing:
        print(sentence)
    if not missing and not args.quiet:
        print("Nothing is missing.")
    return 1 if missing else 0


def needed() -> list[str]:
    """The packages that this one needs, as its own metadata has them."""
    try:
        wanted = requires(_OURS) or []
    except PackageNotFoundError:
        return []
    names = [re.match(r"[\w.-]+", line) for line in wanted if "extra ==" not in line]
    return [name[0] for name in names if name]


def shipped() -> tuple[str, list[str]]:
    """Whether the shipped model can be used, and what is wrong with it."""
    from trm.checkpoints import SHIPPED
    from trm.checkpoints.loading import load_solver

    try:
        load_solver(SHIPPED, device="cpu")
    except (OSError, ValueError) as error:
        return "missing", [str(error)]
    return "there, and loads", []


def devices() -> dict[str, str]:
    """What can compute here, and in which precisions, in words."""
    import torch

    report = {
        "cpu": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads; {cpu_precision()}"
    }
    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        bfloat16 = "bfloat16 and float32" if torch.cuda.is_bf16_supported(False) else "float32"
        report[f"cuda:{i}"] = f"{about.name}, {about.total_memory / 2**30:.0f} GiB; {bfloat16}"
    if torch.backends.mps.is_available():
        report["mps"] = "Apple's GPU"
    if len(report) == 1:
        report["accelerator"] = "none: training and solving run on the CPU"
    return report


def cpu_precision() -> str:
    """In which precision a CPU should train, and why."""
    from trm.precision import cpu_multiplies_bfloat16

    if cpu_multiplies_bfloat16():
        return "it has bfloat16 units, bf16-mixed is used as configured"
    return "it has no bfloat16 units, bf16-mixed becomes float32"
