"""A blob is named by the digest of something else."""

from patching import attack, section

MESSAGE = """\
CAD5016: blob 0 is not what its name says
  expected: sha256 0000000000000000...
  got:      sha256 a70b971a58cbe06c..."""


def hostile() -> bytes:
    return section("blob-table", lambda table: bytes(32) + table[32:])


if __name__ == "__main__":
    attack(hostile)
