"""Signing: what belongs together is signed, with a key that can be used, and nothing else is."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cadence_runtime.check import open_plan
from cadence_runtime.errors import CadenceError, UsageError
from cadence_runtime.format.writer import write_plan
from cadencec.compile.job import Request, compile_file
from cadencec.sign import Signer, sign_file
from tests.cases.driver import spec_path
from tests.runtime.keys import certified, new_pair


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan and its weights file."""
    folder = tmp_path_factory.mktemp("made")
    compile_file(Request(str(spec_path("01")), str(folder / "a.cpu.plan")), lambda *_: None)
    return folder


@pytest.fixture
def plan(made: Path, tmp_path: Path) -> Path:
    """A plan of its own for a test."""
    return Path(shutil.copytree(made, tmp_path / "made")) / "a.cpu.plan"


def refused(plan: Path, signer: Signer, code: str) -> CadenceError:
    """Return why a plan is not signed, and make sure that nothing was written."""
    before = sorted(plan.parent.iterdir())
    with pytest.raises(CadenceError, match=code) as caught:
        sign_file(str(plan), signer)
    assert sorted(plan.parent.iterdir()) == before
    return caught.value


def test_weights_of_another_build_are_not_signed(plan: Path, tmp_path: Path) -> None:
    signer = Signer(str(new_pair(tmp_path, "a").private))
    (weights,) = plan.parent.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    refused(plan, signer, "CAD6004")
    weights.unlink()
    refused(plan, signer, "CAD6003")


def test_what_is_no_plan_is_not_signed(plan: Path, tmp_path: Path) -> None:
    plan.write_bytes(plan.read_bytes()[:-1])
    refused(plan, Signer(str(new_pair(tmp_path, "a").private)), "CAD5003")


def test_a_plan_that_was_replaced_is_not_signed(plan: Path, tmp_path: Path) -> None:
    signer, expected = Signer(str(new_pair(tmp_path, "a").private)), open_plan(plan)
    write_plan(plan, replace(expected, provenance=replace(expected.provenance, compiler="9.9.9")))
    with pytest.raises(UsageError) as caught:
        sign_file(str(plan), signer, expected=expected)
    assert str(caught.value) == (
        "CAD9605: the plan was replaced before it was signed\n"
        "  expected: the plan that was just compiled\n"
        "  got:      another plan\n"
        f"  at:       {plan}\n"
        "  hint:     let one `compile` at a time write to this path"
    )


def missing(folder: Path) -> tuple[str, str]:
    return str(folder / "none.pem"), "no such file or directory"


def public(folder: Path) -> tuple[str, str]:
    return str(new_pair(folder, "a").public), ""


def locked(folder: Path) -> tuple[str, str]:
    return str(new_pair(folder, "a", password=b"secret").private), "password was not given but private key is encrypted"


@pytest.mark.parametrize("key", [missing, public, locked])
def test_a_key_that_cannot_sign(plan: Path, tmp_path: Path, key: Callable[[Path], tuple[str, str]]) -> None:
    path, got = key(tmp_path)
    error = refused(plan, Signer(path), "CAD9604")
    assert str(error) == (
        "CAD9604: the signer's key cannot be used\n"
        "  expected: PEM: a private key on P-256, P-384 or P-521 without a password, and its certificate if there is"
        " one\n"
        f"  got:      {got or error.got}\n"
        f"  at:       {path}\n"
        "  hint:     openssl ecparam -name prime256v1 -genkey -noout -out release.key.pem"
    )


def test_a_certificate_of_another_key(plan: Path, tmp_path: Path) -> None:
    _, chain = certified("a signer", is_authority=False).write(tmp_path, "signer")
    error = refused(plan, Signer(str(new_pair(tmp_path, "a").private), str(chain)), "CAD9604")
    assert str(error.got).startswith("the public key from the certificate does not match")


def test_a_key_is_tried_before_the_model_is(tmp_path: Path) -> None:
    request = Request(str(spec_path("01")), str(tmp_path / "a.cpu.plan"), sign=str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match="CAD9604"):
        compile_file(request, lambda *_: pytest.fail("work began"))
    assert list(tmp_path.iterdir()) == []


def test_the_weights_file_of_a_release_is_signed_where_it_lies(tmp_path: Path) -> None:
    compile_file(Request(str(spec_path("01")), str(tmp_path / "a.cpu.plan")), lambda *_: None)
    (weights,) = tmp_path.glob("*.safetensors")
    (tmp_path / "release").mkdir()
    weights.rename(tmp_path / "release" / "model.safetensors")
    (tmp_path / "model.py").write_text(spec_path("01").with_suffix(".py").read_text())
    text = (
        spec_path("01")
        .read_text()
        .replace("./01_growing_kv_cat.py:build", "./model.py:build\n  weights: {file: release/model.safetensors}")
    )
    (tmp_path / "model.yaml").write_text(text)
    pair = new_pair(tmp_path, "a")
    request = Request(str(tmp_path / "model.yaml"), str(tmp_path / "b.cpu.plan"), sign=str(pair.private))
    written = compile_file(request, lambda *_: None).written
    assert written.weights_file is None and written.signature_file == tmp_path / "b.cpu.plan.sig"
    again = sign_file(
        str(written.plan_file), Signer(str(pair.private)), weights=str(tmp_path / "release" / "model.safetensors")
    )
    assert [name for name, _ in again.files] == ["b.cpu.plan", "model.safetensors"]
