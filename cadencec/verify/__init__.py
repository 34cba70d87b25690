"""Does a plan do what the stock model does? Replayed through the real runtime and compared, bit for bit."""

from cadencec.verify.report import Difference, VerifyReport, render, to_json
from cadencec.verify.verify import verify, verify_file, verify_loaded

__all__ = ["Difference", "VerifyReport", "render", "to_json", "verify", "verify_file", "verify_loaded"]
