"""Settings: who needs a token, what a token is, and numbers of options."""

import sys
from pathlib import Path

import pytest

from cadence_runtime.errors import UsageError
from cadence_serve import Settings, start
from cadence_serve.options import OPTIONS, settings_of
from cadence_serve.server import listen
from cadence_serve.settings import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    assert Settings("p", host=host).token() is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", ""])  # noqa: S104
def test_any_other_address_needs_one(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Settings("p", host=host).token()
    assert str(caught.value) == (
        "CAD9711: other machines could reach this server, and it has no token\n"
        "  expected: a loopback address, or `--token-file`\n"
        f"  got:      {host}\n"
        "  hint:     put a long random word into a file: `openssl rand -hex 24 > token`"
    )
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert Settings("p", host=host, token_file=str(tmp_path / "token")).token() == "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "got"), [("short", "5 letters"), ("two words of letters", "20 letters"), ("", "0 letters")]
)
def test_what_is_no_token_is_refused(text: str, got: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        Settings("p", token_file=str(path)).token()
    assert str(caught.value) == (
        "CAD9712: the file holds no token\n"
        "  expected: one word of 16 letters or more, ASCII\n"
        f"  got:      {got}\n"
        f"  at:       {path}"
    )


def test_a_token_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CAD9712"):
        Settings("p", token_file=str(tmp_path / "none")).token()
    (tmp_path / "bytes").write_bytes(b"\xff" * 20)
    with pytest.raises(UsageError, match="CAD9712"):
        Settings("p", token_file=str(tmp_path / "bytes")).token()


def test_options_become_settings() -> None:
    given = {"plan": "p", "ahead": 700.0, "max_message": 4096, "idle": 5.0, "origin": ["https://a"], "budget": 9}
    assert settings_of(given) == Settings(
        "p", ahead_s=0.7, max_message_bytes=4096, idle_s=5.0, origins=("https://a",), budget_bytes=9
    )
    assert settings_of({"plan": "p"}) == Settings("p")


def test_every_option_is_a_setting() -> None:
    values: dict[type, object] = {str: "a", int: 4096, float: 0.5, bool: True}
    for option in OPTIONS:
        value = ["a"] if option.repeats else values[option.kind]
        assert settings_of({"plan": "p", option.name: value}) != Settings("p")


@pytest.mark.parametrize(("name", "value"), [("lanes", -1), ("idle", float("inf")), ("ahead", -1.0), ("wedged", 0.0)])
def test_numbers_that_make_no_sense_are_refused(name: str, value: float) -> None:
    option = next(option for option in OPTIONS if option.name == name)
    with pytest.raises(UsageError) as caught:
        settings_of({"plan": "p", name: value})
    assert str(caught.value) == (
        f"CAD9715: `--{name}` does not take this number\n  expected: {option.lower:g} or more\n  got:      {value:g}"
    )


def test_an_address_that_is_taken_is_refused() -> None:
    with listen(Settings("p", port=0)) as taken, pytest.raises(UsageError) as caught:
        listen(Settings("p", port=taken.getsockname()[1]))
    assert str(caught.value) == (
        "CAD9714: the server cannot listen\n"
        "  expected: a free address\n"
        "  got:      Address already in use\n"
        f"  at:       127.0.0.1:{taken_port(caught.value)}"
    )
    for settings in (Settings("p", port=99999), Settings("p", host="no.such.host.invalid")):
        with pytest.raises(UsageError, match="CAD9714"):
            listen(settings)


def taken_port(error: UsageError) -> str:
    return str(error.at).rpartition(":")[2]


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cadence_serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UsageError) as caught:
        start(Settings("p"), print)
    assert str(caught.value) == (
        "CAD9713: the packages of the server are not installed\n"
        "  expected: the extra `serve`\n"
        "  got:      no module `uvicorn`\n"
        "  hint:     pip install 'cadence-runtime[serve]'"
    )
