"""Signatures of AWS requests (version 4): who signs, for which service, and whether it is right.

The service in the credential scope is what routes a request, so that one address serves them all.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

from penstock.testing.http_server import Request

ALGORITHM = "AWS4-HMAC-SHA256"
AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=(?P<key>[^/,\s]+)/(?P<date>\d{{8}})/(?P<region>[^/,\s]+)/"
    r"(?P<service>[^/,\s]+)/aws4_request,\s*SignedHeaders=(?P<headers>[^,\s]+),\s*"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Signature:
    """What a request says about its signer."""

    access_key: str
    date: str
    region: str
    service: str
    # Empty for a presigned URL, whose signature is not checked.
    signed_headers: tuple[str, ...] = ()
    digest: str = ""


def signature_of(request: Request) -> Signature | None:
    """The signature of a request, in its header or its query; None without a complete one."""
    if "authorization" in request.headers:
        found = AUTHORIZATION.fullmatch(request.headers["authorization"])
        if found is None or "x-amz-date" not in request.headers:
            return None
        headers = tuple(found["headers"].split(";"))
        return Signature(
            found["key"],
            found["date"],
            found["region"],
            found["service"],
            headers,
            found["signature"],
        )
    return _presigned(request)


def is_right(signature: Signature, request: Request, secret_key: str) -> bool:
    """True when the signature was made of this request with this secret."""
    if not signature.signed_headers:
        return True
    key = b"AWS4" + secret_key.encode()
    for part in (signature.date, signature.region, signature.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.digest(key, _text_to_sign(signature, request).encode(), "sha256").hex()
    return hmac.compare_digest(expected, signature.digest)


def body_is_as_signed(request: Request) -> bool:
    """False when the body is not the one whose digest is in the headers."""
    claimed = request.headers.get("x-amz-content-sha256", "")
    if not DIGEST.fullmatch(claimed):
        return True  # absent, UNSIGNED-PAYLOAD, or a body in signed chunks
    return hashlib.sha256(request.body).hexdigest() == claimed


def _presigned(request: Request) -> Signature | None:
    query = dict(parse_qsl(request.query))
    scope = query.get("X-Amz-Credential", "").split("/")
    if len(scope) != 5 or "X-Amz-Signature" not in query:
        return None
    access_key, date, region, service, _ = scope
    return Signature(access_key, date, region, service)


def _text_to_sign(signature: Signature, request: Request) -> str:
    digest = hashlib.sha256(_canonical(signature, request).encode()).hexdigest()
    scope = f"{signature.date}/{signature.region}/{signature.service}/aws4_request"
    return "\n".join([ALGORITHM, request.headers["x-amz-date"], scope, digest])


def _canonical(signature: Signature, request: Request) -> str:
    headers = [
        f"{name}:{' '.join(request.headers.get(name, '').split())}"
        for name in signature.signed_headers
    ]
    # S3 signs the path as it is sent; every other service encodes it once more.
    path = request.path if signature.service == "s3" else quote(request.path, safe="/~")
    return "\n".join(
        [
            request.method,
            path,
            _canonical_query(request.query),
            *headers,
            "",
            ";".join(signature.signed_headers),
            request.headers.get("x-amz-content-sha256") or hashlib.sha256(request.body).hexdigest(),
        ]
    )


def _canonical_query(query: str) -> str:
    pairs = [part.partition("=") for part in query.split("&") if part]
    encoded = [
        (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~"))
        for name, _, value in pairs
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))
