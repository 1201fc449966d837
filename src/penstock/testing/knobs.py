"""Knobs: what a service shall do wrong, on which requests, and for how long.

Kinds       one class each, below; Python and JSON (`/_local-cloud/knobs`) name the same fields.
Order       a request meets the knobs in the order in which they were set. It waits for every `slow`
            and `hang`, ends by the first one that ends requests, and only if none did are single
            records of it failed.
Counting    `times` counts requests that the knob acted on, `after` those that it let pass before.
            Without `times` a knob acts until it is released.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Annotated, Any, Self, TypeAlias, TypedDict, Unpack

import msgspec
from msgspec import Meta

from penstock.learned import learn
from penstock.testing.errors import LocalCloudError
from penstock.testing.http_server import Request

EVERY = "*"  # as a service: every one of them, the sinks too

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Status: TypeAlias = Annotated[int, Meta(ge=200, le=599)]
# Position in the request and content; true for a record that the knob is about.
Predicate: TypeAlias = Callable[[int, bytes], bool]


class CloseWhen(StrEnum):
    """How far a request gets before its connection is closed."""

    # The service never saw it.
    BEFORE_PROCESSING = "before_processing"
    # The service did it, and the client cannot know.
    BEFORE_ANSWER = "before_answer"
    # The same, after the answer's head and half of its body.
    WITHIN_ANSWER = "within_answer"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Knob(
    msgspec.Struct,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag=_snake_case,
):
    """Which requests a knob acts on. Services go by their signing names; sinks are `sink`."""

    service: str = EVERY
    # The stream, bucket, channel or sink. SiteWise has none.
    target: str | None = None
    operation: str | None = None
    times: Count | None = None
    after: Annotated[int, Meta(ge=0)] = 0
    probability: Annotated[float, Meta(gt=0, le=1)] = 1.0


class Slow(Knob):
    """Wait before doing the request."""

    seconds: Seconds


class Hang(Knob):
    """Do not answer until released; then go on as if nothing had been."""


class Close(Knob):
    """Close the connection instead of answering, or in the middle of it."""

    when: CloseWhen = CloseWhen.BEFORE_PROCESSING


class Throttle(Knob):
    """Say that requests come too fast."""

    # A Retry-After header; only sinks send one.
    retry_after_s: Count | None = None


class Fail(Knob):
    """Say that the service failed: status 500, or another one."""

    status: Status | None = None


class Expire(Knob):
    """Say that the credentials have expired: all, or those of one access key."""

    access_key: str | None = None


class Deny(Knob):
    """Say that the caller has no right to do this."""


class Missing(Knob):
    """Say that the target does not exist, although it may."""


class Refuse(Knob):
    """Refuse the whole request, for good, when one of its records contains these bytes."""

    containing: Annotated[bytes, Meta(min_length=1)]
    status: Status | None = None


class FailRecords(Knob):
    """Fail some records of a request and do the others, where the service has such answers.

    Acts on the records at these positions, or on those that contain these bytes; on both, if both
    are given; on all, if neither is. Without a code the service says that it failed internally.
    """

    indexes: tuple[int, ...] = ()
    containing: bytes = b""
    code: str | None = None
    message: str | None = None


AnyKnob: TypeAlias = (
    Slow | Hang | Close | Throttle | Fail | Expire | Deny | Missing | Refuse | FailRecords
)
# The first of these that acts decides how the request ends.
EndingKnob: TypeAlias = Throttle | Fail | Expire | Deny | Missing | Refuse


def knob_from_json(fields: Mapping[str, Any]) -> AnyKnob:
    """A knob as JSON gives it. `containing` is plain text there, not base64."""
    text = fields.get("containing")
    if isinstance(text, str):
        fields = {**fields, "containing": text.encode()}
    return _checked(fields)


def knob_to_json(knob: AnyKnob) -> dict[str, Any]:
    fields = _fields_of(knob)
    if "containing" in fields:
        fields["containing"] = fields["containing"].decode(errors="backslashreplace")
    return fields


def _fields_of(knob: AnyKnob) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(knob, builtin_types=(bytes,))
    return fields


def _checked(fields: Mapping[str, Any]) -> AnyKnob:
    learn(AnyKnob)
    try:
        knob: AnyKnob = msgspec.convert(fields, AnyKnob, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise LocalCloudError(f"This is no knob: {error}") from error
    return knob


@dataclass(frozen=True)
class Call:
    """A request as its service understood it."""

    service: str
    operation: str
    target: str | None
    access_key: str | None
    # The contents of its records, decoded. A function, because most requests are never asked.
    contents: Callable[[], Sequence[bytes]]
    request: Request
    # What the service made of the body, for itself.
    parsed: Any = None


@dataclass
class Plan:
    """What the knobs do to one request."""

    delay_s: float = 0.0
    hangs: list[ActiveKnob] = field(default_factory=list)
    close: CloseWhen | None = None
    end: EndingKnob | None = None
    failing: dict[int, FailRecords] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)

    @property
    def decides(self) -> bool:
        """True when the request's end is settled, and no further knob may count it."""
        return self.end is not None or self.close is not None

    @property
    def is_processed(self) -> bool:
        return self.end is None and self.close is not CloseWhen.BEFORE_PROCESSING


