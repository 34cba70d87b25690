"""The README's commands and code run as they stand, and its spec is the one in `specs/`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the checkout to the README's commands."""
    for name in ("specs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_commands_and_the_code_run_in_their_order(folder: Path) -> None:
    (commands,), (code,) = blocks("sh"), blocks("python")
    lines = [line.removeprefix(".venv/bin/cadencec ").split() for line in commands.splitlines()]
    for command in [*(["-m", "cadencec", *line] for line in lines), ["-c", code]]:
        done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (folder / "speech.npz").is_file()


def test_the_spec_is_the_one_that_ships() -> None:
    from cadencec.spec import load_spec, parse_spec

    (text,) = blocks("yaml")
    assert parse_spec(text, "README.md").sha256 == load_spec(ROOT / "specs" / "silero_vad.yaml").sha256


def test_what_the_readme_names_exists() -> None:
    table = re.findall(r"`(tests/[^`]*)`|\]\(([^)#:]*)\)", README)
    names = {name for pair in table for name in pair if name}
    assert sorted(name for name in names if not (ROOT / name).exists()) == []


def test_every_target_that_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}: " in makefile for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.M))
