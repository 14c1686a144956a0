"""Studies: training, evaluation and comparison of the runs that a YAML file lists."""
