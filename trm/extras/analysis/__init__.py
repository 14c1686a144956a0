"""Analysis of trained models: probes, patching, logit lens, ranks, and programs in RASP."""
