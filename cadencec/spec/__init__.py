"""YAML -> Spec: the clock spec, its loader with line marks and its integer expressions."""
