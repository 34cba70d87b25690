"""The names of one spec: what each stands for, which have a value at compile time, and which an expression may use."""

from collections.abc import Collection
from dataclasses import dataclass, field

from cadence_runtime.errors import SpecError
from cadence_runtime.host.expression import Expression, ExpressionError, column_of
from cadencec.spec.report import Location, Report
from cadencec.spec.schema import Document
from cadencec.spec.values import one_of, suggest

LENGTH = "t"
"""Stands for the length in the shape of a region."""

_VALUES = ("params", "counters", "model")
"""Sections that declare values; a name may be missing only because one of them did not read."""


@dataclass(slots=True)
class Names:
    """`constants` are the params and the integer options with their values; `kinds` say what each name stands for."""

    document: Document
    report: Report
    constants: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def declare(self, name: str, kind: str, location: Location) -> None:
        """Note what a name stands for; one that stands for two things is an error."""
        if name in self.kinds:
            what = f"`{name}` is both a {self.kinds[name]} and a {kind}"
            self.report.add(SpecError("CAD1302", what, expected="one meaning a name"), location, key=True)
        elif name == LENGTH:
            what = f"`{name}` cannot be a {kind}"
            expected = f"another name; `{LENGTH}` is the length in a region's shape"
            self.report.add(SpecError("CAD1302", what, expected=expected), location, key=True)
        self.kinds.setdefault(name, kind)

    def evaluate(self, expression: Expression, location: Location) -> int | None:
        """Return the value of an expression over constants, or None where there is an error, now reported."""
        if not self.check(expression, location, self.constants):
            return None
        try:
            return expression.evaluate(self.constants)
        except ExpressionError as error:
            self.report.add(error, location)
            return None

    def check(self, expression: Expression, location: Location, allowed: Collection[str]) -> bool:
        """Report every name of an expression that is not allowed there; return whether all are."""
        wrong = [name for name in expression.names if name not in allowed]
        for name in wrong:
            if not self.is_echo(name):
                error = ExpressionError(
                    "CAD1406", f"unknown name `{name}`", expected=one_of(allowed), hint=self._hint(name, allowed)
                )
                error.column = column_of(expression.tree, name)
                self.report.add(error, location)
        return not wrong

    def resolve(self, table: str, kind: str, name: str, location: Location) -> bool:
        """Return whether a table of the document holds a name; report it where that is news."""
        known = getattr(self.document, table)
        if name not in known and not self.report.is_unreadable(table, name):
            error = SpecError("CAD1301", f"unknown {kind} `{name}`", expected=one_of(known), hint=suggest(name, known))
            self.report.add(error, location)
        return name in known

    def is_echo(self, name: str) -> bool:
        """Return whether a name is missing because of an error that is already reported."""
        return name in self.failed or any(self.report.is_unreadable(section, name) for section in _VALUES)

    def _hint(self, name: str, allowed: Collection[str]) -> str | None:
        if name == LENGTH:
            return f"`{LENGTH}` stands alone, in the shape of a region"
        if name in self.kinds:
            return f"`{name}` is a {self.kinds[name]}, which has no value here"
        return suggest(name, allowed) or (None if allowed else f"declare it: `params: {{{name}: 1}}`")


def declare_names(document: Document, report: Report) -> Names:
    """Return the names of a document, with the values of its constants."""
    names = Names(document, report)
    for name, value in document.model.options.items():
        if type(value) is int and name != LENGTH:
            names.kinds[name] = "option"
            names.constants[name] = value
    for name, expression in document.params.items():
        location = ("params", name)
        names.declare(name, "param", location)
        value = names.evaluate(expression, location)
        if value is None:
            names.failed.add(name)
        else:
            names.constants.setdefault(name, value)
    for section, kind in (("clocks", "clock"), ("counters", "counter"), ("regions", "region")):
        for name in getattr(document, section):
            names.declare(name, kind, (section, name))
    return names
