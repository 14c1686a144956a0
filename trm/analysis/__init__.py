"""What goes on inside trained models: probes, patching, lens, ranks, and programs in RASP."""
