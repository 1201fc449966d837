"""A cloud on this machine, for tests and demos: it takes what Penstock exports, and can misbehave.

Promise     requests travel as real HTTP, answers have the real services' form; what was taken is
            kept in order; what a knob was told to break, breaks, and nothing else.
Services    Kinesis and S3 are moto's. IoT SiteWise, IoT Analytics and HTTP sinks are strict
            stand-ins. All share one address; the service in a request's signature tells them apart.
Knobs       throttle, fail, fail single records, refuse, slow, hang, close, expire, deny, missing:
            by service and target, in Python or as JSON over HTTP.
Needs       the extra `penstock[testing]`. The server never imports this package.

    with LocalCloud() as cloud:
        cloud.kinesis.create_stream("telemetry")
        cloud.kinesis.throttle(times=3)
        subprocess.run(program, env=os.environ | cloud.environment())
        assert [record.data for record in cloud.kinesis.records("telemetry")] == [b"hello"]

Read in order   local_cloud, knobs, service, then the service you look for; control for JSON.
"""

from __future__ import annotations

from penstock.testing.errors import ExtraMissing, LocalCloudError
from penstock.testing.iot_analytics import AnalyticsMessage
from penstock.testing.kinesis import KinesisRecord
from penstock.testing.knobs import ActiveKnob, CloseWhen
from penstock.testing.local_cloud import LocalCloud
from penstock.testing.recorder import Entry, Totals
from penstock.testing.s3 import Part, S3Object, Stored, Upload, UploadState
from penstock.testing.server import PenstockServer
from penstock.testing.sink import HttpMessage, Sink, SinkRequest
from penstock.testing.sitewise import SiteWiseEntry

__all__ = [
    "ActiveKnob",
    "AnalyticsMessage",
    "CloseWhen",
    "Entry",
    "ExtraMissing",
    "HttpMessage",
    "KinesisRecord",
    "LocalCloud",
    "LocalCloudError",
    "Part",
    "PenstockServer",
    "S3Object",
    "Sink",
    "SinkRequest",
    "SiteWiseEntry",
    "Stored",
    "Totals",
    "Upload",
    "UploadState",
]
