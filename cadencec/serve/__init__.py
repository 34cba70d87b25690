"""Starts the server of live sessions, which is a package of the runtime and needs nothing of this one."""

from cadence_serve import start
from cadence_serve.options import OPTIONS, Option, settings_of

__all__ = ["OPTIONS", "Option", "settings_of", "start"]
