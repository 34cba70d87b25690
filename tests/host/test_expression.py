"""Expressions against a reference evaluator that shares no code with the parser: Python's own `ast`."""

import ast
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadence_runtime.errors import CadenceError
from cadence_runtime.host.expression import MAX_DEPTH, ExpressionError, constant, parse

NAMES = ("a", "b", "buf", "phase")
LOWER, UPPER = -(2**63), 2**63 - 1


def reference(text: str, env: dict[str, int]) -> int | None:
    """Return the value by walking Python's syntax tree, or None where a step divides by zero or leaves 64 bits."""

    def walk(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=value):
                return Fraction(value)
            case ast.Name(id=name):
                return Fraction(env[name])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return Fraction(not walk(inner))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return fits(-walk(inner))
            case ast.BoolOp(op=ast.And(), values=parts):
                return Fraction(all(walk(part) for part in parts))
            case ast.BoolOp(op=ast.Or(), values=parts):
                return Fraction(any(walk(part) for part in parts))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return Fraction(compare(op, walk(left), walk(right)))
            case ast.Call(func=ast.Name(id="min"), args=parts):
                return sorted(walk(part) for part in parts)[0]
            case ast.Call(func=ast.Name(id="max"), args=parts):
                return sorted(walk(part) for part in parts)[-1]
            case ast.BinOp(left=left, op=op, right=right):
                return fits(combine(op, walk(left), walk(right)))
        raise AssertionError(ast.dump(node))

    try:
        return int(walk(ast.parse(text.strip(), mode="eval").body))
    except (ZeroDivisionError, OverflowError):
        return None


def compare(op: ast.cmpop, a: Fraction, b: Fraction) -> bool:
    sign = (a > b) - (a < b)
    return {"Eq": sign == 0, "NotEq": sign != 0, "Lt": sign < 0, "LtE": sign <= 0, "Gt": sign > 0, "GtE": sign >= 0}[
        type(op).__name__
    ]


def combine(op: ast.operator, a: Fraction, b: Fraction) -> Fraction:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
    quotient = Fraction((a / b).__floor__())
    return fits(quotient) if isinstance(op, ast.FloorDiv) else a - b * quotient


def fits(value: Fraction) -> Fraction:
    if not LOWER <= value <= UPPER:
        raise OverflowError
    return value


def texts() -> st.SearchStrategy[str]:
    space = st.sampled_from(["", " ", "  "])
    leaf = st.sampled_from([*NAMES, "0", "1", "2", "7", "40", str(2**32), str(UPPER)])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        plain = st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", ">", ">=", " and ", " or "])
        return st.one_of(
            st.builds(lambda a, op, b, s: f"{a}{s}{op}{s}{b}", inner, plain, inner, space),
            st.builds(lambda a, op, b: f"({a}) {op} ({b})", inner, plain, inner),
            st.builds(lambda a: f"-{a}", inner),
            st.builds(lambda a: f"not {a}", inner),
            st.builds(
                lambda op, parts, s: f"{op}({f',{s}'.join(parts)})",
                st.sampled_from(["min", "max"]),
                st.lists(inner, min_size=2, max_size=3),
                space,
            ),
        )

    return st.recursive(leaf, grow, max_leaves=12)


values = st.integers(-30, 30) | st.sampled_from([LOWER, UPPER, 2**40])
envs = st.fixed_dictionaries(dict.fromkeys(NAMES, values))


def refused(text: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return str(caught.value)


@given(texts(), envs)
def test_values_are_those_of_the_reference(text: str, env: dict[str, int]) -> None:
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert error.code == "CAD1403" or (error.code == "CAD1401" and "`not`" in error.what)
        return
    want = reference(text, env)
    if want is None:
        with pytest.raises(ExpressionError) as caught:
            expression.evaluate(env)
        assert caught.value.code in {"CAD1405", "CAD1407"}
    else:
        got = expression.evaluate(env)
        assert type(got) is int and got == want


@given(texts())
def test_canonical_text_is_a_fixed_point(text: str) -> None:
    try:
        expression = parse(text)
    except ExpressionError:
        return
    again = parse(expression.text)
    assert again == expression and again.tree == expression.tree and again.text == expression.text
    assert pickle.loads(pickle.dumps(expression)) == expression  # noqa: S301


@given(st.text(alphabet="ab01 +-*/%<>=!()and,ornotmi.\t\n\x00é", max_size=40) | st.text(max_size=30))
def test_any_text_is_read_or_refused_at_a_column(text: str) -> None:
    try:
        parse(text).evaluate(dict.fromkeys(NAMES, 3))
    except CadenceError as error:
        assert isinstance(error, ExpressionError) and 1 <= error.column <= len(text) + 1
        assert all(line.isprintable() for line in str(error).splitlines())


def test_names_are_sorted_and_unique() -> None:
    assert parse("b + a * b - min(c, a)").names == ("a", "b", "c")


def test_the_right_side_is_not_evaluated_where_the_left_decides() -> None:
    assert parse("a != 0 and 10 // a > 1").evaluate({"a": 0}) == 0
    assert parse("a == 0 or 10 // a > 1").evaluate({"a": 0}) == 1


@pytest.mark.parametrize("value", [0, 7, -7, UPPER, -UPPER])
def test_constant(value: int) -> None:
    assert constant(value).evaluate({}) == value


def test_depth_is_bounded_where_the_text_is_not_long() -> None:
    assert parse("(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)).text == "a"
    for text in ("(" * 300 + "a" + ")" * 300, "-" * 300 + "a", "not " * 200 + "a", "+".join("a" * 300)):
        assert "CAD1404: expression is too deep" in refused(text)


# One full message for each code.


def test_message_1401() -> None:
    assert refused("a = b") == (
        "CAD1401: unexpected `=` in an expression\n"
        "  expected: an operator or the end\n"
        "  at:       column 3 of `a = b`\n"
        "  hint:     compare with `==`"
    )


def test_message_1402() -> None:
    assert refused("buf + 012") == (
        "CAD1402: `012` is not an integer\n"
        "  expected: decimal digits, no leading 0\n"
        "  at:       column 7 of `buf + 012`\n"
        "  hint:     write `12`"
    )


def test_message_1403() -> None:
    assert refused("0 < a < 5") == (
        "CAD1403: comparisons cannot be chained\n"
        "  at:       column 7 of `0 < a < 5`\n"
        "  hint:     join two comparisons with `and`, or set parentheses"
    )


def test_message_1404() -> None:
    assert refused("a" * 1001) == (
        "CAD1404: expression is too long\n"
        "  expected: at most 1000 characters\n"
        f"  at:       column 1000 of `{'a' * 77}...`"
    )


def test_message_1405() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a %  b").evaluate({"a": 1, "b": 0})
    assert str(caught.value) == (
        "CAD1405: `%` divides by zero\n  expected: a divisor other than 0\n  at:       column 3 of `a %  b`"
    )


def test_message_1406() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a + c").evaluate({"a": 1})
    assert str(caught.value) == "CAD1406: unknown name `c`\n  at:       column 5 of `a + c`"


def test_message_1407() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a * a").evaluate({"a": 2**32})
    assert str(caught.value) == (
        "CAD1407: `*` overflows\n"
        "  expected: a value from -9223372036854775808 to 9223372036854775807\n"
        "  at:       column 3 of `a * a`"
    )
