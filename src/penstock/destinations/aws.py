"""Requests to AWS, made and signed by botocore: one place that knows its clients and its errors.

Credentials, region, endpoints (AWS_ENDPOINT_URL and its forms per service), proxies and profiles
are found as botocore finds them. Its own retries are off: when to try again is the engine's matter.
"""

from __future__ import annotations

import email.utils
import ipaddress
import os
import threading
import time
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.loaders
import botocore.session
from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from penstock.destinations.base import Blocked, DestinationError, Timeouts, Transient
from penstock.destinations.parts import RequestRefused
from penstock.destinations.retry import parsed_retry_after

# Services that botocore knows no longer.
OWN_MODELS = Path(__file__).parent / "botocore_models"

# What a service says is cut here: it is shown in one line and kept with every dead letter.
TEXT_LENGTH_MAX = 300


class Meaning(Enum):
    """What an error says about who has to act."""

    BUSY = auto()
    EXPIRED = auto()
    CLOCK_WRONG = auto()
    CREDENTIALS_WRONG = auto()
    DENIED = auto()
    MISSING = auto()
    # What is in the request is wrong.
    REFUSED = auto()
    # None of these; the service's own words must do.
    OTHER = auto()


CODES: dict[Meaning, tuple[str, ...]] = {
    Meaning.BUSY: (
        *("ProvisionedThroughputExceededException", "LimitExceededException", "SlowDown"),
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
        *("RequestThrottled", "RequestThrottledException", "TooManyRequestsException"),
        *("BandwidthLimitExceeded", "PriorRequestNotComplete", "KMSThrottlingException"),
        *("RequestTimeout", "RequestTimeoutException", "InternalError", "InternalFailure"),
        *("InternalFailureException", "ServiceUnavailable", "ServiceUnavailableException"),
        # The bytes changed on their way, or another request was on the same thing.
        *("BadDigest", "XAmzContentSHA256Mismatch", "OperationAborted"),
        "ConflictingOperationException",
    ),
    Meaning.EXPIRED: (
        *("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"),
    ),
    Meaning.CLOCK_WRONG: ("RequestTimeTooSkewed", "RequestInTheFuture"),
    Meaning.CREDENTIALS_WRONG: (
        *("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException"),
        *("SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature"),
        *("MissingAuthenticationToken", "MissingAuthenticationTokenException"),
        *("AuthFailure", "InvalidToken", "OptInRequired", "NotSignedUp"),
    ),
    Meaning.DENIED: (
        *("AccessDenied", "AccessDeniedException", "AllAccessDisabled", "UnauthorizedOperation"),
        *("Forbidden", "ForbiddenException", "403", "AccountProblem", "KMSAccessDeniedException"),
    ),
    Meaning.MISSING: ("ResourceNotFoundException", "NoSuchBucket", "NotFound", "404"),
    # Content too large, as the gate in front of a service says it.
    Meaning.REFUSED: ("413", "RequestEntityTooLarge", "RequestEntityTooLargeException"),
}
MEANING_BY_CODE = {code: meaning for meaning, codes in CODES.items() for code in codes}
# JSON services tell a wrong clock with the code for a wrong signature; only the text differs.
CLOCK_WRONG_TEXTS = ("Signature expired", "Signature not yet current")
MEANING_BY_STATUS = {
    **dict.fromkeys((408, 429), Meaning.BUSY),
    **dict.fromkeys((500, *range(502, 600)), Meaning.BUSY),  # 501: it never will
}

# Rights are named after operations, but for these.
ACTIONS = {
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListParts": "ListMultipartUploadParts",
    "ListMultipartUploads": "ListBucketMultipartUploads",
}

REMEDY_NO_CREDENTIALS = (
    "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile "
    "in ~/.aws, or give the machine a role"
)


class Denied(Blocked):
    """The credentials are good, but have no right to do this to the target."""


class Missing(Blocked):
    """The target does not exist."""


