"""Devices, processes, arithmetic, limits and progress."""
