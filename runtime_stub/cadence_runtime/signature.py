"""The signature beside a plan, `NAME.plan.sig`: made and checked by model-signing, in its own format.

    NAME.plan  ---sha256--\
                           manifest -> in-toto statement -> DSSE envelope -> Sigstore bundle, NAME.plan.sig
    weights    ---sha256--/

One signature covers the plan and the weights file that it loads, by name and by content. model-signing would hash the
files itself, by their paths; here it is given the digests of the bytes that were read, so that nothing can be put in a
file's place between the check and the load. There is no cryptography here.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from model_signing import hashing, manifest, verifying
from model_signing._hashing.hashing import Digest  # what its public functions return; the range of versions is narrow

from cadence_runtime.errors import CadenceError, IncompatibleError
from cadence_runtime.format.source import require_end
from cadence_runtime.policy import Path as PathLike
from cadence_runtime.policy import Policy, unusable

SUFFIX = ".sig"
MAX_BYTES = 1 << 20
MAX_REASON = 200


class Digests(hashing.Config):
    """Stands where model-signing would hash files: files by name, each with the sha256 of what was read.

    `was_asked` says that the signature itself was found valid: only then are files looked at.
    """

    def __init__(self, sha256: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sha256 = dict(sha256)
        self.was_asked = False

    def hash(
        self, model_path: hashing.PathLike, *, files_to_hash: Iterable[hashing.PathLike] | None = None
    ) -> manifest.Manifest:
        """Return the manifest of the files."""
        self.was_asked = True
        kind = manifest.SerializationType.from_args({"method": "files", "hash_type": "sha256", "allow_symlinks": False})
        items = [kind.new_item(name, Digest("sha256", bytes.fromhex(sha256))) for name, sha256 in self._sha256.items()]
        return manifest.Manifest(os.fsdecode(model_path), items, kind)


def signature_path(plan: str) -> str:
    """Return where the signature of a plan lies."""
    return plan + SUFFIX


def faults(policy: Policy, plan: str, digests: Mapping[str, str]) -> Iterator[CadenceError]:
    """Yield why a plan is not trusted: CAD6021 to CAD6023. Raises UsageError CAD9202 or CAD9602."""
    verifier = _verifier(policy)
    path = signature_path(plan)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if policy.required:
            yield _unsigned(path)
        return
    except OSError as error:
        yield _invalid(policy, path, (error.strerror or type(error).__name__).lower())
        return
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        yield _invalid(policy, path, f"no file of at most {MAX_BYTES} bytes")
        return
    hashed = Digests(digests)
    try:
        with redirect_stdout(sys.stderr):  # model-signing prints what it thinks of old signatures
            verifier.set_hashing_config(hashed).verify(Path(os.path.basename(plan)), Path(path))
    except Exception as error:  # the file is anyone's, and reading it raises whatever it trips over
        yield _altered(digests, path, error) if hashed.was_asked else _invalid(policy, path, _text(error))


def _verifier(policy: Policy) -> verifying.Config:
    config = verifying.Config()  # type: ignore[no-untyped-call]
    for file in _trusted(policy):
        require_end(file)
    try:
        if policy.public_key is not None:
            return config.use_elliptic_key_verifier(public_key=policy.public_key)
        return config.use_certificate_verifier(certificate_chain=policy.certificates)
    except Exception as error:  # a key of another kind fails in its own way
        raise unusable(_files(policy), error) from None


def _files(policy: Policy) -> str:
    return ", ".join(map(str, _trusted(policy)))


def _trusted(policy: Policy) -> Sequence[PathLike]:
    return policy.certificates if policy.public_key is None else (policy.public_key,)


def _unsigned(path: str) -> IncompatibleError:
    return IncompatibleError(
        "CAD6021",
        "the plan is not signed",
        expected="a signature beside it",
        got="nothing",
        at=path,
        hint="get it from where the plan comes from, or make it: `cadencec sign`",
    )


def _invalid(policy: Policy, path: str, reason: str) -> IncompatibleError:
    return IncompatibleError(
        "CAD6022",
        "the plan's signature is not one that the policy trusts",
        expected=f"a signature under {_files(policy)}",
        got=reason,
        at=path,
    )


def _altered(digests: Mapping[str, str], path: str, error: Exception) -> IncompatibleError:
    said = str(error).replace("\\", "")  # quotes in a digest that is shown as bytes escape those around the names
    names = [f"`{name}`" for name in digests if f"mismatch for '{name}'" in said]
    return IncompatibleError(
        "CAD6023",
        "the plan or its weights are not those that were signed",
        expected=f"{' and '.join(f'`{name}`' for name in digests)} as signed",
        got=f"other bytes in {' and '.join(names)}" if names else _text(error),
        at=path,
        hint="use plan, weights file and signature of one release, under the names that they were signed with",
    )


def _text(error: Exception) -> str:
    """Return the first line of what an error says, printable and short."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in line.strip())[:MAX_REASON]
