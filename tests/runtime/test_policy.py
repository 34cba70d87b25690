"""What a policy lets through: plans and weights as they were signed, by whom it says, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from model_signing import signing, verifying

from cadence_runtime import Policy, check, load
from cadence_runtime.check import open_plan
from cadence_runtime.errors import CadenceError, IncompatibleError, UsageError
from cadence_runtime.signature import faults
from cadencec.compile.job import Request, compile_file
from cadencec.sign import Signer, sign_file
from tests.cases.driver import spec_path
from tests.runtime.keys import Authority, certified, new_pair


@dataclass(frozen=True, slots=True)
class Release:
    """A plan with the weights file and the signature beside it, and the key that trusts it."""

    plan: Path
    weights: Path
    signature: Path
    public: Path
    private: Path

    @property
    def policy(self) -> Policy:
        return Policy(public_key=self.public)

    def copied(self, folder: Path) -> "Release":
        """Return the same release in another folder."""
        files = (self.plan, self.weights, self.signature)
        return Release(*(Path(shutil.copy(file, folder)) for file in files), self.public, self.private)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    pair = new_pair(tmp_path_factory.mktemp("keys"), "release")
    plan = folder / "model.cpu.plan"
    written = compile_file(Request(str(spec_path("01")), str(plan), sign=str(pair.private)), lambda *_: None).written
    assert written.weights_file is not None and written.signature_file is not None
    return Release(plan, written.weights_file, written.signature_file, pair.public, pair.private)


@pytest.fixture
def release(made: Release, tmp_path: Path) -> Release:
    return made.copied(tmp_path)


def refusal(release: Release, policy: Policy | None = None) -> IncompatibleError:
    """Return why a load refuses a release, which has to be the one reason that a check has."""
    with pytest.raises(IncompatibleError) as caught:
        load(release.plan, policy=policy or release.policy)
    (reason,) = check(release.plan, policy=policy or release.policy).reasons
    assert str(reason) == str(caught.value)
    return caught.value


def test_what_was_signed_loads_and_plays(release: Release) -> None:
    assert check(release.plan, policy=release.policy).verdict == "ok"
    x = torch.ones(1, 1, 16)
    with load(release.plan) as plain, load(release.plan, policy=release.policy) as trusted:
        assert torch.equal(plain.session().push("frame", x=x)["y"], trusted.session().push("frame", x=x)["y"])


def test_an_unsigned_plan(release: Release) -> None:
    release.signature.unlink()
    assert str(refusal(release)) == (
        "CAD6021: the plan is not signed\n"
        "  expected: a signature beside it\n"
        "  got:      nothing\n"
        f"  at:       {release.signature}\n"
        "  hint:     get it from where the plan comes from, or make it: `cadencec sign`"
    )
    load(release.plan, policy=replace(release.policy, required=False)).close()


def test_a_signature_of_somebody_else(release: Release, tmp_path: Path) -> None:
    other = new_pair(tmp_path, "other").public
    assert str(refusal(release, Policy(other))) == (
        "CAD6022: the plan's signature is not one that the policy trusts\n"
        f"  expected: a signature under {other}\n"
        "  got:      Key mismatch: The public key hash in the signature's verification material does not match the"
        " provided public key.\n"
        f"  at:       {release.signature}"
    )
    # Where a signature is there, it has to be right, required or not.
    assert refusal(release, Policy(other, required=False)).code == "CAD6022"


def test_a_signature_of_somebody_else_who_names_the_trusted_key(release: Release, tmp_path: Path) -> None:
    hint = json.loads(release.signature.read_bytes())["verificationMaterial"]
    sign_file(str(release.plan), Signer(str(new_pair(tmp_path, "other").private)))
    forged = json.loads(release.signature.read_bytes()) | {"verificationMaterial": hint}
    release.signature.write_text(json.dumps(forged))
    assert (refusal(release).code, refusal(release).got) == ("CAD6022", "InvalidSignature")


def test_weights_with_one_other_bit(release: Release) -> None:
    content = bytearray(release.weights.read_bytes())
    content[-1] ^= 1
    release.weights.write_bytes(content)
    load(release.plan).close()
    with pytest.raises(IncompatibleError) as caught:
        load(release.plan, policy=release.policy)
    assert str(caught.value) == (
        "CAD6023: the plan or its weights are not those that were signed\n"
        f"  expected: `model.cpu.plan` and `{release.weights.name}` as signed\n"
        f"  got:      other bytes in `{release.weights.name}`\n"
        f"  at:       {release.signature}\n"
        "  hint:     use plan, weights file and signature of one release, under the names that they were signed with"
    )
    assert [reason.code for reason in check(release.plan, policy=release.policy).reasons] == ["CAD6023", "CAD6004"]


def test_another_plan_in_its_place(release: Release) -> None:
    request = Request(str(spec_path("01")), str(release.plan), overrides={"horizon": "5 events"})
    compile_file(request, lambda *_: None)
    load(release.plan).close()
    assert (refusal(release).code, refusal(release).got) == ("CAD6023", "other bytes in `model.cpu.plan`")


@pytest.mark.parametrize("byte", [b"'", b'"', b"\\", b"\n", b"\0"])
def test_other_bytes_are_named_whatever_their_digest(release: Release, byte: bytes) -> None:
    digests = {file.name: sha256(file.read_bytes()).hexdigest() for file in (release.plan, release.weights)}
    assert list(faults(release.policy, str(release.plan), digests)) == []
    altered = digests | {release.plan.name: byte.hex() * 32}
    (fault,) = faults(release.policy, str(release.plan), altered)
    assert fault.got == "other bytes in `model.cpu.plan`"


def test_a_plan_under_another_name(release: Release) -> None:
    older = release.plan.rename(release.plan.with_name("older.cpu.plan"))
    moved = replace(release, plan=older, signature=release.signature.rename(f"{older}.sig"))
    assert refusal(moved).code == "CAD6023"
    assert "older.cpu.plan" in str(refusal(moved).got)


def test_a_folder_may_have_any_name_and_files_may_be_links(made: Release, tmp_path: Path) -> None:
    for file in (made.plan, made.weights, made.signature):
        (tmp_path / file.name).symlink_to(file)
    load(tmp_path / made.plan.name, policy=made.policy).close()


def test_weights_elsewhere_are_covered_too(release: Release, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = release.weights.rename(tmp_path / "elsewhere" / release.weights.name)
    load(release.plan, moved, policy=release.policy).close()
    renamed = moved.rename(moved.with_name("w.safetensors"))
    with pytest.raises(IncompatibleError, match="CAD6023"):
        load(release.plan, renamed, policy=release.policy)


def test_weights_that_cannot_be_read_are_one_reason(release: Release) -> None:
    release.weights.unlink()
    assert refusal(release).code == "CAD6003"


# Between the check and the load.


def after_the_check(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change the files right after everything was checked."""
    module = import_module("cadence_runtime.load")  # the package has the function under the same name
    original = module.raise_all

    def checked(errors: Iterable[CadenceError]) -> None:
        original(errors)
        change()

    monkeypatch.setattr(module, "raise_all", checked)


