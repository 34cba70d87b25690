"""Mutated clock specs: item `n` of a seed is the same text everywhere.

pieces    characters and words cut, doubled, swapped, or replaced by what YAML makes much of
values    one value of the document, at any depth, replaced, dropped, doubled or moved
"""

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.plans import places
from tests.spec.example import BASE

ROOT = Path(__file__).resolve().parents[2]
SCRAPS = (
    "\t", "&a ", "*a", "!!x ", "<<: ", "012", "0x1F", "1e3", "1_000", ".inf", "~", "- ", "? ", "| ", "> ", "'", '"',
    "#", "%", "%YAML 1.1\n", "---\n", "...", "\ufeff", "é", "\0", "\x85", "\u2028", "on", "no", "y", "[", "]", "{", "}",
    ",", ": ",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 300, 10**9, 2**63, 1.5, "", "t", "P", "kv", "a b", "1..2", "0..1000000", "x[y]", "25 Hz",
    "0 Hz", "32 ms", "min(", "n // 0", "n % 3", "((((", [], [[]], {}, {"window": 4}, {"ring": -1}, "grow", "absent",
    "é", "../x:build",
)  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """Return the specs that are mutated."""
    return (BASE, *(path.read_text() for path in sorted((ROOT / "specs").glob("*.yaml"))))


@cache
def documents() -> tuple[str, ...]:
    """Return the same as JSON, which copies fast."""
    return tuple(json.dumps(yaml.safe_load(text)) for text in texts())


@cache
def weights() -> list[float]:
    """Return how often each spec is taken: the short ones mostly, since they load fast."""
    return [1 / len(text) ** 2 for text in texts()]


def mutated(seed: int, number: int) -> bytes:
    """Return a mutated spec."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - not for secrets
    number = rng.choices(range(len(texts())), weights())[0]
    if rng.randrange(2):
        return _pieces(rng, texts()[number]).encode(errors="surrogatepass")
    document = json.loads(documents()[number])
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(places(document))
        _change(rng, document, holder, key)
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False).encode(errors="surrogatepass")


def check(data: bytes) -> str:
    """Load a spec; return `accepted` or the code of its first error. Anything else than our errors escapes."""
    from cadence_runtime.errors import CadenceError, ErrorList
    from cadencec.spec import parse_spec
    from cadencec.spec.source import decode

    try:
        parse_spec(decode(data, "a.yaml"), "a.yaml")
    except CadenceError as error:
        for part in error.errors if isinstance(error, ErrorList) else (error,):
            if not re.fullmatch(r"CAD1\d{3}", part.code) or not re.match(r"a\.yaml(:\d+:\d+)?$", part.at or ""):
                raise AssertionError(f"refused by {part.code} at {part.at}") from error
        return error.code
    return "accepted"


def _pieces(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, cut = rng.randrange(len(text) + 1), rng.choice((0, 0, 1, 2, 6, 40))
        match rng.randrange(5):
            case 0:
                piece = rng.choice(SCRAPS)
            case 1:
                piece = text[at : at + cut] * 2
            case 2:
                other = rng.randrange(len(text) + 1)
                piece = text[other : other + rng.choice((3, 10, 60))]
            case 3:
                piece = chr(rng.choice((rng.randrange(128), rng.randrange(0x3000))))
            case _:
                piece = ""
        text = text[:at] + piece + text[at + cut :]
    return text


def _change(rng: random.Random, document: Any, holder: Any, key: Any) -> None:
    action = rng.randrange(7)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[rng.choice(("t", "kv", "token", "inputs", "extra", "on"))] = holder.pop(key)
    elif action == 2:
        other_holder, other = rng.choice(places(document))
        holder[key] = json.loads(json.dumps(other_holder[other]))
    elif action == 3 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
        holder[key] += rng.choice((-1, 1, 1000))
    else:
        holder[key] = json.loads(json.dumps(rng.choice(VALUES)))
