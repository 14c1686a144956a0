"""What tests of training share."""

from pathlib import Path

import pytest


@pytest.fixture
def debug(repository: Path) -> tuple:
    return "--config", repository / "configs/debug.yaml"