def test_weights_that_change_after_the_check_are_not_loaded(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(release.weights.read_bytes())
    content[-1] ^= 1
    after_the_check(monkeypatch, lambda: release.weights.write_bytes(content))
    with pytest.raises(IncompatibleError, match="CAD6004"):
        load(release.plan, policy=release.policy)


def test_files_that_are_replaced_after_the_check_do_not_matter(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced() -> None:
        for file in (release.plan, release.weights):
            file.rename(f"{file}.old")
            file.write_bytes(b"something else")

    expected = open_plan(release.plan)
    after_the_check(monkeypatch, replaced)
    with load(release.plan, policy=release.policy) as loaded:
        assert loaded.plan == expected
        loaded.session().push("frame", x=torch.ones(1, 1, 16))


# Signatures that are none.

NONE = {
    "empty": b"",
    "an object": b"{}",
    "a list": b"[]",
    "nested": b"[" * 100_000,
    "not text": b"\xff\xfe",
    "long": b" " * (1 << 21),
    "without an envelope": b'{"verificationMaterial":{},"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}',
}


@pytest.mark.parametrize("content", NONE.values(), ids=NONE)
def test_a_file_that_is_no_signature(release: Release, content: bytes) -> None:
    release.signature.write_bytes(content)
    assert refusal(release).code == "CAD6022"


def test_something_else_than_a_file(release: Release) -> None:
    release.signature.unlink()
    os.mkfifo(release.signature)
    assert refusal(release).code == "CAD6022"
    release.signature.unlink()
    release.signature.mkdir()
    assert refusal(release).code == "CAD6022"


def test_a_signature_that_cannot_be_read_is_not_the_same_as_none(release: Release) -> None:
    release.signature.unlink()
    release.signature.symlink_to(release.signature.name)
    error = refusal(release, replace(release.policy, required=False))
    assert (error.code, error.got) == ("CAD6022", "too many levels of symbolic links")


def test_no_damage_to_a_signature_escapes(release: Release) -> None:
    whole = release.signature.read_bytes()
    refused = 0
    for at in range(0, len(whole), 37):
        release.signature.write_bytes(whole[:at] + bytes([whole[at] ^ 5]) + whole[at + 1 :])
        refused += check(release.plan, policy=release.policy).verdict == "incompatible"
        release.signature.write_bytes(whole[:at])
        assert check(release.plan, policy=release.policy).verdict == "incompatible"
    assert refused >= len(whole) / 37 - 3  # what is outside of the envelope and the key's name need not matter


# Certificates.


@pytest.fixture(scope="module")
def root() -> Authority:
    return certified("a root", is_authority=True)


def signed_by(release: Release, signer: Authority, *behind: Authority) -> None:
    key, chain = signer.write(release.plan.parent, "signer", *behind)
    sign_file(str(release.plan), Signer(str(key), str(chain)))


def trusting(folder: Path, *roots: Authority) -> Policy:
    return Policy(certificates=tuple(one.write(folder, f"root{i}")[1] for i, one in enumerate(roots)))


def test_a_chain_of_certificates(release: Release, root: Authority, tmp_path: Path) -> None:
    between = certified("a department", root, is_authority=True)
    signed_by(release, certified("a signer", between, is_authority=False), between)
    load(release.plan, policy=trusting(tmp_path, root)).close()
    load(release.plan, policy=trusting(tmp_path, certified("another", is_authority=True), root)).close()
    assert refusal(release, trusting(tmp_path, certified("another", is_authority=True))).code == "CAD6022"
    assert refusal(release).code == "CAD6022"  # a policy of a key takes no certificate


def test_a_certificate_that_may_not_sign(release: Release, root: Authority, tmp_path: Path) -> None:
    signed_by(release, certified("a server", root, is_authority=False, signs=False))
    assert refusal(release, trusting(tmp_path, root)).got == "Signing certificate cannot be used for signing"


def test_a_signer_who_certifies_itself(release: Release, root: Authority, tmp_path: Path) -> None:
    signed_by(release, certified("a root", is_authority=False))
    assert refusal(release, trusting(tmp_path, root)).code == "CAD6022"


# The format is model-signing's own.


def test_the_library_itself_takes_the_signature(release: Release) -> None:
    (release.plan.parent / "README.md").write_text("not signed")
    config = verifying.Config().use_elliptic_key_verifier(public_key=release.public)  # type: ignore[no-untyped-call]
    config.set_ignore_unsigned_files(True).verify(release.plan.parent, release.signature)


def test_a_signature_that_the_library_made(release: Release) -> None:
    release.signature.unlink()
    config = signing.Config().use_elliptic_key_signer(private_key=release.private)  # type: ignore[no-untyped-call]
    config.sign(release.plan.parent, release.signature)
    load(release.plan, policy=release.policy).close()


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP521R1()])
def test_longer_keys(release: Release, tmp_path: Path, curve: ec.EllipticCurve) -> None:
    pair = new_pair(tmp_path, "long", curve)
    sign_file(str(release.plan), Signer(str(pair.private)))
    load(release.plan, policy=Policy(pair.public)).close()


