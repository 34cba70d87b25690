"""Bytes of a clock spec -> a tree of nodes that know their place in the file.

Only a small, unsurprising part of YAML passes: one document of mappings, sequences and scalars. Anchors, aliases, tags,
duplicate keys and number spellings on which YAML versions disagree are errors. Size, depth and node count are bounded
while the events stream by, before anything is built from them.

    start: 012      YAML 1.1 reads 10, YAML 1.2 reads 12: refused      on, off, yes, no, y, n    plain text
    rate: 24e3      text in YAML 1.1, a float in YAML 1.2: refused     true, false, null, ~      as they look
"""

import os
import re
import stat
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

import yaml

from cadence_runtime.errors import SpecError
from cadence_runtime.host.expression import UPPER

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
MAX_NODES = 50_000

Value = None | bool | int | float | str


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; both count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf. `text_mark` is where the first character of its text stands, or None for a text that is escaped, folded
    or in a block, so that a column of the text is not a column of the file."""

    value: Value
    text: str
    mark: Mark
    text_mark: Mark | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of nodes."""

    items: "tuple[Node, ...]"
    mark: Mark


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with their nodes, in written order; keys are unique."""

    entries: "tuple[tuple[Scalar, Node], ...]"
    mark: Mark


Node = Scalar | Sequence | Mapping


def read_text(path: str) -> str:
    """Return the text of a spec file; raise `SpecError` (CAD10xx) when it is not one readable UTF-8 text file."""
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise SpecError("CAD1002", "the spec is a folder", expected="a YAML file", at=path)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SpecError("CAD1002", "the spec is not a regular file", expected="a YAML file", at=path)
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError("CAD1001", "the spec does not exist", expected="a YAML file", at=path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError("CAD1003", f"the spec cannot be read: {reason.lower()}", at=path) from None
    if len(data) > MAX_BYTES:
        raise SpecError("CAD1004", "the spec is too large", expected=f"at most {MAX_BYTES} bytes", at=path)
    return decode(data, path)


def decode(data: bytes, path: str) -> str:
    """Return the text of UTF-8 bytes, without a byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SpecError("CAD1005", "the spec is not UTF-8", got="UTF-16", at=path, hint="save the file as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        head = data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8-sig")
        place = f"{path}:{line}:{len(head) + 1}"
        got = f"byte 0x{data[error.start]:02x}"
        hint = "save the file as UTF-8"
        raise SpecError("CAD1005", "the spec is not UTF-8", got=got, at=place, hint=hint) from None
    if bad := _NOT_TEXT.search(text):
        line_start = text.rfind("\n", 0, bad.start()) + 1
        place = f"{path}:{text.count(chr(10), 0, bad.start()) + 1}:{bad.start() - line_start + 1}"
        raise SpecError("CAD1006", "the spec holds a character that is not text", got=f"U+{ord(bad[0]):04X}", at=place)
    return text


