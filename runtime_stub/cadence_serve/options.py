"""The options of the server, for the command lines that start it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cadence_runtime.errors import UsageError
from cadence_runtime.format.source import require_path
from cadence_serve.settings import Settings


@dataclass(frozen=True, slots=True)
class Option:
    """`flag` gives the field of `Settings`, but for those in milliseconds, whose field is in seconds."""

    flag: str
    kind: type[int] | type[float] | type[str] | type[bool]
    text: str
    metavar: str = ""
    repeats: bool = False
    lower: float = 0

    @property
    def name(self) -> str:
        """The option as a keyword."""
        return self.flag.removeprefix("--").replace("-", "_")


OPTIONS = (
    Option("--weights", str, "The weights file; the one beside the plan by default.", "FILE"),
    Option("--policy", str, "A public key, or trusted certificates (PEM): the plan must be signed under them.", "FILE"),
    Option("--host", str, "The address to listen on; 127.0.0.1 by default. Another one needs a token.", "ADDRESS"),
    Option("--port", int, "The port; 8712 by default, 0 for any.", "PORT"),
    Option("--token-file", str, "A file with the word that clients must bring as their bearer token.", "FILE"),
    Option("--origin", str, "Let pages of this origin in. Repeatable; none by default.", "URL", repeats=True),
    Option("--lanes", int, "Threads that do pushes, 0 for the server's own; by default what suits them.", "COUNT"),
    Option("--budget", int, "Bytes of device memory for executables of a CUDA plan; all stay by default.", "BYTES"),
    Option("--overcommit", bool, "Admit more sessions than keep the cadence."),
    Option("--ahead", float, "Milliseconds of each cadence that something else takes; 0 by default.", "MS"),
    Option("--share", float, "The share of the cadence that sessions may use; 0.8 by default.", "SHARE"),
    Option("--max-message", int, "Bytes of a message at most; 1 MiB by default.", "BYTES", lower=1024),
    Option("--client-sessions", int, "Sessions of one client address at most; 8 by default.", "COUNT", lower=1),
    Option("--idle", float, "Seconds without a message after which a session ends; 60 by default.", "S", lower=0.1),
    Option("--drain", float, "Seconds that open sessions have when the server is told to end; 30 by default.", "S"),
    Option("--wedged", float, "Seconds after which a push counts as a failed device; 10 by default.", "S", lower=0.1),
)

FIELDS = {
    "origin": "origins",
    "budget": "budget_bytes",
    "max_message": "max_message_bytes",
    "idle": "idle_s",
    "drain": "drain_s",
    "wedged": "wedged_s",
}


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Return the settings of a command line, by the options' names. Raises UsageError CAD9715 for a number that makes
    no sense, and CAD9207 for an empty path."""
    for option in OPTIONS:
        value = given.get(option.name)
        if option.metavar == "FILE" and value is not None:
            require_path(option.flag, value)
        if option.kind in (int, float) and value is not None and not option.lower <= value < float("inf"):
            raise UsageError(
                "CAD9715",
                f"`{option.flag}` does not take this number",
                expected=f"{option.lower:g} or more",
                got=f"{value:g}",
            )
    fields = {FIELDS.get(name, name): value for name, value in given.items() if name != "ahead"}
    if "origins" in fields:  # a list or a tuple, as the command line has it
        fields["origins"] = tuple(fields["origins"])
    return Settings(ahead_s=given.get("ahead", 0.0) / 1000, **fields)
