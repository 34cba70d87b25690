"""Signs a plan with its weights file, through model-signing.

What is signed is what was read and found whole: a valid plan, and a weights file with every tensor that it names.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cadence_runtime.check import file_digests
from cadence_runtime.errors import UsageError, raise_all
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.reader import read_plan_file
from cadence_runtime.format.replace import replace_file
from cadence_runtime.format.source import require_end
from cadence_runtime.policy import require_signatures
from cadence_runtime.weights import open_weights
from cadence_runtime.zstd import decompress

if TYPE_CHECKING:
    from model_signing.signing import Config


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signs: `key` is a PEM file with a private key on P-256, P-384 or P-521, not encrypted. `certificate` is a PEM
    file with the key's certificate, and behind it those between it and a root that policies trust."""

    key: str
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was written, and what it covers: names and their sha256."""

    signature: str
    files: tuple[tuple[str, str], ...]


def sign_file(plan: str, signer: Signer, *, weights: str | None = None, expected: Plan | None = None) -> Signed:
    """Sign a plan and its weights file, and write the signature beside the plan.

    `weights` is the weights file where it does not lie beside the plan; `expected` is what has to stand in the plan's
    file. Raises UsageError CAD9602 to CAD9605, PlanError for a plan that is none, and IncompatibleError CAD6003 or
    CAD6004 for weights that are not those of the plan; then nothing is written.
    """
    config = require_signer(signer)
    file = read_plan_file(plan, decompress=decompress, hashed=True)
    if expected is not None and file.plan != expected:
        raise UsageError(
            "CAD9605",
            "the plan was replaced before it was signed",
            expected="the plan that was just compiled",
            got="another plan",
            at=plan,
            hint="let one `compile` at a time write to this path",
        )
    with open_weights(file.plan, plan, weights) as held:
        raise_all(held.faults(file.plan, digests=True))
        digests = file_digests(plan, file, held)
    signature = require_signatures().signature_path(plan)
    replace_file(signature, [_signed(config, os.path.basename(plan), digests)])
    return Signed(signature, tuple(digests.items()))


def require_signer(signer: Signer) -> "Config":
    """Return what signs. Raises UsageError CAD9603 without model-signing, CAD9202 or CAD9604 for a key or certificate
    that cannot be used; worth asking before long work."""
    require_signatures()
    from model_signing.signing import Config

    config = Config()  # type: ignore[no-untyped-call]
    for file in filter(None, (signer.key, signer.certificate)):
        require_end(file)
    try:
        if signer.certificate is None:
            return config.use_elliptic_key_signer(private_key=signer.key)
        return config.use_certificate_signer(
            private_key=signer.key, signing_certificate=signer.certificate, certificate_chain=[signer.certificate]
        )
    except Exception as error:  # a key of another kind fails in its own way
        raise _unusable(signer, error) from None


def _unusable(signer: Signer, error: Exception) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
    return UsageError(
        "CAD9604",
        "the signer's key cannot be used",
        expected="PEM: a private key on P-256, P-384 or P-521 without a password, and its certificate if there is one",
        got=(reason or type(error).__name__).lower(),
        at=signer.key if signer.certificate is None else f"{signer.key}, {signer.certificate}",
        hint="openssl ecparam -name prime256v1 -genkey -noout -out release.key.pem",
    )


def _signed(config: "Config", name: str, digests: dict[str, str]) -> bytes:
    """Return the content of a signature: model-signing writes files only."""
    hashed = require_signatures().Digests(digests)
    with TemporaryDirectory() as folder:
        made = Path(folder) / "signature"
        config.set_hashing_config(hashed).sign(name, made)
        return made.read_bytes()


def render(signed: Signed) -> str:
    """Return what was signed as text."""
    names = " and ".join(name for name, _ in signed.files)
    return f"{signed.signature}: signs {names}"


def to_json(signed: Signed) -> dict[str, Any]:
    """Return what was signed as an object."""
    files = [{"name": name, "sha256": sha256} for name, sha256 in signed.files]
    return {"signature": signed.signature, "files": files}
