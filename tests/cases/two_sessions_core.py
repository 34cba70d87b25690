"""The model inside case 27, without the wrapper that interleaves two sessions: each session is one of its own."""

import importlib.util
from pathlib import Path
from typing import Any


def build() -> Any:
    """Return the case's `Core`, built and seeded by the case itself."""
    path = Path(__file__).with_name("27_two_sessions_interleaved.py")
    spec = importlib.util.spec_from_file_location("two_sessions_interleaved", path)
    if spec is None or spec.loader is None:
        raise ImportError(path.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build().core
