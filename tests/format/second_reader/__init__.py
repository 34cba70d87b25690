"""A second reader of plan files, which follows docs/format.md and docs/spec.md, to hold the first one to the page.

It shares no code and no types with `cadence_runtime`: `read(data)` returns plain dicts, lists, integers and strings
with the page's names, or raises `Refused`. It is naive on purpose, and meant for small plans.
"""

from typing import Any

from . import closure, container, graphs, manifest, rules, tables, tapes
from .refused import Refused, need

__all__ = ["Refused", "read"]


def read(data: bytes) -> dict[str, Any]:
    """Return all that a plan file holds; raises Refused where the page says that a reader refuses."""
    sections = container.sections(data)
    plan = manifest.decode(sections["manifest"])
    plan["tapes"] = tapes.decode(sections["tapes"])
    plan["nodes"] = tables.nodes(sections["nodes"], plan)
    plan["transitions"] = tables.transitions(sections["transitions"], plan)
    plan["cuda"] = graphs.decode(sections["graphs"])
    need(container.minor(data) == graphs.oldest(sections["graphs"]), "the oldest version")
    plan["blobs"] = container.blobs(sections["blob-table"], sections["blobs"])
    rules.check(plan)
    closure.check(plan)
    return plan
