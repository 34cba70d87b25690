"""Integer expressions of the clock spec: total, safe, and the same everywhere.

    or        a or b                      1 or 0; the right side is looked at only where it decides
    and       a and b                     likewise
    not       not a
    compare   a == b, != < <= > >=        1 or 0; a chain `a < b < c` is refused
    sum       a + b, a - b
    product   a * b, a // b, a % b        `//` and `%` round towards minus infinity, as in Python
    minus     -a
    value     12   name   (a)   min(a, b, ...)   max(a, b, ...)

Weakest first; `+ - * // %` group to the left. Values are integers of 64 bits with sign, at every step: what does not
fit is an error and never wraps. Anything but 0 is true. There is no call, attribute, string or float, so an expression
always ends, in time linear in its text.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce

from cadence_runtime.errors import SpecError
from cadence_runtime.frozen import frozen

MAX_TEXT = 1000
"""Characters of an expression, as written and in canonical form."""
MAX_DEPTH = 64
"""Levels of an expression's tree."""
LOWER, UPPER = -(2**63), 2**63 - 1
RESERVED = frozenset({"and", "or", "not", "min", "max"})
"""Words that cannot be names."""

Env = Mapping[str, int]
Run = Callable[[Env], int]


class ExpressionError(SpecError):
    """An expression that cannot be read or has no value; `column` counts characters of its text from 1."""

    column = 1
    is_cut = False
    """Whether the text ends inside parentheses."""


@frozen
class Int:
    """A number as written."""

    value: int


@frozen(compared=("name",))
class Name:
    """A name that the environment must hold."""

    name: str
    column: int


@frozen(compared=("op", "operands"))
class Call:
    """An operator (`or and not == != < <= > >= + - * // % neg`) or function (`min max`) on its operands."""

    op: str
    operands: "tuple[Node, ...]"
    column: int


Node = Int | Name | Call


@frozen(compared=("text",))
class Expression:
    """A parsed expression. `text` is canonical: `parse(text)` is this expression again. `source` is the text as it was
    written, which columns count in; `names` are sorted."""

    text: str
    source: str
    names: tuple[str, ...]
    tree: Node
    run: Run

    def evaluate(self, env: Env) -> int:
        """Return the value; raise `ExpressionError` for an unknown name, a division by zero or an overflow."""
        try:
            return self.run(env)
        except KeyError as missing:
            name = str(missing.args[0])
            raise _error("CAD1406", f"unknown name `{name}`", (self.source, column_of(self.tree, name))) from None

    def __reduce__(self) -> tuple[object, ...]:
        return (parse, (self.text,))

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Read an expression; raise `ExpressionError` with the column of what is wrong."""
    if len(text) > MAX_TEXT:
        raise _error("CAD1404", "expression is too long", (text, MAX_TEXT), f"at most {MAX_TEXT} characters")
    tree = _Parser(text).whole()
    canonical = _text(tree)
    if len(canonical) > MAX_TEXT:
        raise _error("CAD1404", "expression is too long", (text, 1), f"at most {MAX_TEXT} characters once spaced")
    return Expression(canonical, text, tuple(sorted(set(_names(tree)))), tree, _compile(tree, text))


def constant(value: int) -> Expression:
    """Return the expression that is always `value`."""
    return parse(str(value))


def terms(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that `and` joins, in order; an expression without `and` is its own only term."""
    tree = expression.tree
    if not isinstance(tree, Call) or tree.op != "and":
        return (expression,)
    parts = (
        Expression(
            _text(node), expression.source, tuple(sorted(set(_names(node)))), node, _compile(node, expression.source)
        )
        for node in tree.operands
    )
    return tuple(term for part in parts for term in terms(part))


# Reading. A Pratt parser: each binary operator has a power, and a loop takes operators no weaker than asked for.

