"""Ask pypi.org for known vulnerabilities of what the two lock files pin; what could not be asked for is said."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (ROOT / "requirements.lock", ROOT / "requirements-models.lock")
SERVICE = "https://pypi.org/pypi/pip/json"
WAIT_S = 5


def main() -> int:
    try:
        urllib.request.urlopen(SERVICE, timeout=WAIT_S).close()
    except (urllib.error.URLError, TimeoutError) as error:
        print(f"audit: not done, {SERVICE} cannot be reached ({getattr(error, 'reason', error)})")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip"]
    command += [argument for lock in LOCKS for argument in ("--requirement", str(lock))]
    command += ["--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        print(done.stderr, end="")
        return done.returncode or 1
    return told(json.loads(done.stdout)["dependencies"])


def told(packages: list[dict[str, object]]) -> int:
    """Print what is known of each package; return 1 where one has a vulnerability."""
    asked = [package for package in packages if "skip_reason" not in package]
    print(f"audit: {len(asked)} of {len(packages)} pins are known to pypi.org")
    found = [(package, fault) for package in asked for fault in package["vulns"]]  # type: ignore[attr-defined]
    for package, fault in found:
        print(f"  {package['name']} {package['version']}: {fault['id']}, fixed in {fault['fix_versions'] or 'none'}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
