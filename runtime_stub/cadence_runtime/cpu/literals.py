"""Literals of a tape as the values that torch takes."""

import struct

import torch

from cadence_runtime.format.tape import ITEM_BYTES, Literal

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
"""Every dtype that a tape may hold, by its name."""

HOST = torch.device("cpu")


def decode(literal: Literal, target: torch.device = HOST) -> object:
    """Return the value that a literal stands for; `target` is the device that the tape runs on."""
    text = literal.text
    match literal.kind:
        case "none" | "generator":
            return None
        case "bool":
            return text == "true"
        case "int":
            return int(text)
        case "float":
            return double(text)
        case "complex":
            return complex(*map(double, text.split(",")))
        case "str":
            return text
        case "dtype":
            return DTYPES[text]
        case "device":
            return target if text == "target" else HOST
        case "layout" | "memory_format":
            return getattr(torch, text)


def double(text: str) -> float:
    """Return the IEEE double of 16 hex digits, most significant first; NaN payloads survive."""
    return float(struct.unpack(">d", bytes.fromhex(text))[0])
