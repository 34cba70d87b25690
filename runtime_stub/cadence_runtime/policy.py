"""Whom to trust: by whom a plan and its weights must be signed before anything of them is used."""

import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Self

from cadence_runtime.errors import CadenceError, UsageError
from cadence_runtime.format.source import require_end
from cadence_runtime.frozen import frozen

Path = str | os.PathLike[str]
MAX_PEM_BYTES = 1 << 20


@frozen
class Policy:
    """A plan is trusted when the holder of a key signed it together with its weights file.

    `public_key` is a PEM file with the key (NIST P-256, P-384 or P-521). Or `certificates` are PEM files with the
    certificates that are trusted, roots first: then the signature brings the signer's own. One of the two is given;
    UsageError CAD9601 otherwise.

    With `required=False` a plan without a signature loads as if there were no policy, and one with a wrong signature
    still does not. Whoever can alter a plan can remove its signature too: this is for a time of change, no protection.
    """

    public_key: Path | None = None
    certificates: tuple[Path, ...] = ()
    required: bool = True

    def __post_init__(self) -> None:
        if (self.public_key is None) == (not self.certificates):
            raise UsageError(
                "CAD9601",
                "a policy trusts a public key, or certificates",
                expected="one of `public_key` and `certificates`",
                got="neither" if self.public_key is None else "both",
            )

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Return the policy that requires a signature by what a PEM file holds: a public key, or certificates. Raises
        UsageError CAD9602 for another file, CAD9202 for a pipe or device."""
        require_end(path)
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_PEM_BYTES)
        except (OSError, ValueError) as error:
            raise unusable(path, error) from None
        if b"-----BEGIN CERTIFICATE-----" in content:
            return cls(certificates=(path,))
        if b"-----BEGIN PUBLIC KEY-----" in content:
            return cls(public_key=path)
        raise unusable(path, ValueError("a private key" if b" PRIVATE KEY-----" in content else "neither of them"))


def unusable(path: Path, error: Exception) -> UsageError:
    """Return what to say of a file that no policy can be made of."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UsageError(
        "CAD9602",
        "the policy's file cannot be used",
        expected="PEM: a public key on P-256, P-384 or P-521, or certificates",
        got=(reason or type(error).__name__).lower(),
        at=os.fspath(path).replace("\0", "?"),
    )


def signature_faults(policy: Policy, plan: Path, digests: Mapping[str, str]) -> Iterator[CadenceError]:
    """Yield why a plan is not trusted, given the sha256 of its files by name, as they were read.

    Raises UsageError CAD9602 for a policy that cannot be used, CAD9603 without model-signing.
    """
    yield from require_signatures().faults(policy, os.fspath(plan), digests)


def require_signatures() -> ModuleType:
    """Return the module `signature`, which needs model-signing. Raises UsageError CAD9603 without it."""
    try:
        from cadence_runtime import signature
    except ImportError as error:
        raise UsageError(
            "CAD9603",
            "signatures need a package that is not installed",
            expected="model-signing",
            got=str(error).lower(),
            hint="pip install 'cadence-runtime[sign]'",
        ) from None
    return signature
