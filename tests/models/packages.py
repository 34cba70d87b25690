"""Marks for tests that need a released package."""

from importlib import metadata

import pytest


def needs(distribution: str, extra: str, version: str | None = None) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed, or not in the version that the adapter stands on."""
    try:
        found: str | None = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        found = None
    wanted = f"{distribution} {version}" if version else distribution
    missing = found is None or version not in (None, found)
    return pytest.mark.skipif(missing, reason=f"{wanted} is not installed: pip install 'cadencec[{extra}]'")