# U+0085, U+2028 and U+2029 end a line, and with it a comment, in YAML 1.1 and nowhere else.
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet; `key` waits for its node."""

    mark: Mark
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    key: Scalar | None = None

    def closed(self) -> Node:
        if self.is_mapping:
            return Mapping(tuple(self.entries.values()), self.mark)
        return Sequence(tuple(self.items), self.mark)


class _Composer:
    """Builds the tree from the event stream, in memory bounded by `MAX_NODES`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.errors: list[SpecError] = []
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.nodes = 0

    def compose(self, text: str) -> None:
        try:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                self.take(event)
        except yaml.MarkedYAMLError as error:
            self.syntax(error)
        except (yaml.YAMLError, ValueError, OverflowError):
            # The scanner calls `chr` and `int` on escapes and versions without checking their range.
            reason = "the spec is not YAML: a character, an escape or a version is out of range"
            raise SpecError("CAD1101", reason, at=self.path) from None

    def syntax(self, error: yaml.MarkedYAMLError) -> NoReturn:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "unknown problem"
        at = self.at(_place(mark)) if mark else self.path
        if "'\\t'" in problem:
            raise SpecError("CAD1102", "a tab where a token starts", at=at, hint="indent with spaces") from None
        if "undefined alias" in problem or "alias" in (error.context or ""):
            raise self.alias(at) from None
        what = f"the spec is not YAML: {problem.lower()}"
        raise SpecError("CAD1101", what, at=at, hint=_syntax_hint(problem, error.context_mark)) from None

    def alias(self, at: str) -> SpecError:
        return SpecError("CAD1103", "anchors and aliases are not allowed", at=at, hint="write the value out")

    def take(self, event: yaml.Event) -> None:
        mark = _place(event.start_mark)
        at = self.at(mark)
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                raise SpecError("CAD1106", "more than one document", expected="one document", at=at)
        elif isinstance(event, yaml.NodeEvent):
            self.check_node(event, at)
            if isinstance(event, yaml.ScalarEvent):
                self.add(self.scalar(event, mark))
            else:
                self.stack.append(_Open(mark, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            self.add(self.stack.pop().closed())

    def check_node(self, event: yaml.NodeEvent, at: str) -> None:
        if event.anchor is not None:
            raise self.alias(at)
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            raise SpecError("CAD1104", "tags are not allowed", got=f"`{tag}`", at=at, hint="leave the tag out")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise SpecError("CAD1107", "the spec is too large", expected=f"at most {MAX_NODES} values", at=at)
        if len(self.stack) >= MAX_DEPTH:
            raise SpecError("CAD1107", "the spec nests too deep", expected=f"at most {MAX_DEPTH} levels", at=at)

    def add(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = self.key(node, parent)
        else:
            parent.entries.setdefault(parent.key.text, (parent.key, node))
            parent.key = None

    def key(self, node: Node, parent: _Open) -> Scalar:
        if not isinstance(node, Scalar):
            raise SpecError("CAD1108", "a key is a list or mapping", expected="a name", at=self.at(node.mark))
        if node.text in parent.entries:
            first = parent.entries[node.text][0].mark
            what, got = f"duplicate key `{node.text}`", f"again after line {first.line}"
            self.errors.append(SpecError("CAD1105", what, expected="each key once", got=got, at=self.at(node.mark)))
        return node

    def scalar(self, event: yaml.ScalarEvent, mark: Mark) -> Scalar:
        text = event.value
        if not event.style and "\t" in text:
            # The scanner takes a tab, and a comment after it, for a part of the text.
            hint = "write spaces, or quote a text that holds a tab"
            raise SpecError("CAD1102", "a tab in a text without quotes", at=self.at(mark), hint=hint)
        is_key = bool(self.stack) and self.stack[-1].is_mapping and self.stack[-1].key is None
        value = text if is_key or event.style else self.plain(text, mark)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise SpecError("CAD1006", "the spec holds a character that is not text", at=self.at(mark))
        quotes = 1 if event.style else 0
        end = _place(event.end_mark)
        exact = end == Mark(mark.line, mark.column + len(text) + 2 * quotes)
        return Scalar(value, text, mark, Mark(mark.line, mark.column + quotes) if exact else None)

    def plain(self, text: str, mark: Mark) -> Value:
        """Return the value of an unquoted scalar; note an error for a number that YAML versions read differently."""
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text) and len(text) <= 20 and abs(int(text)) <= UPPER:
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if _NUMBER_LIKE.fullmatch(text):
            what = f"`{text if len(text) <= 40 else text[:37] + '...'}` is not a plain number"
            expected = f"decimal digits without a leading 0, up to {UPPER}"
            self.errors.append(SpecError("CAD1109", what, expected=expected, at=self.at(mark), hint=_number_hint(text)))
        return text

    def at(self, mark: Mark) -> str:
        return f"{self.path}:{mark.line}:{mark.column}"


_WORDS: dict[str, Value] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.[0-9]{1,16}")
_NUMBER_LIKE = re.compile(
    r"""[-+]?(?:[0-9][0-9_]*                                        # +1  012  1_000  too many digits
    |0[box][0-9A-Fa-f_]+                                            # 0x10  0b1  0o17
    |[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?                    # 1:30
    |(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?   # 24e3  .5  1.
    |\.(?:inf|Inf|INF|nan|NaN|NAN))""",
    re.VERBOSE | re.ASCII,
)


def _place(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _syntax_hint(problem: str, context: Any) -> str | None:
    if "mapping values are not allowed" in problem:
        return "quote a text that holds `: `, or put the key on a line of its own"
    if "cannot start any token" in problem:
        return "quote the text"
    if "expected ',' or" in problem and context is not None:
        return f"the bracket opens at line {context.line + 1}, column {context.column + 1}"
    return None


def _number_hint(text: str) -> str:
    bare = text.replace("_", "")
    if re.fullmatch(r"[-+]?[0-9]{1,18}(?:[eE]\+?[0-9])?", bare):
        return f"write `{int(Decimal(bare))}`, or quote it if it is a text"
    return "write it in plain decimal digits, or quote it if it is a text"


def compose(text: str, path: str) -> tuple[Node, tuple[SpecError, ...]]:
    """Return the tree of a YAML text and the errors that do not keep it from being read further.

    Raise `SpecError` (CAD11xx) for anything that is not one plain YAML document; an empty one is CAD1007.
    """
    root, errors = compose_value(text, path)
    if root is None or (isinstance(root, Scalar) and root.value is None):
        hint = "start with `cadence_spec: 1`"
        raise SpecError("CAD1007", "the spec is empty", expected="a mapping", at=path, hint=hint)
    return root, errors


def compose_value(text: str, path: str) -> tuple[Node | None, tuple[SpecError, ...]]:
    """Return the tree of a YAML text, or None where there is nothing in it, and the errors that do not stop it."""
    composer = _Composer(path)
    composer.compose(text)
    return composer.root, tuple(composer.errors)


def plain(node: Node | None) -> Any:
    """Return a tree as dicts, lists and scalars; keys are texts."""
    if isinstance(node, Mapping):
        return {key.text: plain(value) for key, value in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value if node else None
