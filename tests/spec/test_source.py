"""What of YAML passes, and what does not: the reader is given everything that a file can hold."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest

from cadence_runtime.errors import SpecError
from cadencec.spec.load import load_spec
from cadencec.spec.source import MAX_BYTES, compose, decode, plain
from tests.spec.example import BASE, codes, edited, refused


def read(text: str) -> object:
    tree, errors = compose(text, "a.yaml")
    assert not errors
    return plain(tree)


def stopped(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        compose(text, "a.yaml")
    return caught.value


def undecoded(data: bytes) -> str:
    with pytest.raises(SpecError) as caught:
        decode(data, "a.yaml")
    return str(caught.value)


def unread(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value).replace(f"{path}", "a.yaml")


# Words and numbers on which YAML 1.1 and 1.2 disagree.


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "Yes", "NO", "True", "FALSE", "Null"])
def test_yaml_1_1_words_are_texts_as_key_and_as_value(word: str) -> None:
    assert read(f"{word}: {word}") == {word: word}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("null", None), ("~", None), ("", None)])
def test_words_that_are_values(text: str, value: object) -> None:
    assert read(f"a: {text}") == {"a": value}


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-7", -7), ("9223372036854775807", 2**63 - 1), ("0.7", 0.7)])
def test_plain_numbers(text: str, value: object) -> None:
    assert read(f"a: {text}") == {"a": value}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("012", "write `12`, or quote it if it is a text"),
        ("24e3", "write `24000`, or quote it if it is a text"),
        ("1_000", "write `1000`, or quote it if it is a text"),
        ("+5", "write `5`, or quote it if it is a text"),
        *(
            (text, "write it in plain decimal digits, or quote it if it is a text")
            for text in [
                "0x10",
                "0b11",
                "0o17",
                "1:30",
                "190:20:30",
                ".5",
                "5.",
                "1e99",
                ".inf",
                "-.INF",
                ".nan",
                "9" * 20,
            ]
        ),
    ],
)
def test_numbers_that_could_be_others_are_refused(text: str, hint: str) -> None:
    _, errors = compose(f"a: {text}", "a.yaml")
    assert [(error.code, error.at, error.hint) for error in errors] == [("CAD1109", "a.yaml:1:4", hint)]


@pytest.mark.parametrize("text", ["012", "24e3", "1_000", "true", "null", "2001-01-01", "1:30"])
def test_a_quoted_text_is_that_text(text: str) -> None:
    assert read(f"a: '{text}'") == {"a": text}


def test_a_date_and_a_version_are_texts() -> None:
    assert read("a: 2001-01-01\nb: 1.2.3") == {"a": "2001-01-01", "b": "1.2.3"}


def test_a_merge_key_is_an_unknown_key() -> None:
    error = refused(edited("horizon: 60 s", "<<: {horizon: 60 s}"))
    assert (error.code, error.hint) == ("CAD1203", "write the keys out; `<<` merges nothing here")


# Structure.


def test_one_document_with_its_marks_is_plain_yaml() -> None:
    assert read("---\na: 1\n...\n") == {"a": 1}
    assert read("%YAML 1.2\n---\na: 1\n") == {"a": 1}


@pytest.mark.parametrize("text", ["a: &x 1", "&x a: 1", "a: *x", "*x : 1", "- &x []", "a: &x\n  b: *x"])
def test_anchors_and_aliases(text: str) -> None:
    assert stopped(text).code == "CAD1103"


@pytest.mark.parametrize("text", ["a: !!int 1", "!x a: 1", "a: !!python/object/apply:os.system [ls]", "a: ! b"])
def test_tags(text: str) -> None:
    assert stopped(text).code == "CAD1104"


def test_an_alias_bomb_is_refused_at_its_first_anchor_in_little_memory() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    tracemalloc.start()
    error = stopped("\n".join(rows))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.code, error.at) == ("CAD1103", "a.yaml:1:5")
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize("text", ["[" * 500_000, "{a: " * 200_000, "- " * 400_000, "a: {" + "b: 1, " * 100_000])
def test_depth_and_size_bombs_end_early(text: str) -> None:
    begin = time.monotonic()
    assert stopped(text).code == "CAD1107"
    assert time.monotonic() - begin < 20


def test_keys_keep_their_order_and_the_first_of_two_counts() -> None:
    tree, errors = compose("b: 1\na: 2\nb: 3\n", "a.yaml")
    assert list(plain(tree).items()) == [("b", 1), ("a", 2)]
    assert [error.at for error in errors] == ["a.yaml:3:1"]


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "a: b: c",
        'a: "\\UFFFFFFFF"',
        "a: 'x",
        "%YAML 9.9\n---\na: 1",
        "%YAML 1." + "9" * 5000 + "\n---\na: 1",
        "@",
    ],
)
def test_text_that_is_not_yaml(text: str) -> None:
    assert stopped(text).code == "CAD1101"


def test_a_lone_surrogate_is_not_text() -> None:
    assert stopped('a: "\\ud800"').code == "CAD1006"


def test_tabs_may_stand_where_yaml_allows_them() -> None:
    assert read("# a\tb\nb: 'x\ty'\n") == {"b": "x\ty"}
    for text in ("a: 1\t# one", "a: x\ty", "a:\n\tb: 1"):
        assert stopped(text).code == "CAD1102"


# The file.


def test_a_byte_order_mark_is_no_character(tmp_path: Path) -> None:
    path = tmp_path / "codec.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_spec(path).model.name == "codec"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("cadence_spec", "cadence_spek").encode())
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert f"{path}:1:1" in str(caught.value)


def test_message_1001(tmp_path: Path) -> None:
    assert unread(tmp_path / "none.yaml") == (
        "CAD1001: the spec does not exist\n  expected: a YAML file\n  at:       a.yaml"
    )


def test_message_1002(tmp_path: Path) -> None:
    assert unread(tmp_path) == "CAD1002: the spec is a folder\n  expected: a YAML file\n  at:       a.yaml"
    os.mkfifo(tmp_path / "pipe")
    assert unread(tmp_path / "pipe") == (
        "CAD1002: the spec is not a regular file\n  expected: a YAML file\n  at:       a.yaml"
    )


def test_message_1003(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    assert unread(path) == "CAD1003: the spec cannot be read: file name too long\n  at:       a.yaml"
    assert "CAD1003: the spec cannot be read: " in unread(Path("a\0b"))


def test_message_1004(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"# " + b"x" * 10_000_000)
    assert unread(path) == f"CAD1004: the spec is too large\n  expected: at most {MAX_BYTES} bytes\n  at:       a.yaml"


def test_message_1005() -> None:
    assert undecoded("a: 1\nb: é\n".encode("latin-1")) == (
        "CAD1005: the spec is not UTF-8\n"
        "  got:      byte 0xe9\n"
        "  at:       a.yaml:2:4\n"
        "  hint:     save the file as UTF-8"
    )
    assert undecoded("a: 1".encode("utf-16")) == (
        "CAD1005: the spec is not UTF-8\n  got:      UTF-16\n  at:       a.yaml\n  hint:     save the file as UTF-8"
    )


@pytest.mark.parametrize(
    ("letter", "got"), [("\0", "U+0000"), ("\x1b", "U+001B"), ("\u2028", "U+2028"), ("\ufeff", "U+FEFF")]
)
def test_message_1006(letter: str, got: str) -> None:
    assert undecoded(f"a: 1\nbc{letter}: 1".encode()) == (
        f"CAD1006: the spec holds a character that is not text\n  got:      {got}\n  at:       a.yaml:2:3"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "null\n"])
def test_message_1007(text: str) -> None:
    assert str(stopped(text)) == (
        "CAD1007: the spec is empty\n"
        "  expected: a mapping\n"
        "  at:       a.yaml\n"
        "  hint:     start with `cadence_spec: 1`"
    )


@pytest.mark.parametrize("text", ["hello", "- a\n- b", "7", "[]"])
def test_a_document_that_is_no_mapping(text: str) -> None:
    assert codes(refused(text)) == ["CAD1201"]
