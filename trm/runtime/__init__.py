"""What runs where: devices, processes, arithmetic, limits, and progress."""
