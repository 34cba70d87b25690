"""Mutated plans: item `n` of a seed is the same bytes everywhere, so a find is told by two numbers.

bytes      cut, flipped, spliced, lengths and offsets replaced: what an accident or a careless attacker does
sections   one section changed and every digest made anew: what gets past the digests
manifest   one value of the manifest, at any depth, replaced, dropped or doubled
words      one 64-bit word of a table replaced by a borderline value
"""

import json
import random
from functools import cache
from typing import Any

from cadence_runtime.format.plan import minor_of
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import encode_plan
from cadence_runtime.zstd import compress, decompress
from tests.format.forge import join, sections
from tests.format.plans import cuda_example, example, template_example

WORDS = (0, 1, 2, 3, 7, 255, 256, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**63))
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63) + 1, "", "x", "../x", "\u202e", "aten::mul", "25/2", "1/0",
    "n + 1", "(" * 50, [], [[]], [0], {}, {"tensor": {}}, {"literal": {"kind": "int", "text": "1"}}, "0" * 64,
    "float32",
)  # fmt: skip


@cache
def bases() -> tuple[tuple[bytes, dict[str, bytes], int], ...]:
    """Return small plans for both targets: packed, as sections, and of which minor version they are."""
    plans = (example(steps=1), cuda_example(), template_example(), example(steps=2, embed=False))
    return tuple((encode_plan(plan, compress=compress), sections(plan), minor_of(plan)) for plan in plans)


def mutated(seed: int, number: int) -> bytes:
    """Return a mutated plan."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 - not for secrets
    data, parts, minor = rng.choice(bases())
    kind = rng.choice(("bytes", "sections", "manifest", "manifest", "words", "words"))
    if kind == "bytes":
        return _bytes(rng, bytearray(data))
    changed = dict(parts)
    if kind == "manifest":
        changed["manifest"] = _manifest(rng, parts["manifest"])
    elif kind == "words":
        name = rng.choice([name for name in ("nodes", "transitions", "tapes", "graphs", "blob-table") if parts[name]])
        changed[name] = _words(rng, parts[name])
    else:
        name = rng.choice([name for name in parts if parts[name]])
        changed[name] = _bytes(rng, bytearray(parts[name]))
    return join(changed, minor)


def check(data: bytes) -> str:
    """Read a plan; return `accepted` or the code that refused it. Anything else than our error escapes."""
    from cadence_runtime.errors import CadenceError

    try:
        read_plan(data, decompress=decompress)
    except CadenceError as error:
        if not error.code.startswith("CAD5") or error.code == "CAD5017":  # no memory, of a plan of a few kilobytes
            raise AssertionError(f"refused by {error.code}") from error
        return error.code
    return "accepted"


def _bytes(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                data[at:at] = rng.randbytes(rng.choice((1, 8, 64)))
            case 3:
                del data[at : at + rng.choice((1, 8, 64))]
            case 4:
                data[at : at + 8] = rng.choice(WORDS).to_bytes(8, "little", signed=True)
            case _:
                other = rng.randrange(len(data) + 1)
                data[at : at + 32] = data[other : other + 32]
        if not data:
            break
    return bytes(data)


def _words(rng: random.Random, data: bytes) -> bytes:
    words = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 3))):
        at = 8 * rng.randrange(max(len(words) // 8, 1))
        if rng.randrange(8) == 0:
            del words[at : at + 8]
        elif rng.randrange(8) == 0:
            words[at:at] = words[at : at + 8]
        else:
            near = int.from_bytes(words[at : at + 8], "little", signed=True) + rng.choice((-1, 1))
            value = rng.choice((*WORDS, near, near)) if abs(near) < 2**62 else rng.choice(WORDS)
            words[at : at + 8] = value.to_bytes(8, "little", signed=True)
    return bytes(words)


def _manifest(rng: random.Random, data: bytes) -> bytes:
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(list(places(document)))
        _change(rng, holder, key)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(
        errors="surrogatepass"
    )


def _change(rng: random.Random, holder: Any, key: Any) -> None:
    """Replace, drop or double the value of a dict or list at a key."""
    action = rng.randrange(8)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif action == 2 and isinstance(holder, dict):
        holder[rng.choice(("x", "name", "offset", key + "_"))] = holder[key]
    elif action == 3 and isinstance(holder[key], int):
        holder[key] += rng.choice((-256, -64, -1, 1, 64, 256))
    elif action == 4:
        other_holder, other = rng.choice(list(places(holder)))
        holder[key] = json.loads(json.dumps(other_holder[other]))
    else:
        holder[key] = json.loads(json.dumps(rng.choice(VALUES)))


def places(node: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in plain data."""
    found: list[tuple[Any, Any]] = []
    waiting = [node]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found