class ActiveKnob:
    """A knob that was set. As a context manager it is released at the end of the block."""

    def __init__(
        self, owner: Knobs, number: int, knob: AnyKnob, predicate: Predicate | None
    ) -> None:
        self._owner = owner
        self._released = threading.Event()
        self._predicate = predicate
        self.number = number
        self.knob = knob
        self.met = 0
        # Requests that it acted on.
        self.used = 0

    @property
    def kind(self) -> str:
        return str(self.knob.__struct_config__.tag)

    def is_spent(self) -> bool:
        return self.knob.times is not None and self.used >= self.knob.times

    def release(self) -> None:
        """Act no more; requests that hang go on."""
        self._owner.remove(self)
        self._released.set()

    def wait_used(self, times: int = 1, timeout_s: float = 30.0) -> None:
        """Return when the knob has acted on so many requests."""
        self._owner.wait_used(self, times, timeout_s)

    def hold(self) -> None:
        """Keep a request until the knob is released."""
        self._released.wait()

    def positions(self, call: Call) -> list[int]:
        """The records of a request that the knob is about."""
        return [
            index for index, content in enumerate(call.contents()) if self._is_about(index, content)
        ]

    def _is_about(self, index: int, content: bytes) -> bool:
        knob = self.knob
        assert isinstance(knob, Refuse | FailRecords)
        if isinstance(knob, FailRecords) and knob.indexes and index not in knob.indexes:
            return False
        if self._predicate is not None and not self._predicate(index, content):
            return False
        return knob.containing in content

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Knobs:
    """All knobs of one cloud. Every method may be called from every thread."""

    def __init__(self, seed: int | None = None) -> None:
        self._condition = threading.Condition()
        self._active: list[ActiveKnob] = []
        self._random = random.Random(seed)
        self._next_number = 1

    def set(self, knob: AnyKnob, predicate: Predicate | None = None) -> ActiveKnob:
        with self._condition:
            active = ActiveKnob(self, self._next_number, knob, predicate)
            self._next_number += 1
            self._active.append(active)
            return active

    def active(self) -> list[ActiveKnob]:
        with self._condition:
            return list(self._active)

    def remove(self, knob: ActiveKnob) -> None:
        with self._condition:
            if knob in self._active:
                self._active.remove(knob)

    def release_all(self) -> None:
        for knob in self.active():
            knob.release()

    def wait_used(self, knob: ActiveKnob, times: int, timeout_s: float) -> None:
        with self._condition:
            if not self._condition.wait_for(lambda: knob.used >= times, timeout_s):
                raise TimeoutError(
                    f"the knob {knob.kind} acted on {knob.used} requests in {timeout_s} s, "
                    f"not on {times}"
                )

    def plan(self, call: Call) -> Plan:
        """What happens to this request. The knobs that act on it count it."""
        plan = Plan()
        if not self._active:
            return plan
        with self._condition:
            for active in list(self._active):
                if not isinstance(active.knob, FailRecords):
                    self._apply(active, call, plan)
            if plan.is_processed:
                for active in list(self._active):
                    if isinstance(active.knob, FailRecords):
                        self._fail_records(active, active.knob, call, plan)
        return plan

    def _apply(self, active: ActiveKnob, call: Call, plan: Plan) -> None:
        knob = active.knob
        assert not isinstance(knob, FailRecords)
        waits = isinstance(knob, Slow | Hang)
        if (plan.decides and not waits) or not _concerns(knob, call):
            return
        if isinstance(knob, Refuse) and not active.positions(call):
            return
        if not self._take(active, plan):
            return
        match knob:
            case Slow():
                plan.delay_s += knob.seconds
            case Hang():
                plan.hangs.append(active)
            case Close():
                plan.close = knob.when
            case _:
                plan.end = knob

    def _fail_records(self, active: ActiveKnob, knob: FailRecords, call: Call, plan: Plan) -> None:
        if not _concerns(knob, call):
            return
        positions = [index for index in active.positions(call) if index not in plan.failing]
        if positions and self._take(active, plan):
            plan.failing.update(dict.fromkeys(positions, knob))

    def _take(self, active: ActiveKnob, plan: Plan) -> bool:
        """Count a request that the knob could act on; false when it lets it pass."""
        knob = active.knob
        active.met += 1
        if active.met <= knob.after or active.is_spent():
            return False
        if knob.probability < 1 and self._random.random() >= knob.probability:
            return False
        active.used += 1
        plan.kinds.append(active.kind)
        # A spent hang stays: it still holds requests, and must be found to be released.
        if active.is_spent() and not isinstance(knob, Hang):
            self._active.remove(active)
        self._condition.notify_all()
        return True


