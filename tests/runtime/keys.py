"""Keys and certificates for tests, as PEM files."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption
from cryptography.hazmat.primitives.serialization import PrivateFormat as Private
from cryptography.hazmat.primitives.serialization import PublicFormat as Public
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A private key and its public half, each a file."""

    private: Path
    public: Path


def new_pair(folder: Path, name: str, curve: ec.EllipticCurve | None = None, password: bytes | None = None) -> Pair:
    """Make a key on P-256, or another curve."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    pair = Pair(folder / f"{name}.key.pem", folder / f"{name}.pub.pem")
    pair.private.write_bytes(key.private_bytes(Encoding.PEM, Private.PKCS8, lock))
    pair.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, Public.SubjectPublicKeyInfo))
    return pair


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate and its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def write(self, folder: Path, name: str, *behind: "Authority") -> tuple[Path, Path]:
        """Write the key, and the certificate with those behind it."""
        key, chain = folder / f"{name}.key.pem", folder / f"{name}.pem"
        key.write_bytes(self.key.private_bytes(Encoding.PEM, Private.PKCS8, NoEncryption()))
        chain.write_bytes(b"".join(one.certificate.public_bytes(Encoding.PEM) for one in (self, *behind)))
        return key, chain


def certified(name: str, by: Authority | None = None, *, is_authority: bool, signs: bool = True) -> Authority:
    """Make a certificate, signed by another or by itself; `signs` says whether its key may sign anything."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=signs and not is_authority,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2026, 1, 2, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(by.key if by else key, SHA256())
    )
    return Authority(key, made)
