"""Literals of a tape as the values that torch takes."""

import struct

import torch

from cadence_runtime.format.tape import ITEM_BYTES, Literal

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
"""Every dtype that a tape may hold, by its name."""


def decode(literal: Literal, target: str = "cpu") -> object:
    """Return the value that a literal stands for; `target` is the device that the tape was made for."""
    text = literal.text
    match literal.kind:
        case "bool":
            return text == "true"
        case "int":
            return int(text)
        case "float":
            return _double(text)
        case "complex":
            return complex(*map(_double, text.split(",")))
        case "str":
            return text
        case "dtype":
            return DTYPES[text]
        case "device":
            return torch.device(target if text == "target" else "cpu")
        case "layout" | "memory_format":
            return getattr(torch, text)
        case _:
            return None


def _double(text: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text))[0])
