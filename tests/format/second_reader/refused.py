"""What the second reader says of a plan that breaks a rule."""

from typing import NoReturn


class Refused(Exception):
    """The plan breaks the rule that the message names."""


def refuse(why: str) -> NoReturn:
    raise Refused(why)


def need(holds: bool, why: str) -> None:
    if not holds:
        refuse(why)
