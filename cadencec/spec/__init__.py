"""YAML -> Spec: the clock spec, its loader with line marks and its integer expressions."""

from cadencec.spec.load import load_spec, parse_spec
from cadencec.spec.schema import json_schema
from cadencec.spec.spec import Model, Spec, WeightsFile

__all__ = ["Model", "Spec", "WeightsFile", "json_schema", "load_spec", "parse_spec"]
