"""The table of benches: made from files of `bench --json`, always the same, and from nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.bench_table import main, table

STEADY = {"frame": {"median_s": 0.002, "p5_s": 0.001, "p95_s": 0.0034567, "rounds_s": [0.002]}}
MEMORY = {"allocator_bytes": None, "device_bytes": 1_234_567_890, "host_bytes": 5_000_000}
REPLAY = {
    "variant": "replay",
    "numerics": True,
    "steady": STEADY,
    "session_s": [3.0, 1.0, 2.0],
    "open_s": [0.1],
    "first_output_s": [],
    "memory": MEMORY,
}
SPREAD = {"median": 3.125, "lowest": 3.0, "highest": 3.25}
STOCK = {
    **REPLAY,
    "variant": "released",
    "numerics": False,
    "first_output_s": [4.0],
    "times_the_replay": {"steady": {"frame": SPREAD}, "session": SPREAD},
}
BENCH: dict[str, Any] = {
    "schema": "cadencec.bench/2",
    "model": "m",
    "random_weights": True,
    "target": "cuda",
    "device": "abacus",
    "versions": {"cadencec": "1", "driver": "CUDA 13.0"},
    "date": "2026-12-06",
    "numerics": {"cudnn_deterministic": "true"},
    "loop": "the released loop",
    "session": {"seconds": 60.0, "turns": 3, "pushes": 1000, "seed": 0},
    "rounds": 3,
    "equal": True,
    "compared_with": "plain",
    "outputs": 1000,
    "difference": None,
    "replay": REPLAY,
    "stock": [STOCK],
    "plan": {
        "size_bytes": 3_000_000,
        "weights_bytes": 2_000_000,
        "weights_apart_bytes": 2_000_000,
        "keys": 1122,
        "nodes": 10_000,
        "predicted_bytes": 7_000_000,
        "resident_bytes": 8_000_000,
    },
}


def test_a_table_of_one_comparison() -> None:
    _, line, replay, stock, _, conditions = table([BENCH]).splitlines()
    assert line == "|" + " --- |" * 10
    assert replay == (
        "| m, **random weights** | replay | frame 2.000 (1.000 to 3.457) | - | 2.000 | - | - | - | 1,234.6 | 5.000 |"
    )
    assert stock == (
        "|  | released, no numerics | frame 2.000 (1.000 to 3.457) | 3.12 | 2.000 | 3.12 | 4.00 | - | 1,234.6 | 5.000 |"
    )
    assert conditions == (
        "* m, **random weights**: 1,000 outputs bit-identical to the released loop (`plain`). Numerics: "
        "cudnn_deterministic true. Plan: 3.000 MB with 0.000 MB of weights in it and 2.000 MB apart, 1,122 keys, "
        "10,000 nodes; 7.000 MB of memory predicted, 8.000 MB with every key resident. Session: 60.0 s, 3 turns, "
        "1,000 pushes, seed 0; 3 rounds. abacus; cadencec 1, driver CUDA 13.0; 2026-12-06."
    )


def test_a_comparison_that_differs_says_so() -> None:
    text = table([BENCH, {**BENCH, "equal": False, "difference": "push 7 (`frame`), output `y`: 1 bit"}])
    assert "**differs** from the released loop (`plain`): push 7 (`frame`), output `y`: 1 bit. Numerics" in text
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 6


def test_only_comparisons_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, live, broken = (tmp_path / name for name in ("good.json", "live.json", "broken.json"))
    good.write_text(json.dumps(BENCH))
    live.write_text('{"schema": "cadencec.bench-live/1"}')
    broken.write_text("{")
    main([str(good), str(good)])
    assert capsys.readouterr().out == table([BENCH, BENCH]) + "\n"
    for path, why in (
        (live, "its schema is cadencec.bench-live/1, not cadencec.bench/2"),
        (broken, "Expecting property name"),
        (tmp_path / "none.json", "No such file"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main([str(good), str(path)])
        said = capsys.readouterr().err
        assert f"error: {path}: " in said and why in said
