"""`penstock doctor`: what this machine lacks for a server, its exports and its transforms."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import click

from penstock.cli.output import (
    Status,
    output_is_coloured,
    plural,
    printable,
    say,
    show_json,
)
from penstock.cli.streams import json_option
from penstock.client.sync import StreamManagerClient
from penstock.doctor.examination import Patient, examine, patient_at_rest
from penstock.doctor.finding import Finding, Level
from penstock.errors import (
    ConnectFailedException,
    PenstockError,
    ResourceNotFoundException,
    ResponseStatusCode,
    ServerUnreachableException,
    SettingsError,
)
from penstock.settings import Settings

# It is on this machine: who does not answer by then is stuck.
CONNECT_TIMEOUT_S = 2.0
REQUEST_TIMEOUT_S = 5.0
COLOURS = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "red"}
ANY_ADDRESS = ("0.0.0.0", "::")


@click.command(short_help="Look at this machine, and say what needs doing.")
@click.option("--config", "config_path", metavar="FILE", help="Settings file, as serve gets it.")
@click.option("--port", metavar="NUMBER", help="The server's port, as serve gets it.")
@click.option("--data-dir", metavar="FOLDER", help="Its data directory, as serve gets it.")
@click.option("--token", metavar="TEXT", help="Token to show to a server that runs.")
@json_option
def doctor(
    config_path: str | None,
    port: str | None,
    data_dir: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Look for what would keep a server on this machine from working, and say what to do.

    Java, Spark, ports, disk, credentials, each destination of the configured exports, and the
    clock. Exports are taken from the server if it runs, otherwise from its data directory. Nothing
    is changed and no message is sent. Run it as the server's user, with the server's variables:
    credentials are looked for where that user has them.

    Exit status: 0 nothing needs doing, 1 something does.
    """
    findings = examined({"port": port, "data_dir": data_dir}, config_path, token)
    if as_json:
        found = list(findings)
        problem_count = _problems(found)
        show_json({"problems": problem_count, "findings": [asdict(each) for each in found]})
    else:
        problem_count = _problems(_shown(findings))
        say(f"{plural(problem_count, 'problem')}." if problem_count else "Nothing needs doing.")
    return Status.FAILED if problem_count else Status.DONE


def examined(
    flags: dict[str, str | None], config_path: str | None, token: str | None
) -> Iterator[Finding]:
    """Every finding; without usable settings only what is wrong with those."""
    try:
        settings = Settings.load(flags, os.environ, config_path).settings
    except SettingsError as error:
        for problem in str(error).splitlines():
            yield Finding.problem("settings", problem, "Nothing else can be told before that.")
        return
    for warning in settings.warnings():
        yield Finding.note("settings", warning)
    yield from examine(found_patient(settings, token))


def found_patient(settings: Settings, token: str | None) -> Patient:
    """The server as it runs, or as its data directory shows it."""
    place = f"{settings.host}:{settings.port}"
    try:
        return _running_patient(settings, token)
    except ServerUnreachableException:
        return patient_at_rest(settings)
    except ConnectFailedException as error:
        if error.status != ResponseStatusCode.Unauthorized:
            return patient_at_rest(settings)  # no Penstock: the check of the port will say so
        finding = Finding.problem("server", f"{place} refuses: {error}.", "Give its --token.")
    except PenstockError as error:
        finding = Finding.problem("server", f"{place} is stuck: {error}.", "Look into its log.")
    return replace(patient_at_rest(settings), server_runs=True, findings=(finding,))


def _running_patient(settings: Settings, token: str | None) -> Patient:
    host = "127.0.0.1" if settings.host in ANY_ADDRESS else settings.host
    if settings.port == 0:
        raise ServerUnreachableException("Any free port is nobody's address")
    client = StreamManagerClient(
        host=host,
        port=settings.port,
        auth_token=token or (settings.tokens[0] if settings.tokens else None),
        connect_timeout=CONNECT_TIMEOUT_S,
        request_timeout=REQUEST_TIMEOUT_S,
    )
    try:
        server = client.observe_server().server
        definitions = []
        for name in client.list_streams():
            with contextlib.suppress(ResourceNotFoundException):  # deleted since it was listed
                definitions.append(client.describe_message_stream(name).definition)
    finally:
        client.close()
    text = f"version {server.version} runs as process {server.process_id}."
    return Patient(
        replace(settings, data_dir=server.data_dir),
        True,
        definitions,
        (Finding.ok("server", text),),
    )


def _shown(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each with its remedy, as it comes: some take seconds."""
    for finding in findings:
        level = finding.level.ljust(8)
        if output_is_coloured():
            level = click.style(level, fg=COLOURS[finding.level])
        say(f"{level} {finding.check.ljust(12)} {printable(finding.text)}")
        if finding.remedy:
            say(f"{' ' * 22}{printable(finding.remedy)}")
        yield finding


def _problems(findings: Iterable[Finding]) -> int:
    return sum(finding.level is Level.PROBLEM for finding in findings)
