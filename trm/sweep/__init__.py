"""Many runs that differ in what a YAML file says: trained, evaluated, side by side."""