_TOKEN = re.compile(r"\s*(?:(?P<word>[0-9A-Za-z_.]+)|(?P<op>\*\*|//|[=!<>]=|&&|\|\||<>|\S)|$)", re.ASCII)
_NOT_POWER, _COMPARE_POWER, _SUM_POWER, _PRODUCT_POWER, _MINUS_POWER = 3, 4, 5, 6, 7
_POWER = {"or": 1, "and": 2}
_POWER |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARE_POWER)
_POWER |= dict.fromkeys(("+", "-"), _SUM_POWER) | dict.fromkeys(("*", "//", "%"), _PRODUCT_POWER)
_INSTEAD = {
    "=": "compare with `==`",
    "<>": "compare with `!=`",
    "/": "divide with `//`, which rounds down",
    "**": "multiply with `*`",
    "&&": "write `and`",
    "||": "write `or`",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`",
}


class _Parser:
    """One pass over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0

    def whole(self) -> Node:
        node, _ = self.expression(1, 1)
        if self.peek():
            raise self.unexpected("an operator or the end")
        return node

    def peek(self) -> str:
        return self.tokens[self.position][0]

    def column(self) -> int:
        return self.tokens[self.position][1]

    def take(self) -> tuple[str, int]:
        self.position += 1
        return self.tokens[self.position - 1]

    def unexpected(self, expected: str) -> ExpressionError:
        token = self.peek()
        what = f"unexpected `{_shown(token)}` in an expression" if token else "an expression ends too early"
        error = _error("CAD1401", what, (self.text, self.column()), expected, _INSTEAD.get(token))
        error.is_cut = not token and self.text.count("(") > self.text.count(")")
        return error

    def deeper(self, depth: int, column: int) -> int:
        if depth >= MAX_DEPTH:
            raise _error("CAD1404", "expression is too deep", (self.text, column), f"at most {MAX_DEPTH} levels")
        return depth + 1

    def expression(self, power: int, depth: int) -> tuple[Node, int]:
        """Return the tree of operators at least as strong as `power`, and its height."""
        left, height = self.operand(power, depth)
        compared = False
        while _POWER.get(self.peek(), 0) >= power:
            op, column = self.take()
            own = _POWER[op]
            if own == _COMPARE_POWER and compared:
                hint = "join two comparisons with `and`, or set parentheses"
                raise _error("CAD1403", "comparisons cannot be chained", (self.text, column), hint=hint)
            compared = own == _COMPARE_POWER
            right, right_height = self.expression(own + 1, self.deeper(depth, column))
            height = self.deeper(max(height, right_height), column)
            left = Call(op, (left, right), column)
        return left, height

    def operand(self, power: int, depth: int) -> tuple[Node, int]:
        """Return a value, or a prefix operator with its operand."""
        head, column = self.peek(), self.column()
        if head == "not" and power > _NOT_POWER:
            raise _error("CAD1401", "unexpected `not`", (self.text, column), hint="set parentheses around `not ...`")
        if head in {"not", "-"}:
            self.take()
            inner, height = self.expression(_NOT_POWER if head == "not" else _MINUS_POWER, self.deeper(depth, column))
            return Call("not" if head == "not" else "neg", (inner,), column), self.deeper(height, column)
        if head in {"min", "max"}:
            return self.call(depth)
        if head == "(":
            self.take()
            inner, height = self.expression(1, self.deeper(depth, column))
            self.close("`)` or an operator")
            return inner, height
        if not head or head in RESERVED or not _is_word(head):
            raise self.unexpected("a number, a name or `(`")
        self.take()
        return (Name(head, column) if not head[0].isdigit() else Int(int(head))), 1

    def call(self, depth: int) -> tuple[Node, int]:
        op, column = self.take()
        if self.peek() != "(":
            raise self.unexpected(f"`(` after `{op}`")
        self.take()
        first, height = self.expression(1, self.deeper(depth, column))
        operands = [first]
        while self.peek() == ",":
            self.take()
            operand, operand_height = self.expression(1, self.deeper(depth, column))
            operands.append(operand)
            height = self.deeper(max(height, operand_height), column)
        self.close("`)`, `,` or an operator")
        if len(operands) < 2:
            raise _error("CAD1401", f"`{op}` of one value", (self.text, column), "two values or more")
        return Call(op, tuple(operands), column), height

    def close(self, expected: str) -> None:
        if self.peek() != ")":
            raise self.unexpected(expected)
        self.take()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield (token, column) and last an empty token; every word is a checked number or name."""
    position = 0
    while (match := _TOKEN.match(text, position)) is not None and match.lastgroup:
        token, column = match[match.lastgroup], match.start(match.lastgroup) + 1
        if match.lastgroup == "word":
            _check_word(token, text, column)
        yield token, column
        position = match.end()
    yield "", len(text) + 1


def _is_word(token: str) -> bool:
    return token.isascii() and (token[0].isalnum() or token[0] == "_")


def _check_word(word: str, text: str, column: int) -> None:
    if word[0].isdigit() or word[0] == ".":
        plain = word.isdigit() and (word == "0" or word[0] != "0")
        if not plain:
            bare = word.replace("_", "").lstrip("0") or "0"
            hint = f"write `{bare}`" if bare.isdigit() else "write digits only, such as `24000`"
            raise _error("CAD1402", f"`{word}` is not an integer", (text, column), "decimal digits, no leading 0", hint)
        if len(word) > 19 or int(word) > UPPER:
            raise _error("CAD1402", f"`{word}` does not fit", (text, column), f"at most {UPPER}")
    elif "." in word:
        hint = "expressions name params, counters, choices and lets, not regions"
        raise _error("CAD1401", f"`{word}` is not a name", (text, column), "letters, digits and `_`", hint)


def _error(
    code: str, what: str, place: tuple[str, int], expected: str | None = None, hint: str | None = None
) -> ExpressionError:
    text, column = place
    at = f"column {column} of `{_shown(text)}`"
    error = ExpressionError(code, what, expected=expected, at=at, hint=hint)
    error.column = column
    return error


def _shown(text: str) -> str:
    """Return text that is safe on one line of a message, with every character in its column."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[:80])
    return plain if len(text) <= 80 else plain[:77] + "..."


# Writing.


def _text(node: Node, power: int = 1) -> str:
    """Return canonical text: single spaces, and parentheses only where the tree needs them."""
    if isinstance(node, Int):
        return str(node.value)
    if isinstance(node, Name):
        return node.name
    if node.op in {"min", "max"}:
        return f"{node.op}({', '.join(_text(operand) for operand in node.operands)})"
    if node.op == "neg":
        own, text = _MINUS_POWER, "-" + _text(node.operands[0], _MINUS_POWER)
    elif node.op == "not":
        own, text = _NOT_POWER, "not " + _text(node.operands[0], _NOT_POWER)
    else:
        own = _POWER[node.op]
        # Comparisons do not chain, so one that stands left of another keeps its parentheses.
        left = _text(node.operands[0], own + (own == _COMPARE_POWER))
        text = f"{left} {node.op} {_text(node.operands[1], own + 1)}"
    return f"({text})" if own < power else text


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Call):
        for operand in node.operands:
            yield from _names(operand)


def column_of(node: Node, name: str) -> int:
    """Return the column where `name` first stands, or 0 where it does not."""
    if isinstance(node, Name):
        return node.column if node.name == name else 0
    if isinstance(node, Call):
        return next(filter(None, (column_of(operand, name) for operand in node.operands)), 0)
    return 0


# Evaluating. A tree becomes nested closures once, since a timeline search evaluates it by the million.


def _compile(node: Node, text: str) -> Run:
    if isinstance(node, Int):
        value = node.value
        return lambda env: value
    if isinstance(node, Name):
        name = node.name
        return lambda env: env[name]
    operands = [_compile(operand, text) for operand in node.operands]
    if node.op in _EXTREME:
        return reduce(_EXTREME[node.op], operands)
    if node.op in _LOGIC:
        return _LOGIC[node.op](*operands)
    return _arithmetic(node, operands, text)


_EXTREME: dict[str, Callable[[Run, Run], Run]] = {
    "min": lambda a, b: lambda env: x if (x := a(env)) < (y := b(env)) else y,
    "max": lambda a, b: lambda env: x if (x := a(env)) > (y := b(env)) else y,
}
_LOGIC: dict[str, Callable[..., Run]] = {
    "or": lambda a, b: lambda env: 1 if a(env) or b(env) else 0,
    "and": lambda a, b: lambda env: 1 if a(env) and b(env) else 0,
    "not": lambda a: lambda env: 0 if a(env) else 1,
    "==": lambda a, b: lambda env: 1 if a(env) == b(env) else 0,
    "!=": lambda a, b: lambda env: 1 if a(env) != b(env) else 0,
    "<": lambda a, b: lambda env: 1 if a(env) < b(env) else 0,
    "<=": lambda a, b: lambda env: 1 if a(env) <= b(env) else 0,
    ">": lambda a, b: lambda env: 1 if a(env) > b(env) else 0,
    ">=": lambda a, b: lambda env: 1 if a(env) >= b(env) else 0,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def _arithmetic(node: Call, operands: list[Run], text: str) -> Run:
    apply: Callable[[int, int], int] = _ARITHMETIC.get(node.op, operator.sub)
    left, right = operands if len(operands) == 2 else [_zero, *operands]

    def run(env: Env) -> int:
        try:
            value = apply(left(env), right(env))
        except ZeroDivisionError:
            what = f"`{node.op}` divides by zero"
            raise _error("CAD1405", what, (text, node.column), "a divisor other than 0") from None
        if LOWER <= value <= UPPER:
            return value
        what = f"`{'-' if node.op == 'neg' else node.op}` overflows"
        raise _error("CAD1407", what, (text, node.column), f"a value from {LOWER} to {UPPER}")

    return run


def _zero(env: Env) -> int:
    return 0