def _concerns(knob: AnyKnob, call: Call) -> bool:
    return (
        knob.service in (EVERY, call.service)
        and knob.target in (None, call.target)
        and knob.operation in (None, call.operation)
        and not (isinstance(knob, Expire) and knob.access_key not in (None, call.access_key))
    )


class Scope(TypedDict, total=False):
    """Which requests: the fields of `Knob` but the service."""

    target: str
    operation: str
    times: int
    after: int
    probability: float


class KnobPanel:
    """The knobs of one service, and of one target of it if one is given."""

    def __init__(self, knobs: Knobs, service: str, target: str | None = None) -> None:
        self._knobs = knobs
        self._service = service
        self._target = target

    def slow(self, seconds: float, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Slow, scope, seconds=seconds)

    def hang(self, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Hang, scope)

    def close(
        self, when: CloseWhen = CloseWhen.BEFORE_PROCESSING, **scope: Unpack[Scope]
    ) -> ActiveKnob:
        return self._set(Close, scope, when=when)

    def throttle(self, *, retry_after_s: int | None = None, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Throttle, scope, retry_after_s=retry_after_s)

    def fail(self, *, status: int | None = None, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Fail, scope, status=status)

    def expire(self, *, access_key: str | None = None, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Expire, scope, access_key=access_key)

    def deny(self, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Deny, scope)

    def missing(self, **scope: Unpack[Scope]) -> ActiveKnob:
        return self._set(Missing, scope)

    def refuse(
        self, containing: bytes | str, *, status: int | None = None, **scope: Unpack[Scope]
    ) -> ActiveKnob:
        return self._set(Refuse, scope, containing=_as_bytes(containing), status=status)

    def fail_records(
        self,
        *,
        indexes: Sequence[int] = (),
        containing: bytes | str = b"",
        matching: Predicate | None = None,
        code: str | None = None,
        message: str | None = None,
        **scope: Unpack[Scope],
    ) -> ActiveKnob:
        return self._set(
            FailRecords,
            scope,
            matching,
            indexes=tuple(indexes),
            containing=_as_bytes(containing),
            code=code,
            message=message,
        )

    def _set(
        self,
        kind: type[Any],
        scope: Scope,
        predicate: Predicate | None = None,
        **fields: Any,
    ) -> ActiveKnob:
        where = {"service": self._service, "target": self._target}
        knob = kind(**where | dict(scope) | fields)
        # There and back again, because msgspec checks types and limits only when it converts.
        return self._knobs.set(_checked(_fields_of(knob)), predicate)


def _as_bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text
