"""The fixtures that pytest finds in an environment with Penstock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock import MessageStreamDefinition, StrategyOnFull
from penstock.testing import PenstockServer
from penstock.testing.server import own_environment

USERS_TEST = """
import urllib.request
from pathlib import Path

from penstock import MessageStreamDefinition, StrategyOnFull


def test_the_cloud_is_empty_and_works(local_cloud):
    assert local_cloud.requests() == []
    urllib.request.urlopen(local_cloud.sink("s").url, b"x").close()
    assert local_cloud.sink("s").messages() == [b"x"]


def test_the_cloud_is_empty_again(local_cloud):
    assert local_cloud.sink("s").messages() == []


def test_the_server_is_ready(penstock_server, local_cloud):
    with penstock_server.client() as client:
        client.create_message_stream(
            MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
        )
        assert client.append_message("S", b"x") == 0
    environ = Path(f"/proc/{penstock_server.process_id}/environ").read_text()
    assert f"AWS_ENDPOINT_URL={local_cloud.endpoint}" in environ.split("\\0")
"""


def test_a_users_tests_get_the_fixtures_without_importing_anything(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_plugin_itself_loads_no_library_of_the_extra() -> None:
    program = (
        "import sys, penstock.testing.pytest_plugin\n"
        "print(sorted({'moto', 'botocore', 'flask', 'click', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_server_keeps_its_data_and_port_when_it_is_killed(tmp_path: Path) -> None:
    server = PenstockServer(tmp_path)
    with server:
        with server.client() as client:
            client.create_message_stream(
                MessageStreamDefinition("S", strategy_on_full=StrategyOnFull.RejectNewData)
            )
            client.append_message("S", b"kept")
        port = server.port
        server.kill()
        server.start()
        assert server.port == port
        with server.client() as client:
            assert client.read_messages("S")[0].payload == b"kept"
    assert "Penstock listens on" in server.log
