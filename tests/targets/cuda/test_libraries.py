"""Which versions of libraries are installed: read off their packages, whatever CUDA they were built for."""

from types import SimpleNamespace

import pytest

from cadencec.targets.cuda import libraries
from cadencec.targets.cuda.libraries import installed_versions


def test_packages_that_bring_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "nvidia-cublas": "13.1",
        "nvidia-cufft-cu12": "11.4",
        "triton": "3.6",
        "nvidia-nccl-cu12": "2",
        "torch": "2",
    }
    found = [SimpleNamespace(name=name, version=version) for name, version in names.items()]
    monkeypatch.setattr(libraries, "distributions", lambda: found)
    assert installed_versions() == {"cublas": "13.1", "cufft": "11.4", "triton": "3.6"}
