"""What a server is told, and whether it makes sense."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cadence_runtime.errors import UsageError

TOKEN_LETTERS = 16
"""A token shorter than this can be guessed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds, sizes in bytes. `lanes` None is as many as the cores hold, `ahead_s` and `share` are as in
    `Capacity`, `budget_bytes` as in `load`; `overcommit` admits any number of sessions. A push that runs for `wedged_s`
    is taken for a failed device."""

    plan: str
    weights: str | None = None
    policy: str | None = None
    host: str = "127.0.0.1"
    port: int = 8712
    token_file: str | None = None
    origins: tuple[str, ...] = ()
    lanes: int | None = None
    budget_bytes: int | None = None
    overcommit: bool = False
    ahead_s: float = 0.0
    share: float = 0.8
    max_message_bytes: int = 1 << 20
    client_sessions: int = 8
    idle_s: float = 60.0
    send_s: float = 10.0
    drain_s: float = 30.0
    wedged_s: float = 10.0

    def token(self) -> str | None:
        """Return the token that clients must bring; None where they need none. Raises UsageError CAD9711 where they
        must and there is none, CAD9712 for a file that holds none."""
        if self.token_file is not None:
            return _token_of(self.token_file)
        if not is_loopback(self.host):
            raise UsageError(
                "CAD9711",
                "other machines could reach this server, and it has no token",
                expected="a loopback address, or `--token-file`",
                got=self.host,
                hint="put a long random word into a file: `openssl rand -hex 24 > token`",
            )
        return None


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's alone; of names only `localhost` is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token_of(path: str) -> str:
    try:
        token = Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _bad_token(path, str(error)) from None
    if len(token) < TOKEN_LETTERS or not token.isprintable() or " " in token:
        raise _bad_token(path, f"{len(token)} letters")
    return token


def _bad_token(path: str, got: str) -> UsageError:
    expected = f"one word of {TOKEN_LETTERS} letters or more, ASCII"
    return UsageError("CAD9712", "the file holds no token", expected=expected, got=got, at=path)
