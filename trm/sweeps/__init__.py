"""Studies: many runs that differ in what a file says, trained, evaluated and laid side by side."""
