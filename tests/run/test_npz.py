from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cadence_runtime.errors import UsageError
from cadence_runtime.host.program import Program
from cadencec.run.feed import Push
from cadencec.run.npz import read_npz


def save(tmp_path: Path, **arrays: Any) -> str:
    path = tmp_path / "feed.npz"
    np.savez(path, **arrays)
    return str(path)


def plain(pushes: tuple[Push, ...]) -> list[tuple[str, dict[str, Any]]]:
    return [(push.event, {name: np.asarray(value).tolist() for name, value in push.values.items()}) for push in pushes]


def test_rows_of_one_array_go_to_the_pushes_that_take_it(units: Program, tmp_path: Path) -> None:
    x = np.arange(50).reshape(2, 1, 25)
    feed = read_npz(save(tmp_path, events=["unit", "turn", "unit"], x=x), units)
    assert plain(feed.pushes) == [("unit", {"x": x[0].tolist()}), ("turn", {}), ("unit", {"x": x[1].tolist()})]
    assert feed.pushes[0].values["x"].dtype == x.dtype


def test_numbered_arrays_may_differ_in_shape(units: Program, tmp_path: Path) -> None:
    arrays = {"x.0": np.zeros((1, 3), np.int64), "x.2": np.ones((1, 25), np.int64)}
    feed = read_npz(save(tmp_path, events=["first", "turn", "unit"], **arrays), units)
    assert [np.shape(push.values["x"]) for push in feed.pushes if push.values] == [(1, 3), (1, 25)]


def test_a_choice_that_no_shape_tells_is_a_number(units: Program, tmp_path: Path) -> None:
    feed = read_npz(save(tmp_path, events=["pick", "pick"], n=[3, 0]), units)
    assert plain(feed.pushes) == [("pick", {"n": 3}), ("pick", {"n": 0})]


def test_events_may_be_left_out_where_only_one_takes_tensors(hears: Program, tmp_path: Path) -> None:
    assert [push.event for push in read_npz(save(tmp_path, x=np.zeros((3, 1, 512))), hears).pushes] == ["chunk"] * 3
    numbered = {"x.0": np.zeros((1, 512)), "x.1": np.zeros((1, 512))}
    assert [push.event for push in read_npz(save(tmp_path, **numbered), hears).pushes] == ["chunk"] * 2


def test_an_event_that_does_not_exist_is_left_to_the_session(units: Program, tmp_path: Path) -> None:
    assert plain(read_npz(save(tmp_path, events=["nothing"]), units).pushes) == [("nothing", {})]


def test_cad9111_not_an_npz_file(hears: Program, tmp_path: Path) -> None:
    path = tmp_path / "feed.npz"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UsageError) as failure:
        read_npz(str(path), hears)
    assert str(failure.value) == (
        "CAD9111: not an npz file of plain arrays\n"
        "  expected: named arrays\n"
        "  got:      file is not a zip file\n"
        f"  at:       {path}\n"
        "  hint:     write it with `numpy.savez`"
    )


def test_cad9111_every_cut_of_a_file_is_refused(hears: Program, tmp_path: Path) -> None:
    path = Path(save(tmp_path, x=np.zeros((1, 1, 4))))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="CAD9111"):
            read_npz(str(path), hears)


def test_cad9111_every_flipped_byte_is_refused_or_harmless(hears: Program, tmp_path: Path) -> None:
    path = Path(save(tmp_path, x=np.zeros((1, 1, 4))))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read_npz(str(path), hears)
        except UsageError as refused:
            assert refused.code.startswith("CAD91")


def test_cad9111_pickled_objects_are_refused(hears: Program, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CAD9111"):
        read_npz(save(tmp_path, x=np.array([{}], dtype=object)), hears)


def test_cad9112_no_events(units: Program, tmp_path: Path) -> None:
    path = save(tmp_path, x=np.zeros((1, 1, 25)))
    with pytest.raises(UsageError) as failure:
        read_npz(path, units)
    assert str(failure.value) == (
        "CAD9112: the file has no array `events`\n"
        "  expected: the event of each push, as strings\n"
        f"  at:       {path}\n"
        "  hint:     events that take inputs: `first`, `pick`, `unit`"
    )


def test_cad9112_events_that_are_no_strings(units: Program, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`events` does not list events"):
        read_npz(save(tmp_path, events=[1, 2]), units)


def test_cad9113_a_row_too_few(units: Program, tmp_path: Path) -> None:
    path = save(tmp_path, events=["unit", "unit"], x=np.zeros((1, 1, 25)))
    with pytest.raises(UsageError) as failure:
        read_npz(path, units)
    assert str(failure.value) == (
        f"CAD9113: `x` has not one row for each push\n  expected: 2 rows\n  got:      1\n  at:       {path}"
    )


def test_cad9113_a_numbered_array_is_missing(units: Program, tmp_path: Path) -> None:
    arrays = {"x.0": np.zeros((1, 25))}
    path = save(tmp_path, events=["unit", "turn", "unit"], **arrays)
    with pytest.raises(UsageError) as failure:
        read_npz(path, units)
    assert str(failure.value) == (
        "CAD9113: push 2 lacks its `x`\n"
        "  expected: `x` with 2 rows, or `x.2`\n"
        "  got:      one of `events`, `x.0`\n"
        f"  at:       {path}"
    )


def test_cad9114_an_array_that_nothing_takes(units: Program, tmp_path: Path) -> None:
    path = save(tmp_path, events=["unit"], x=np.zeros((1, 1, 25)), y=np.zeros(1))
    with pytest.raises(UsageError) as failure:
        read_npz(path, units)
    assert str(failure.value) == (
        f"CAD9114: no push takes `y`\n  expected: one of `events`, `n`, `x`\n  got:      `y`\n  at:       {path}"
    )
