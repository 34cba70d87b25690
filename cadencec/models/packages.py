"""Released packages that adapters stand on: found by distribution and version, and entered without their `__init__`,
which mostly imports far more than a decoder runs."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from cadence_runtime.errors import TraceError


def require(distribution: str, version: str, extra: str, *, others: bool = False) -> Path:
    """Return the folder that an installed distribution lies in.

    Raises TraceError CAD3408 if it is not installed, or in another version than the adapter transcribes, unless
    `others` will do as well, because the adapter itself compares what it transcribes.
    """
    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise wrong(distribution, version, extra, "not installed") from None
    if found.version != version and not others:
        raise wrong(distribution, version, extra, f"version {found.version}")
    return Path(str(found.locate_file("")))


def wrong(distribution: str, version: str, extra: str, got: str) -> TraceError:
    """Return the error of a package that is not what an adapter needs."""
    return TraceError(
        "CAD3408",
        f"the model needs the package `{distribution}`",
        expected=f"version {version}",
        got=got,
        hint=f"pip install 'cadencec[{extra}]'",
    )


@contextmanager
def entered(packages: Mapping[str, Path], absent: Sequence[str] = ()) -> Iterator[None]:
    """Let modules of packages, by name and folder, be imported without the packages' own `__init__`.

    In place of the modules in `absent` empty ones are found, whose every name is an empty class. What was imported
    before stays as it is, and only what the packages imported of themselves is left behind.
    """
    bare = {name: _bare(name, [str(folder)]) for name, folder in packages.items()}
    bare |= {name: _bare(name, []) for name in absent}
    added = [name for name in bare if name not in sys.modules]
    sys.modules.update({name: bare[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


class _Bare(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


def _bare(name: str, path: Sequence[str]) -> ModuleType:
    """An empty package, with a `__spec__`, since others may ask whether the module is there."""
    module = ModuleType(name) if path else _Bare(name)
    module.__path__ = list(path)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    return module
