"""Tiny recursive transformers that fill canvases, and what trains and drives them."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("canvas-trm")
except PackageNotFoundError:  # the sources alone, without an installation
    __version__ = "0+unknown"
