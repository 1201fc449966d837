"""The local cloud: one address, the services behind it, and the way of a request through them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any, Self

from penstock.testing.control import PREFIX as CONTROL_PREFIX
from penstock.testing.control import control
from penstock.testing.errors import LocalCloudError, load, require_extra
from penstock.testing.http_server import Cut, HttpServer, Request, Response
from penstock.testing.iot_analytics import SERVICE_MODEL, IoTAnalytics
from penstock.testing.kinesis import TARGET_PREFIX as KINESIS_TARGET_PREFIX
from penstock.testing.kinesis import Kinesis
from penstock.testing.knobs import EVERY, Call, CloseWhen, KnobPanel, Knobs, Plan
from penstock.testing.moto_bridge import MotoAccount
from penstock.testing.recorder import Entry, Item, Recorder
from penstock.testing.s3 import S3
from penstock.testing.service import Outcome, Refusal, Service
from penstock.testing.signature import body_is_as_signed, is_right, signature_of
from penstock.testing.sink import PREFIX as SINK_PREFIX
from penstock.testing.sink import Sink, Sinks
from penstock.testing.sitewise import SiteWise

DEFAULT_REGION = "us-east-1"
# Signatures by this key are checked with this secret. Other keys are anybody's: taken unchecked.
ACCESS_KEY = "LOCALCLOUD"
SECRET_KEY = "local-cloud-secret"
# A botocore session makes one client at a time.
_SESSION_LOCK = threading.Lock()
CLOSED = Response(0, cut=Cut.BEFORE_ANSWER)


class LocalCloud:
    """Kinesis, S3, IoT SiteWise, IoT Analytics and HTTP sinks on one port of this machine.

    `recorded_bytes_max` limits what each target keeps; 0 keeps counts only. `on_request` is called
    after each request, from the thread that answered it. `clock` gives the time that SiteWise goes
    by, in seconds since 1970. `seed` makes knobs with a probability repeatable.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        region: str = DEFAULT_REGION,
        recorded_bytes_max: int | None = None,
        on_request: Callable[[Entry], None] | None = None,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        require_extra()
        self.region = region
        self.knobs = Knobs(seed)
        self.recorder = Recorder(recorded_bytes_max)
        self._moto = MotoAccount()
        self.kinesis = Kinesis(self.knobs, self.recorder, self._moto, region)
        self.s3 = S3(self.knobs, self.recorder, self._moto, region)
        self.sitewise = SiteWise(self.knobs, self.recorder, clock)
        self.iot_analytics = IoTAnalytics(self.knobs, self.recorder)
        self.sinks = Sinks(self.knobs, self.recorder)
        # Knobs that act on every service at once: the link to the cloud.
        self.every_service = KnobPanel(self.knobs, EVERY)
        self._signed = (self.kinesis, self.s3, self.sitewise, self.iot_analytics)
        self._services: dict[str, Service] = {service.name: service for service in self._signed}
        self._on_request = on_request
        self._http = HttpServer(self._answer, host, port)
        self._stopping = threading.Event()
        self._endpoint: str | None = None

    def start(self) -> None:
        self._http.start()
        host, port = self._http.address
        self._endpoint = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def stop(self) -> None:
        """Release every knob, close every connection, give back what moto holds."""
        self._stopping.set()
        self.knobs.release_all()
        try:
            self._http.stop()
        finally:
            self._moto.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The address of every service: http://127.0.0.1:PORT."""
        if self._endpoint is None:
            raise LocalCloudError("The local cloud has not been started")
        return self._endpoint

    def environment(self) -> dict[str, str]:
        """Variables that lead AWS's SDKs, and so Penstock's exports, to this cloud.

        Give a process these in place of its own AWS_ variables: a profile or a session token of the
        person at the keyboard would be used as well.
        """
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            # Without it, credentials that run out would be asked of an address outside.
            "AWS_EC2_METADATA_DISABLED": "true",
            # SiteWise's clients would put `data.` in front of 127.0.0.1.
            "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
            "NO_PROXY": "127.0.0.1,localhost,::1",
            "no_proxy": "127.0.0.1,localhost,::1",
        }

    def client(self, service: str, **config: Any) -> Any:
        """A botocore client for this cloud; `config` goes to botocore's Config.

        It knows `iotanalytics` too, which today's botocore does not.
        """
        settings = load("botocore.config").Config(**{"inject_host_prefix": False} | config)
        with _SESSION_LOCK:
            return _session().create_client(
                service,
                region_name=self.region,
                endpoint_url=self.endpoint,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
                config=settings,
            )

    def sink(self, name: str) -> Sink:
        """A sink with its address; asking for one that nobody has used yet is fine."""
        return Sink(self.knobs, self.recorder, self.sinks, name, self.endpoint)

    def requests(self) -> list[Entry]:
        """The requests so far, in the order of their answers."""
        return self.recorder.entries()

    def request_count(
        self,
        service: str | None = None,
        operation: str | None = None,
        target: str | None = None,
    ) -> int:
        return self.recorder.request_count(service, operation, target)

    def received(self) -> list[Item]:
        """Everything that any service took and still keeps, in the order of its arrival."""
        return self.recorder.all_items()

    def wait_until(
        self, condition: Callable[[], bool], timeout_s: float = 30.0, what: str = "a condition"
    ) -> None:
        """Return when the condition holds; it is asked again after every request."""
        self.recorder.wait_until(condition, timeout_s, what)

    def release(self) -> None:
        """Release every knob: from now on, everything works."""
        self.knobs.release_all()

    def forget(self) -> None:
        """Forget what was recorded. Targets, objects and knobs stay."""
        self.recorder.forget()
        for service in (*self._signed, self.sinks):
            service.forget()

    # --- the way of a request ---------------------------------------------------------------------

    def _answer(self, request: Request) -> Response:
        if request.path.startswith(CONTROL_PREFIX):
            return control(self, request)
        number, time_s, start_s = self.recorder.arrive(), time.time(), time.perf_counter()
        call, plan, outcome = self._done(request)
        response = outcome.response
        entry = Entry(
            number,
            time_s,
            time.perf_counter() - start_s,
            call.service,
            call.operation,
            call.target,
            None if response.cut is Cut.BEFORE_ANSWER else response.status,
            outcome.taken_count,
            outcome.failed_count,
            tuple(plan.kinds),
        )
        self.recorder.finish(entry)
        if self._on_request is not None:
            self._on_request(entry)
        return response

    def _done(self, request: Request) -> tuple[Call, Plan, Outcome]:
        service = self._service_of(request)
        plan = Plan()
        # Until the service has understood it, a request is known by its method.
        call = Call(service.name, request.method, None, None, tuple, request)
        try:
            call = service.read(request, self._checked_access_key(service, request))
            plan = self.knobs.plan(call)
            return call, plan, self._performed(service, call, plan)
        except Refusal as refusal:
            return call, plan, Outcome(_cut(service.error(refusal.fault), plan))

    def _performed(self, service: Service, call: Call, plan: Plan) -> Outcome:
        """Do a request, and do to it what the knobs say."""
        if plan.delay_s:
            self._stopping.wait(plan.delay_s)
        for knob in plan.hangs:
            knob.hold()
        held = bool(plan.delay_s or plan.hangs)
        if plan.close is CloseWhen.BEFORE_PROCESSING or (held and self._stopping.is_set()):
            return Outcome(CLOSED)
        if plan.end is not None:
            return Outcome(service.knob_error(plan.end))
        outcome = service.answer(call, plan.failing)
        return replace(outcome, response=_cut(outcome.response, plan))

    def _service_of(self, request: Request) -> Service:
        """The service that a request is for: by its path, its signature, or what it looks like."""
        if request.path.startswith(SINK_PREFIX):
            return self.sinks
        signature = signature_of(request)
        if signature is not None:
            return self._services.get(signature.service, self.s3)
        if request.headers.get("x-amz-target", "").startswith(KINESIS_TARGET_PREFIX):
            return self.kinesis
        by_path: dict[str, Service] = {
            "/properties": self.sitewise,
            "/messages/batch": self.iot_analytics,
        }
        return by_path.get(request.path, self.s3)

    def _checked_access_key(self, service: Service, request: Request) -> str:
        """Who signed a request. Raises Refusal unless it is signed, and signed right."""
        if service is self.sinks:
            return ""
        signature = signature_of(request)
        if signature is None:
            is_signed = "authorization" in request.headers
            faults = service.faults
            raise Refusal(faults.malformed_signature if is_signed else faults.unsigned)
        if signature.service != service.name:
            text = f"the local cloud has no {signature.service}, but {', '.join(self._services)}"
            raise Refusal(replace(service.faults.malformed_signature, message=text))
        if signature.access_key == ACCESS_KEY:
            if not is_right(signature, request, SECRET_KEY):
                raise Refusal(service.faults.wrong_signature)
            if not body_is_as_signed(request):
                raise Refusal(service.faults.wrong_digest)
        return signature.access_key


def _cut(response: Response, plan: Plan) -> Response:
    match plan.close:
        case CloseWhen.BEFORE_ANSWER:
            return replace(response, cut=Cut.BEFORE_ANSWER)
        case CloseWhen.WITHIN_ANSWER:
            return replace(response, cut=Cut.WITHIN_ANSWER)
        case _:
            return response


@cache
def _session() -> Any:
    """One session for all clients: it keeps the service models, which take long to read."""
    session = load("botocore.session").Session()
    loader = session.get_component("data_loader")
    load_model = loader.load_service_model

    def load_service_model(service: str, kind: str, api_version: str | None = None) -> Any:
        if service == IoTAnalytics.name and kind == "service-2":
            return SERVICE_MODEL
        return load_model(service, kind, api_version)

    loader.load_service_model = load_service_model
    return session