class Service:
    """One AWS service as one export uses it. Clients are made on first use.

    After an error that concerns credentials the next call makes a new client, so that what a person
    or a tool has changed meanwhile is found without a restart.
    """

    def __init__(
        self,
        name: str,
        target: str,
        *,
        missing: str | None = None,
        refused_codes: frozenset[str] = frozenset(),
        others_are_refused: bool = False,
        connections: int = 1,
        endpoint_url: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """`target` is for people: "Kinesis stream x". `missing` says that it does not exist.

        `refused_codes` are errors about the content of a request; with `others_are_refused` all
        client errors are that have no other meaning here. Without `endpoint_url`, botocore finds
        it.
        """
        self._name = name
        self._target = target
        self._missing = missing or f"{target} doesn't exist"
        self._refused_codes = refused_codes
        self._others_are_refused = others_are_refused
        self._connections = connections
        self._endpoint_url = endpoint_url
        self._timeouts = timeouts or Timeouts()
        self._client: Any = None
        self._credentials: Any = None
        self._lock = threading.RLock()
        # A body that is ready, and the answer as it came: set only within exchange().
        self._body: bytes | None = None
        self._answer = b""
        # How far the service's clock is ahead of time.monotonic().
        self._clock_ahead_s: float | None = None

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """One request. Raises Transient, Blocked, or RequestRefused for what is in it."""
        try:
            answer = getattr(self._ready_client(), operation)(**parameters)
        except (exceptions.ClientError, exceptions.BotoCoreError, ResponseParserError) as error:
            raise self._translated(error) from error
        self._note_clock(answer)
        return dict(answer)

    def exchange(self, operation: str, body: bytes, **parameters: Any) -> bytes:
        """One request whose body is ready, answered by the body as it came.

        botocore's own encoding and decoding would cost many times the rest for small records.
        `parameters` must satisfy botocore, and are not sent.
        """
        self._body = body
        try:
            self.call(operation, **parameters)
        finally:
            self._body = None
        return self._answer

    def clock_is_known(self) -> bool:
        return self._clock_ahead_s is not None

    def now_s(self) -> float:
        """The service's time; this machine's as long as no answer has told it."""
        if self._clock_ahead_s is None:
            return time.time()
        return time.monotonic() + self._clock_ahead_s

    def check_credentials(self) -> None:
        """Blocked if there are none."""
        self._ready_client()
        if self._credentials is None:
            raise Blocked(f"{self._target}: {REMEDY_NO_CREDENTIALS}")

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ready_client(self) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    self._client = self._new_client()
                except exceptions.BotoCoreError as error:
                    raise self._translated(error) from error
            return self._client

    def _new_client(self) -> Any:
        session, region = session_and_region()
        self._credentials = session.get_credentials()
        client = session.create_client(
            self._name,
            region_name=region,
            endpoint_url=self._endpoint_url,
            config=Config(
                connect_timeout=self._timeouts.connect_s,
                read_timeout=self._timeouts.read_s,
                retries={"mode": "standard", "total_max_attempts": 1},
                parameter_validation=False,
                max_pool_connections=self._connections,
                user_agent_extra="penstock",
            ),
        )
        if _takes_no_prefix(client.meta.endpoint_url):
            client.meta.config.inject_host_prefix = False
        client.meta.events.register("before-call", self._put_body)
        client.meta.events.register("before-parse", self._take_answer)
        return client

    def _put_body(self, params: dict[str, Any], **_: Any) -> None:
        if self._body is not None:
            params["body"] = self._body

    def _take_answer(self, operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
        """botocore would take an answer that was cut off for a whole one."""
        body = response_dict["body"]
        length = response_dict["headers"].get("content-length")
        if (
            isinstance(body, bytes)
            and (length or "").isdecimal()
            and int(length) != len(body)
            and not operation_model.name.startswith("Head")
        ):
            raise Transient(f"{self._target}: the answer ends after {len(body)} of {length} bytes")
        # What an error says, botocore knows better.
        if self._body is not None and response_dict["status_code"] == 200:
            self._answer = body
            response_dict["body"] = b"{}"

    def _note_clock(self, answer: dict[str, Any]) -> None:
        header = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if header is None:
            return
        try:
            service_s = email.utils.parsedate_to_datetime(header).timestamp()
        except ValueError:  # a stand-in's own idea of a date; we do without
            return
        self._clock_ahead_s = service_s - time.monotonic()

    def _translated(self, error: Exception) -> DestinationError:
        if isinstance(error, exceptions.ClientError):
            self._note_clock(error.response)
            return self._of_answer(error)
        return self._of_botocore(error)

    def _of_answer(self, error: Any) -> DestinationError:
        """What the service's refusal means for the export."""
        code = str(error.response.get("Error", {}).get("Code", ""))
        text = one_line(error.response.get("Error", {}).get("Message", ""))
        said = f"{code}: {text}" if text else code
        metadata = error.response.get("ResponseMetadata", {})
        match self._meaning(code, text, int(metadata.get("HTTPStatusCode", 0))):
            case Meaning.BUSY:
                header = metadata.get("HTTPHeaders", {}).get("retry-after")
                pause_s = parsed_retry_after(header, time.time())
                return Transient(f"{self._target}: {said}", pause_s)
            case Meaning.EXPIRED:
                self.close()
                return Transient(f"{self._target}: the AWS credentials have expired ({said})")
            case Meaning.CLOCK_WRONG:
                return Transient(f"{self._target}: this machine's clock is wrong ({said}); set it")
            case Meaning.CREDENTIALS_WRONG:
                self.close()
                return Blocked(f"{self._target}: check the AWS credentials ({said})")
            case Meaning.DENIED:
                action = f"{self._name}:{ACTIONS.get(error.operation_name, error.operation_name)}"
                return Denied(f"{self._target}: access is denied; allow {action} ({said})")
            case Meaning.MISSING:
                return Missing(f"{self._missing} ({said})")
            case Meaning.REFUSED:
                return RequestRefused(said, code)
        return Blocked(f"{self._target}: {said}")

    def _meaning(self, code: str, text: str, status: int) -> Meaning:
        if code in self._refused_codes:
            return Meaning.REFUSED
        if text.startswith(CLOCK_WRONG_TEXTS):
            return Meaning.CLOCK_WRONG
        known = MEANING_BY_CODE.get(code) or MEANING_BY_STATUS.get(status)
        if known is None and self._others_are_refused and 400 <= status < 500:
            return Meaning.REFUSED
        return known or Meaning.OTHER

    def _of_botocore(self, error: Exception) -> DestinationError:
        """What it means that there was no answer, or no request."""
        said = one_line(str(error))
        match error:
            case exceptions.NoCredentialsError():
                self.close()
                return Blocked(f"{self._target}: {REMEDY_NO_CREDENTIALS}")
            case exceptions.NoRegionError():
                return Blocked(f"{self._target}: no AWS region is set; set AWS_DEFAULT_REGION")
            case exceptions.ReadTimeoutError():
                return Transient(f"{self._target}: no answer within {self._timeouts.read_s:g} s")
            case exceptions.SSLError() if "CERTIFICATE_VERIFY_FAILED" in said:
                return Blocked(
                    f"{self._target}: the certificate cannot be trusted ({said}); check the clock, "
                    "or name the authority's file in AWS_CA_BUNDLE"
                )
            case (
                exceptions.ConnectionError()
                | exceptions.HTTPClientError()
                | exceptions.IncompleteReadError()
                | exceptions.ChecksumError()
                | exceptions.FlexibleChecksumError()
                | ResponseParserError()
            ):
                return Transient(f"{self._target}: {said}")
            case exceptions.CredentialRetrievalError() | exceptions.MetadataRetrievalError():
                self.close()
                return Transient(f"{self._target}: the AWS credentials cannot be had ({said})")
            case exceptions.ParamValidationError():
                return RequestRefused(said)
        # A broken profile, an unknown region, an expired login: all need a person.
        self.close()
        return Blocked(f"{self._target}: {said}")


def session_and_region() -> tuple[Any, str | None]:
    """botocore's session with our models, and the region by any of its names."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    # botocore reads AWS_DEFAULT_REGION only; other SDKs and Greengrass set AWS_REGION.
    region = session.get_config_variable("region") or os.environ.get("AWS_REGION")
    return session, region or None


@cache
def _loader(data_path: str | None) -> Any:
    """All clients of a process share the models: those of S3 alone take some ten megabytes."""
    loader = botocore.loaders.create_loader(data_path)
    loader.search_paths.append(str(OWN_MODELS))
    return loader


def _takes_no_prefix(endpoint_url: str) -> bool:
    """SiteWise puts "data." before the host, which makes no name of an address or a bare name."""
    host = urlsplit(endpoint_url).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return True


def one_line(text: object) -> str:
    return " ".join(str(text).split())[:TEXT_LENGTH_MAX]
