"""Signature Version 4 of a POST request, equal to botocore's (pure).

botocore's own signer takes as long as the rest of an asynchronous call: it holds headers in an
e-mail message, parses the URL three times, and derives the day's key anew for every request.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

_ALGORITHM = "AWS4-HMAC-SHA256"
# A proxy may change it.
_UNSIGNED = "user-agent"


class Signer:
    """Signs requests to one host."""

    def __init__(self, *, region: str, service: str, host: str) -> None:
        """Keep what every signature contains; `host` is the value of that header."""
        self._region = region
        self._service = service
        self._host = host
        # Secret, day, and the key derived from them.
        self._derived = ("", "", b"")

    def sign(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        credentials: Any,
        now: datetime,
    ) -> dict[str, str]:
        """Return the headers with those that carry the signature.

        Args:
            path: The path as botocore's canonical request has it.
            headers: All headers but `Host`.
            body: The whole body.
            credentials: botocore's frozen credentials.
            now: The time in UTC.
        """
        timestamp = now.strftime("%Y%m%dT%H%M%SZ")
        sent = {**headers, "X-Amz-Date": timestamp}
        if credentials.token:
            sent["X-Amz-Security-Token"] = credentials.token
        signed = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
        signed.pop(_UNSIGNED, None)
        signed["host"] = self._host
        names = sorted(signed)
        listed = ";".join(names)
        lines = ["POST", path, "", *[f"{name}:{signed[name]}" for name in names], "", listed]
        request = "\n".join([*lines, sha256(body).hexdigest()])
        scope = f"{timestamp[:8]}/{self._region}/{self._service}/aws4_request"
        text = "\n".join([_ALGORITHM, timestamp, scope, sha256(request.encode()).hexdigest()])
        key = self._key(credentials.secret_key, timestamp[:8])
        sent["Authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={listed}, Signature={_hmac(key, text).hex()}"
        )
        return sent

    def _key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._derived
        if known_secret != secret or known_day != day:
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = _hmac(key, part)
            self._derived = (secret, day, key)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
