"""Released packages that adapters stand on: found by distribution and version, without being imported."""

from importlib import metadata
from pathlib import Path

from cadence_runtime.errors import TraceError


def require(distribution: str, version: str, extra: str) -> Path:
    """Return the folder that an installed distribution lies in.

    Raises TraceError CAD3408 if it is not installed, or in another version than the adapter transcribes.
    """
    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise _wrong(distribution, version, extra, "not installed") from None
    if found.version != version:
        raise _wrong(distribution, version, extra, f"version {found.version}")
    return Path(str(found.locate_file("")))


def _wrong(distribution: str, version: str, extra: str, got: str) -> TraceError:
    return TraceError(
        "CAD3408",
        f"the model needs the package `{distribution}`",
        expected=f"version {version}",
        got=got,
        hint=f"pip install 'cadencec[{extra}]'",
    )
