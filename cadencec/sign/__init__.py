"""What `cadencec sign` does: one signature over a plan and its weights file, put beside the plan."""

from cadencec.sign.sign import Signed, Signer, render, require_signer, sign_file, to_json

__all__ = ["Signed", "Signer", "render", "require_signer", "sign_file", "to_json"]
