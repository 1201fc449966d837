"""All checks in order, each told what it needs to know of the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.doctor.clock import Clocks, check_clock
from penstock.doctor.cloud import (
    check_credentials,
    check_targets,
    clock_urls,
    needs_aws,
    targets_of,
)
from penstock.doctor.engine import check_java, check_spark
from penstock.doctor.finding import Finding
from penstock.doctor.ports import check_console, check_port
from penstock.doctor.storage import check_storage
from penstock.errors import StoreError
from penstock.log.disk import ReadOnlyDisk
from penstock.model import MessageStreamDefinition
from penstock.settings import SETTINGS, Settings
from penstock.streams.manager import HALF_DELETED, HALF_MADE, STREAMS_NAME, read_definition


@dataclass(frozen=True)
class Patient:
    """What is known of the server that is looked at."""

    settings: Settings
    server_runs: bool
    definitions: Sequence[MessageStreamDefinition] = ()
    findings: Sequence[Finding] = field(default=())  # from how this was found out

    @property
    def pipeline_is_here(self) -> bool:
        """Whether this machine's Java and Spark are used."""
        wanted = any(each.export_definition.configs() for each in self.definitions)
        return self.settings.pipeline == "embedded" and bool(wanted or self.settings.transforms)


def patient_at_rest(settings: Settings) -> Patient:
    """A server that does not run, from what its data directory holds."""
    folder = settings.data_dir
    try:
        definitions = stored_definitions(folder)
    except FileNotFoundError:
        finding = Finding.note("server", f"does not run, and has no data in {folder} yet.")
        return Patient(settings, False, (), (finding,))
    except (StoreError, OSError) as error:
        remedy = f"Look at it with `penstock verify {folder}`."
        finding = Finding.problem(
            "server", f"its data in {folder} cannot be read: {error}.", remedy
        )
        return Patient(settings, False, (), (finding,))
    text = f"does not run; streams in {folder}: {len(definitions)}."
    return Patient(settings, False, definitions, (Finding.note("server", text),))


def stored_definitions(root: str) -> list[MessageStreamDefinition]:
    """Those of a data directory, in use or not. Streams in memory are not among them."""
    disk = ReadOnlyDisk()
    folder = f"{root}/{STREAMS_NAME}"
    return [
        read_definition(disk, f"{folder}/{name}")[0]
        for name in disk.list_folders(folder)
        if not name.endswith((HALF_MADE, HALF_DELETED))
    ]


def examine(patient: Patient) -> Iterator[Finding]:
    """Every finding, as it is made."""
    settings = patient.settings
    clocks = Clocks()
    yield from patient.findings
    yield check_java(matters=patient.pipeline_is_here)
    yield check_spark(matters=patient.pipeline_is_here)
    yield check_port(
        "port", settings.host, settings.port, flag="--port", server_runs=patient.server_runs
    )
    yield check_console(
        settings.console_host,
        settings.console_port,
        enabled=settings.console,
        server_runs=patient.server_runs,
    )
    yield from check_storage(settings.data_dir)
    yield from _cloud(patient)
    yield clocks.check_steps()


def _cloud(patient: Patient) -> Iterator[Finding]:
    settings = patient.settings
    known = {key: getattr(settings, key) for key in SETTINGS}
    known["kinesis_streams_by_channel"] = settings.kinesis_streams_by_channel()
    tables = settings.tables_by_channel()
    targets = targets_of(patient.definitions, known)
    yield check_credentials(matters=any(needs_aws(target, tables) for target in targets))
    if not targets:
        yield Finding.ok("destination", "no export is configured.")
    yield from check_targets(targets, known, tables)
    yield check_clock(clock_urls(targets, tables))
