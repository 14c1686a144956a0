"""Many problems: files in, records out, on any number of devices."""
