"""Path -> Spec: read, override, validate, resolve, and report every independent error with its place."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cadencec.spec.limits import check_fits
from cadencec.spec.overrides import apply_override
from cadencec.spec.program import build_program
from cadencec.spec.report import Place, Places, Report
from cadencec.spec.schema import Document, ModelDoc
from cadencec.spec.source import compose, plain, read_text
from cadencec.spec.spec import Model, Spec, WeightsFile
from cadencec.spec.validate import validate


def load_spec(path: str | Path, overrides: Mapping[str, str] | None = None) -> Spec:
    """Read a clock spec. `overrides` set values by name, as `--set` does: a param, an option of the model, or a dotted
    name such as `regions.kv.start`; their values are YAML.

    Raise `SpecError`, or `ErrorList` of several sorted by place.
    """
    return parse_spec(read_text(str(path)), str(path), overrides)


def parse_spec(text: str, path: str, overrides: Mapping[str, str] | None = None) -> Spec:
    """Read a clock spec from its text; `path` names it in messages."""
    tree, errors = compose(text, path)
    report = Report(Places(path))
    report.places.add((), tree, path)
    report.add_placed(errors)
    data = plain(tree)
    for key, value in (overrides or {}).items():
        apply_override(data, key, value, report)
    report.next_pass()
    document = validate(data, report)
    report.next_pass()
    program = build_program(document, report)
    report.raise_found()
    model = _model(document.model)
    check_fits(model, program, report)
    report.raise_found()
    return Spec(
        path=path,
        model=model,
        numerics=tuple(sorted(document.numerics.items())),
        program=program,
        sha256=_digest(document),
        stock_bytes=tuple(_stock_bytes(document, dict(program.params))),
        marks={".".join(map(str, location)): _at(place) for location, place in report.places.table.items()},
    )


def _stock_bytes(document: Document, constants: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for name, region in document.regions.items():
        if region.stock_bytes is not None:
            yield name, region.stock_bytes.evaluate(constants)


def _at(place: Place) -> str:
    return f"{place.origin}:{place.key.line}:{place.key.column}"


def _model(model: ModelDoc) -> Model:
    weights = tuple(WeightsFile(item.file, item.sha256, item.prefix) for item in model.weights or ())
    return Model(model.name, model.entry, tuple(sorted(model.options.items())), weights)


def _digest(document: Document) -> str:
    """Hash fields in the order of the schema and tables in written order, which the order of events needs."""
    canonical = document.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(canonical, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
