"""The declaration: every setting once, with type, default, limits and AWS's names for it."""
# No `from __future__ import annotations`: the annotations are read at import, and as text they
# would have to be evaluated first.

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, NamedTuple, Self, get_args

from penstock.errors import SettingsError
from penstock.settings.field import About, Setting
from penstock.settings.sources import CONFIG_VARIABLE, Collector, Source
from penstock.transforms.declaration import Transform
from penstock.units import GIB, KIB, MIB, TIB

# The wire's own limit: a longer length field is not valid in any version of the protocol.
FRAME_BYTES_LIMIT = 2**30
# Smaller frames could not carry the definition of a stream with a few exports.
FRAME_BYTES_LEAST = 4 * KIB
# A million of anything per connection or server is a slip of the pen; so is a TiB of memory.
COUNT_MAX = 2**20
MEMORY_BYTES_MAX = TIB

PIPELINES = ("embedded", "external", "off")
LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
LOG_FORMATS = ("text", "json")
CONFIG_SEARCH = ("penstock.toml", "/etc/penstock/penstock.toml")


def default_data_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Where a user's programs keep their data, by the XDG rules."""
    data_home = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data_home):  # the rules say that a relative one counts as unset
        home = environ.get("HOME") or os.path.expanduser("~")
        data_home = os.path.join(home, ".local", "share")
    return os.path.join(data_home, "penstock")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything an operator can turn. Nothing changes it while the server runs."""

    host: Annotated[
        str,
        About(
            "Address to listen on. Any other than loopback needs at least one token.",
            aws_variables=("STREAM_MANAGER_SERVER_HOST",),
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        About(
            "TCP port to listen on; 0 picks a free one.",
            ge=0,
            le=65535,
            aws_variables=("STREAM_MANAGER_SERVER_PORT",),
        ),
    ] = 8088
    data_dir: Annotated[
        str,
        About(
            "Folder that holds the streams.",
            is_path=True,
            aws_variables=("STREAM_MANAGER_STORE_ROOT_DIR",),
            default_text="$XDG_DATA_HOME/penstock, otherwise ~/.local/share/penstock",
        ),
    ] = field(default_factory=default_data_dir)
    authenticate_client: Annotated[
        bool | None,
        About(
            "Whether clients must show a token. Unset: they must as soon as one is configured.",
            aws_variables=("STREAM_MANAGER_AUTHENTICATE_CLIENT",),
        ),
    ] = None
    tokens: Annotated[
        tuple[str, ...],
        About(
            "Tokens that clients may show. Other users of the machine can see flags: prefer the "
            "file or the variable.",
            is_secret=True,
        ),
    ] = field(default=(), repr=False)
    frame_bytes_max: Annotated[
        int,
        About(
            "Largest request that is accepted, in bytes.",
            ge=FRAME_BYTES_LEAST,
            le=FRAME_BYTES_LIMIT,
            is_bytes=True,
        ),
    ] = 64 * MIB
    response_bytes_max: Annotated[
        int,
        About(
            "A read adds no more messages to an answer of this size, in bytes, once it has the "
            "least number it was asked for.",
            ge=FRAME_BYTES_LEAST,
            le=FRAME_BYTES_LIMIT,
            is_bytes=True,
        ),
    ] = 64 * MIB
    unsent_bytes_max: Annotated[
        int,
        About(
            "Bytes of answers that may wait for a slow client, per connection.",
            ge=FRAME_BYTES_LEAST,
            le=MEMORY_BYTES_MAX,
            is_bytes=True,
        ),
    ] = 64 * MIB
    waiting_reads_max: Annotated[
        int,
        About("Reads that may wait for messages, per connection.", ge=1, le=COUNT_MAX),
    ] = 256
    requests_in_flight_max: Annotated[
        int,
        About("Requests that may be without an answer, per connection.", ge=1, le=COUNT_MAX),
    ] = 4096
    connections_max: Annotated[
        int,
        About("Clients that may be connected at the same time.", ge=1, le=COUNT_MAX),
    ] = 1024
    log_level: Annotated[
        str,
        About("How much is logged.", choices=LOG_LEVELS, aws_variables=("LOG_LEVEL",)),
    ] = "INFO"
    log_format: Annotated[
        str,
        About(
            "How log lines look: text for people, or one JSON object per line.",
            choices=LOG_FORMATS,
        ),
    ] = "text"
    otel_endpoint: Annotated[
        str,
        About(
            "Where the console process sends the metrics by OpenTelemetry's OTLP over HTTP, for "
            "example http://127.0.0.1:4318. Unset: nowhere. Needs penstock[otel].",
            may_be_empty=True,
            pattern=r"(https?://[^\s/?#]+[^\s?#]*)?",
            allowed_text="the address of a receiver, such as http://127.0.0.1:4318",
        ),
    ] = ""
    exporter_bandwidth_kbps_max: Annotated[
        int | None,
        About(
            "Average bandwidth of all exports together, in kilobit per second. Unset: no limit. "
            "Used by exports.",
            ge=1,
            le=2**31 - 1,
            aws_variables=("STREAM_MANAGER_EXPORTER_MAX_BANDWIDTH",),
        ),
    ] = None
    exporter_threads: Annotated[
        int,
        About(
            "Exports that may send at the same time. Used by exports.",
            ge=1,
            le=1024,
            aws_variables=(
                "STREAM_MANAGER_EXPORTER_THREAD_POOL_SIZE",
                "STREAM_MANAGER_THREAD_POOL_SIZE",  # as an older page of AWS's guide spells it
            ),
        ),
    ] = 5
    s3_part_bytes_min: Annotated[
        int,
        About(
            "Smallest part of a multipart upload to S3, in bytes. Used by exports.",
            ge=5 * MIB,  # both are limits of S3 itself
            le=5 * GIB,
            is_bytes=True,
            aws_variables=(
                "STREAM_MANAGER_EXPORTER_S3_DESTINATION_MULTIPART_UPLOAD_MIN_PART_SIZE_BYTES",
            ),
        ),
    ] = 5 * MIB
    kinesis_inter_call_delay_ms: Annotated[
        int,
        About(
            "Pause between calls to Kinesis while it throttles, in milliseconds; 0 turns it off. "
            "Used by exports.",
            ge=0,
            le=3_600_000,
            aws_variables=("STREAM_MANAGER_EXPORTER_KINESIS_INTER_CALL_DELAY_MS",),
        ),
    ] = 1000
    read_only_dirs: Annotated[
        tuple[str, ...],
        About(
            "S3 tasks may read files below these folders only. With none, every file that the user "
            "of the pipeline may read. Used by exports.",
            is_path=True,
            aws_variables=("STREAM_MANAGER_READ_ONLY_DIRS",),
        ),
    ] = ()
    iot_analytics_redirects: Annotated[
        tuple[str, ...],
        About(
            "Where exports to IoT Analytics, which AWS has ended, go instead, channel by channel. "
            "To a Kinesis stream, or to a folder in which a Parquet table is kept. In "
            'penstock.toml also as a table: turbines = "kinesis:plant-7". Used by exports.',
            is_table=True,
            pattern=r"[a-zA-Z0-9_]{1,128}="
            r"(kinesis:[a-zA-Z0-9_.-]{1,128}|parquet:/([^,]+/)?[^,/_.][^,/]*)",
            allowed_text="CHANNEL=kinesis:STREAM or CHANNEL=parquet:/FOLDER (absolute, without a "
            "comma, the last part not beginning with _ or .), as often as needed",
        ),
    ] = ()
    pipeline: Annotated[
        str,
        About(
            "Who does the exports: a process that the server starts itself (embedded), one that "
            "is started elsewhere with `penstock pipeline` (external), or nobody (off).",
            choices=PIPELINES,
        ),
    ] = "embedded"
    pipeline_token: Annotated[
        str,
        About(
            "Token of a pipeline that is started elsewhere. Unset: one is made at every start.",
            is_secret=True,
            may_be_empty=True,
        ),
    ] = field(default="", repr=False)
    spark_master: Annotated[
        str,
        About(
            "Spark master that runs the exports, for example spark://host:7077. Unset: Spark runs "
            "inside the pipeline process.",
            may_be_empty=True,
        ),
    ] = ""
    spark_conf: Annotated[
        tuple[str, ...],
        About(
            "Settings of Spark's own for the pipeline, such as spark.executor.memory=1g. In "
            "penstock.toml also as a table.",
            is_table=True,
            pattern=r"spark\.[A-Za-z0-9_.-]+=.*",
            allowed_text="KEY=VALUE with a key that begins with spark., as often as needed",
        ),
    ] = ()
    spark_ui: Annotated[
        bool, About("Whether Spark serves its own web page about the pipeline.")
    ] = False
    jvm_args: Annotated[
        str,
        About(
            "More arguments for the pipeline's Java process, separated by spaces.",
            may_be_empty=True,
            aws_variables=("JVM_ARGS",),
        ),
    ] = ""
    console: Annotated[
        bool,
        About(
            "Whether the server starts the console: a process that shows streams and exports in a "
            "browser, and serves /metrics, /healthz and /readyz."
        ),
    ] = True
    console_host: Annotated[
        str,
        About("Address of the console. Any other than loopback needs at least one token."),
    ] = "127.0.0.1"
    console_port: Annotated[
        int, About("TCP port of the console; 0 picks a free one.", ge=0, le=65535)
    ] = 8089
    # Tables of the file, with keys of their own: neither flag nor variable could hold them.
    transforms: tuple[Transform, ...] = ()

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object],
        environ: Mapping[str, str],
        config_path: str | None = None,
        *,
        config_search: Sequence[str] = CONFIG_SEARCH,
    ) -> "Loaded":
        """Settings from all sources, or SettingsError with every problem, one per line.

        `flags` has keys of the declaration; text is parsed, None means that it was not given.
        """
        collector = Collector(SETTINGS)
        defaults = {key: setting.default for key, setting in SETTINGS.items()}
        collector.take_defaults({**defaults, "data_dir": default_data_dir(environ)})
        collector.take_file(config_path or environ.get(CONFIG_VARIABLE) or None, config_search)
        collector.take_environment(environ)
        collector.take_flags(flags)
        if collector.problems:
            raise SettingsError("\n".join(collector.problems))
        settings = cls(**collector.values, transforms=tuple(collector.transforms))
        return Loaded(settings.checked(), collector.sources)

    def kinesis_streams_by_channel(self) -> dict[str, str]:
        """What iot_analytics_redirects says of Kinesis."""
        return self._redirects_to("=kinesis:")

    def tables_by_channel(self) -> dict[str, str]:
        """What iot_analytics_redirects says of Parquet tables: their folders."""
        return self._redirects_to("=parquet:")

    def _redirects_to(self, mark: str) -> dict[str, str]:
        pairs = (each.partition(mark) for each in self.iot_analytics_redirects if mark in each)
        return {channel: target for channel, _, target in pairs}

    def authentication_required(self) -> bool:
        """Whether clients must show a token."""
        if self.authenticate_client is None:
            return bool(self.tokens)
        return self.authenticate_client

    def checked(self) -> Self:
        """Itself, or SettingsError if other machines could come in without a token."""
        hosts = {"host": self.host} | ({"console_host": self.console_host} if self.console else {})
        for key, host in hosts.items():
            if is_loopback(host):
                continue
            if not self.tokens:
                raise SettingsError(
                    f"{key} is {host}, which other machines can reach, but no token is configured. "
                    "Set tokens (PENSTOCK_TOKENS), or listen on 127.0.0.1."
                )
            if not self.authentication_required():
                raise SettingsError(
                    f"{key} is {host}, which other machines can reach, but authenticate_client is "
                    "false. Remove authenticate_client, or listen on 127.0.0.1."
                )
        return self

    def warnings(self) -> list[str]:
        """What is allowed but probably not meant."""
        if self.authenticate_client and not self.tokens:
            return [
                "authenticate_client is true but no token is configured: every client will be "
                "refused. Set tokens (PENSTOCK_TOKENS)."
            ]
        if self.authenticate_client is False and self.tokens:
            return [
                "authenticate_client is false: the configured tokens are not asked for, and any "
                "process of this machine may connect."
            ]
        return []


class Loaded(NamedTuple):
    """Settings, and where each of them came from."""

    settings: Settings
    sources: Mapping[str, Source]


def declared() -> Iterator[Setting]:
    """The declaration, field by field."""
    for item in fields(Settings):
        if item.name == "transforms":
            continue
        declared_type, about = get_args(item.type)
        without_none = [kind for kind in get_args(declared_type) if kind is not type(None)]
        is_list = declared_type == tuple[str, ...]
        kind = tuple if is_list else (without_none or [declared_type])[0]
        default = None if item.default is MISSING else item.default
        yield Setting(item.name, kind, about, default)


SETTINGS: dict[str, Setting] = {setting.key: setting for setting in declared()}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host in ("127.0.0.1", "localhost", "::1"):
        return True
    import ipaddress  # only for unusual addresses

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
