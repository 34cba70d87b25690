"""Every code of the format says exactly what is in `messages.txt`; both lists are the same."""

import re
from pathlib import Path

import pytest

from cadence_runtime.errors import CadenceError, ErrorList
from tests.format.breaks import BREAKS

MESSAGES = {
    message.partition(":")[0]: message
    for message in Path(__file__).with_name("messages.txt").read_text().strip().split("\n\n")
}


def test_every_break_has_its_message() -> None:
    assert sorted(BREAKS) == sorted(MESSAGES)


@pytest.mark.parametrize("code", sorted(BREAKS))
def test_the_whole_message(code: str) -> None:
    with pytest.raises(CadenceError) as caught:
        BREAKS[code]()
    errors = caught.value.errors if isinstance(caught.value, ErrorList) else (caught.value,)
    found = [error for error in errors if error.code == code]
    assert found, [error.code for error in errors]
    # A temporary folder has another name each time.
    assert re.sub(r"/\S*/(?=toy\.plan$)", "FOLDER/", str(found[0]), flags=re.M) == re.sub(
        r"/\S*/(?=toy\.plan$)", "FOLDER/", MESSAGES[code], flags=re.M
    )
