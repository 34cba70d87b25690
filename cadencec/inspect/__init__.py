"""What is in a plan: read from the file alone, with neither torch nor a device nor the model."""

from cadencec.inspect.bill import bill_of_file
from cadencec.inspect.inspection import Inspection, inspect, inspect_plan, to_json
from cadencec.inspect.render import render

__all__ = ["Inspection", "bill_of_file", "inspect", "inspect_plan", "render", "to_json"]
