"""Expressions by docs/spec.md: parsed, written in their one form, and evaluated."""

import re
from collections.abc import Mapping
from typing import Any

from .refused import need, refuse

TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]*)(?![A-Za-z0-9_])|([A-Za-z_][A-Za-z0-9_]*)|(==|!=|<=|>=|//|[-+*%<>(),]))")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LEVELS = (("or",), ("and",), ("not",), COMPARISONS, ("+", "-"), ("*", "//", "%"))
"""Operators from the loosest to the tightest; `not` has one operand and comparisons do not chain."""
Tree = tuple[Any, ...]


class Parser:
    """A parser of one expression; trees are ("int", n), ("name", s) or (operator, operand, ...)."""

    def __init__(self, text: str) -> None:
        need(0 < len(text) <= 1000, "at most 1000 characters")
        self.tokens, at = [], 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                refuse(f"unexpected `{text[at]}` in an expression")
            self.tokens.append(found.group(found.lastindex or 0))
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        need(token != "" and wanted in (None, token), f"expected {wanted} in an expression")
        self.at += 1
        return token

    def parse(self) -> Tree:
        tree = self.binary(0)
        need(self.peek() == "", "an expression that goes on")
        return tree

    def binary(self, level: int, depth: int = 0) -> Tree:
        need(depth <= 64, "at most 64 levels")
        if level == len(LEVELS):
            return self.minus(depth)
        if LEVELS[level] == ("not",):
            if self.peek() == "not":
                self.take()
                return ("not", self.binary(level, depth + 1))
            return self.binary(level + 1, depth)
        left = self.binary(level + 1, depth)
        while self.peek() in LEVELS[level]:
            left = (self.take(), left, self.binary(level + 1, depth))
            if LEVELS[level] is COMPARISONS:
                break
        return left

    def minus(self, depth: int) -> Tree:
        need(depth <= 64, "at most 64 levels")
        word = self.take()
        if word == "-":
            return ("neg", self.minus(depth + 1))
        if word == "(":
            inner = self.binary(0, depth + 1)
            self.take(")")
            return inner
        if word in ("min", "max"):
            return (word, *self.arguments(depth))
        if word.isdigit():
            need(int(word) < 1 << 63, "integers of 64 bits")
            return ("int", int(word))
        need(word.isidentifier() and word not in ("and", "or", "not"), f"unexpected `{word}` in an expression")
        return ("name", word)

    def arguments(self, depth: int) -> list[Tree]:
        self.take("(")
        found = [self.binary(0, depth + 1)]
        while self.peek() == ",":
            self.take()
            found.append(self.binary(0, depth + 1))
        self.take(")")
        need(len(found) > 1, "min and max take two or more")
        return found


def level_of(tree: Tree) -> int:
    operator = tree[0]
    return next((number for number, level in enumerate(LEVELS) if operator in level and len(tree) > 1), len(LEVELS))


def written(tree: Tree, level: int = 0) -> str:
    """Return the text of a tree where an expression of that level may stand."""
    match tree:
        case ("int" | "name", value):
            return str(value)
        case ("min" | "max" as name, *operands):
            return f"{name}({', '.join(written(each) for each in operands)})"
        case ("neg", operand):
            return "-" + written(operand, len(LEVELS))
    own = level_of(tree)
    if tree[0] == "not":
        text = "not " + written(tree[1], own)
    else:
        left = own + 1 if tree[0] in COMPARISONS else own
        text = f"{written(tree[1], left)} {tree[0]} {written(tree[2], own + 1)}"
    return f"({text})" if own < level else text


def parse(text: str) -> Tree:
    """Return the tree of an expression in its one form."""
    tree = Parser(text).parse()
    need(written(tree) == text, f"`{text}` is written `{written(tree)}`")
    return tree


def value(tree: Tree, names: Mapping[str, int]) -> int:
    """Return the value; refuses what does not fit 64 bits, a name without a value and division by zero."""
    result = _value(tree, names)
    need(-(1 << 63) <= result < 1 << 63, "values have 64 bits")
    return result


def _value(tree: Tree, names: Mapping[str, int]) -> int:
    match tree:
        case ("int", number):
            return int(number)
        case ("name", name):
            need(name in names, f"`{name}` has no value")
            return names[name]
        case ("and", left, right):
            return int(value(left, names) != 0 and value(right, names) != 0)
        case ("or", left, right):
            return int(value(left, names) != 0 or value(right, names) != 0)
    operands = [value(each, names) for each in tree[1:]]
    match tree[0]:
        case "not":
            return int(operands[0] == 0)
        case "neg":
            return -operands[0]
        case "min":
            return min(operands)
        case "max":
            return max(operands)
    return binary(tree[0], *operands)


def binary(operator: str, left: int, right: int) -> int:
    if operator in ("//", "%"):
        need(right != 0, "division by zero")
        return left // right if operator == "//" else left % right
    compared = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
    compared |= {">": left > right, ">=": left >= right}
    if operator in compared:
        return int(compared[operator])
    return {"+": left + right, "-": left - right, "*": left * right}[operator]
