"""Numbers as people read them."""

from fractions import Fraction


def bytes_text(count: int) -> str:
    """Return a size with at most one decimal: `17 B`, `4 kB`, `2.1 MB` (powers of ten)."""
    size, units = Fraction(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{float(size):.1f}".removesuffix(".0") + f" {units[0]}"


def counted(count: int, noun: str) -> str:
    """Return `1 key`, `3 keys`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_text(seconds: Fraction) -> str:
    """Return a time: `80 ms`, `2 s`, `1.5 s`."""
    if seconds < 1:
        return f"{float(seconds * 1000):g} ms"
    return f"{float(seconds):g} s"
