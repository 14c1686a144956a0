"""`trm --doctor`: what is installed, what computes, and what is missing.

Nothing outside the standard library is imported but to see whether it can be.
"""

import importlib
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

_OURS = "canvas-trm"


def run() -> int:
    """Look and report; 1 if something is missing that a command needs."""
    print(f"python {platform.python_version()} on {platform.platform()}")
    missing = []
    for package in (_OURS, *needed()):
        try:
            print(package, version(package))
        except PackageNotFoundError:
            missing.append(f"{package} is not installed: pip install {package}")
    try:
        importlib.import_module("lightning")
        import torch

        from trm.checkpoints import SHIPPED
        from trm.checkpoints.loading import load_solver
        from trm.precision import cpu_multiplies_bfloat16

        units = "" if cpu_multiplies_bfloat16() else "no "
        print(f"cpu: {os.cpu_count()} cores, {units}bfloat16 units")
        for i in range(torch.cuda.device_count()):
            print(f"cuda:{i}: {torch.cuda.get_device_properties(i)}")
        if torch.backends.mps.is_available():
            print("mps: Apple's GPU")
        load_solver(SHIPPED, device="cpu")
    except (ImportError, OSError, ValueError) as error:  # OSError: of a library, or of the model
        missing.append(f"it cannot be used as it is: {error}")
    print("\n".join(missing) or "Nothing is missing.")
    return 1 if missing else 0


def needed() -> list[str]:
    """The packages that this one needs, as its own metadata has them."""
    wanted = requires(_OURS) or []
    names = [re.match(r"[\w.-]+", line) for line in wanted if "extra ==" not in line]
    return [name[0] for name in names if name]