# Policies.


def test_a_policy_trusts_one_thing() -> None:
    with pytest.raises(UsageError) as caught:
        Policy()
    assert str(caught.value) == (
        "CAD9601: a policy trusts a public key, or certificates\n"
        "  expected: one of `public_key` and `certificates`\n"
        "  got:      neither"
    )
    with pytest.raises(UsageError, match="both"):
        Policy("a.pub.pem", ("root.pem",))


def test_a_policy_of_a_file(made: Release, root: Authority, tmp_path: Path) -> None:
    chain = root.write(tmp_path, "root")[1]
    assert Policy.of_file(made.public) == Policy(public_key=made.public)
    assert Policy.of_file(chain) == Policy(certificates=(chain,))
    for file, got in ((made.private, "a private key"), (made.plan, "neither of them"), (tmp_path, "is a directory")):
        with pytest.raises(UsageError) as caught:
            Policy.of_file(file)
        assert str(caught.value) == (
            "CAD9602: the policy's file cannot be used\n"
            "  expected: PEM: a public key on P-256, P-384 or P-521, or certificates\n"
            f"  got:      {got}\n"
            f"  at:       {file}"
        )


@pytest.mark.parametrize("kind", ["rsa", "ed25519", "another curve", "damaged", "missing"])
def test_a_key_of_another_kind_is_refused_before_it_decides(release: Release, tmp_path: Path, kind: str) -> None:
    keys = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "another curve": lambda: ec.generate_private_key(ec.SECP256K1()),
    }
    path = tmp_path / "strange.pem"
    if kind in keys:
        path.write_bytes(keys[kind]().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    elif kind == "damaged":
        path.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    for ask in (load, check):
        with pytest.raises(CadenceError, match="CAD9602"):
            ask(release.plan, policy=Policy(path))


def test_without_the_package(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    monkeypatch.delitem(sys.modules, "cadence_runtime.signature", raising=False)
    monkeypatch.delattr("cadence_runtime.signature", raising=False)
    with pytest.raises(UsageError) as caught:
        load(release.plan, policy=release.policy)
    assert str(caught.value) == (
        "CAD9603: signatures need a package that is not installed\n"
        "  expected: model-signing\n"
        "  got:      import of model_signing halted; none in sys.modules\n"
        "  hint:     pip install 'cadence-runtime[sign]'"
    )
    load(release.plan).close()


def test_nobody_pays_for_signatures_who_has_no_policy(release: Release) -> None:
    code = (
        "import sys\nfrom cadence_runtime import load\n"
        f"load({str(release.plan)!r}).close()\n"
        "print(sorted({'model_signing', 'cryptography', 'sigstore'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
