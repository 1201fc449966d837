"""Settings: one declaration, four sources, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SettingsError
from penstock.settings import SETTINGS, Loaded, Settings, Source
from penstock.settings.declaration import CONFIG_SEARCH, default_data_dir
from penstock.units import MIB

AWS_VARIABLES = {
    "STREAM_MANAGER_SERVER_HOST": ("host", "::1", "::1"),
    "STREAM_MANAGER_SERVER_PORT": ("port", "9000", 9000),
    "STREAM_MANAGER_STORE_ROOT_DIR": ("data_dir", "/srv/streams", "/srv/streams"),
    "STREAM_MANAGER_AUTHENTICATE_CLIENT": ("authenticate_client", "false", False),
    "STREAM_MANAGER_EXPORTER_MAX_BANDWIDTH": ("exporter_bandwidth_kbps_max", "800", 800),
    "STREAM_MANAGER_EXPORTER_THREAD_POOL_SIZE": ("exporter_threads", "7", 7),
    "STREAM_MANAGER_THREAD_POOL_SIZE": ("exporter_threads", "7", 7),
    "STREAM_MANAGER_EXPORTER_S3_DESTINATION_MULTIPART_UPLOAD_MIN_PART_SIZE_BYTES": (
        "s3_part_bytes_min",
        "6291456",
        6 * MIB,
    ),
    "STREAM_MANAGER_EXPORTER_KINESIS_INTER_CALL_DELAY_MS": (
        "kinesis_inter_call_delay_ms",
        "0",
        0,
    ),
    "STREAM_MANAGER_READ_ONLY_DIRS": ("read_only_dirs", "/a, /b/c", ("/a", "/b/c")),
    "LOG_LEVEL": ("log_level", "debug", "DEBUG"),
    "JVM_ARGS": ("jvm_args", "-Xmx128m -Xms64m", "-Xmx128m -Xms64m"),
}


def load(
    flags: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
    config_path: str | None = None,
    config_search: tuple[str, ...] = (),
) -> Loaded:
    return Settings.load(flags or {}, environ or {}, config_path, config_search=config_search)


def problems(
    flags: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
    config_path: str | None = None,
) -> str:
    with pytest.raises(SettingsError) as caught:
        load(flags, environ, config_path)
    return str(caught.value)


def toml(tmp_path: Path, text: str) -> str:
    path = tmp_path / "penstock.toml"
    path.write_text(text)
    return str(path)


# --- defaults -----------------------------------------------------------------------------------


def test_without_any_source_every_value_is_the_default_and_says_so():
    loaded = load(environ={"HOME": "/home/someone"})

    assert loaded.settings == Settings(data_dir="/home/someone/.local/share/penstock")
    assert set(loaded.sources) == set(SETTINGS)
    assert set(loaded.sources.values()) == {Source("default")}


def test_the_defaults_are_the_documented_ones():
    settings = Settings(data_dir="/d")

    assert (settings.host, settings.port, settings.log_level) == ("127.0.0.1", 8088, "INFO")
    assert settings.frame_bytes_max == settings.response_bytes_max == 64 * MIB
    assert settings.unsent_bytes_max == 64 * MIB
    assert (settings.waiting_reads_max, settings.requests_in_flight_max) == (256, 4096)
    assert settings.connections_max == 1024
    assert (settings.exporter_threads, settings.s3_part_bytes_min) == (5, 5242880)
    assert settings.kinesis_inter_call_delay_ms == 1000
    assert settings.exporter_bandwidth_kbps_max is None
    assert (settings.tokens, settings.read_only_dirs, settings.jvm_args) == ((), (), "")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/share/penstock"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/penstock"),
        ({"HOME": "/h", "XDG_DATA_HOME": ""}, "/h/.local/share/penstock"),
        ({"HOME": "/h", "XDG_DATA_HOME": "relative"}, "/h/.local/share/penstock"),
    ],
)
def test_data_goes_where_the_xdg_rules_say(environ, expected):
    assert default_data_dir(environ) == expected


# --- the environment ----------------------------------------------------------------------------


@pytest.mark.parametrize("variable", AWS_VARIABLES)
def test_aws_variables_are_understood_verbatim(variable):
    key, text, expected = AWS_VARIABLES[variable]

    loaded = load(environ={variable: text})
    assert getattr(loaded.settings, key) == expected
    assert loaded.sources[key] == Source("variable", variable)


def test_the_declaration_has_every_variable_of_aws_and_no_other():
    declared = {name for setting in SETTINGS.values() for name in setting.about.aws_variables}
    assert declared == set(AWS_VARIABLES)


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_has_a_variable_of_its_own(key):
    setting = SETTINGS[key]
    texts = {int: "6000000", bool: "true", tuple: "/a,/b", str: "/x"}
    special = {"log_level": "WARN", "host": "localhost", "port": "1", "exporter_threads": "2"}
    special |= {"kinesis_inter_call_delay_ms": "3"}
    special |= dict.fromkeys(["waiting_reads_max", "connections_max"], "9")
    special |= {"requests_in_flight_max": "9", "pipeline": "external"}
    special |= {"iot_analytics_redirects": "a=kinesis:b,c=kinesis:d"}
    special |= {"spark_conf": "spark.a=1,spark.b=2"}
    special |= {"log_format": "json", "otel_endpoint": "http://127.0.0.1:4318"}
    special |= {"console_host": "::1", "console_port": "1"}
    text = special.get(key, texts[setting.kind])

    loaded = load(environ={f"PENSTOCK_{key.upper()}": text})
    assert getattr(loaded.settings, key) == setting.from_text(text)
    assert loaded.sources[key] == Source("variable", f"PENSTOCK_{key.upper()}")


@pytest.mark.parametrize("name", sorted({*AWS_VARIABLES, "PENSTOCK_PORT", "PENSTOCK_CONFIG"}))
def test_an_empty_variable_means_unset(name):
    assert load(environ={name: ""}) == load()


def test_two_names_of_one_setting_with_the_same_value_are_fine():
    loaded = load(environ={"STREAM_MANAGER_SERVER_PORT": "9000", "PENSTOCK_PORT": " 9000"})
    assert loaded.settings.port == 9000


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("STREAM_MANAGER_SERVER_PORT", "PENSTOCK_PORT"),
        ("STREAM_MANAGER_EXPORTER_THREAD_POOL_SIZE", "STREAM_MANAGER_THREAD_POOL_SIZE"),
        ("STREAM_MANAGER_THREAD_POOL_SIZE", "PENSTOCK_EXPORTER_THREADS"),
    ],
)
def test_two_names_of_one_setting_with_different_values_are_refused(first, second):
    text = problems(environ={first: "10", second: "11"})
    assert first in text
    assert second in text
    assert "10 and 11" in text
    assert "Unset one of them" in text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENSTOCK_PROT", "PENSTOCK_PORT"),
        ("PENSTOCK_CONFG", "PENSTOCK_CONFIG"),
        ("STREAM_MANAGER_SERVER_PORTS", "STREAM_MANAGER_SERVER_PORT"),
        ("STREAM_MANAGER_EXPORTER_MAX_BANDWITH", "STREAM_MANAGER_EXPORTER_MAX_BANDWIDTH"),
    ],
)
def test_an_unknown_variable_is_refused_with_a_suggestion(name, meant):
    text = problems(environ={name: "1"})
    assert f'"{name}"' in text
    assert f'Did you mean "{meant}"?' in text
    assert "docs/settings.md" in text


def test_variables_of_other_programs_are_left_alone():
    assert load(environ={"STREAM": "x", "PENSTOCKS": "x", "PORT": "1"}) == load()


# --- the file -----------------------------------------------------------------------------------


def test_a_file_sets_values_with_their_own_types(tmp_path):
    path = toml(
        tmp_path,
        """
        port = 9001
        authenticate_client = true
        tokens = ["one", "with,comma"]
        frame_bytes_max = "1MiB"
        response_bytes_max = 5000
        jvm_args = ""
        """,
    )
    loaded = load(config_path=path)

    assert loaded.settings.port == 9001
    assert loaded.settings.authenticate_client is True
    assert loaded.settings.tokens == ("one", "with,comma")
    assert loaded.settings.frame_bytes_max == MIB
    assert loaded.settings.response_bytes_max == 5000
    assert loaded.sources["port"] == Source("file", path)
    assert loaded.sources["host"] == Source("default")


def test_paths_in_a_file_start_from_its_folder(tmp_path):
    path = toml(tmp_path, 'data_dir = "data"\nread_only_dirs = ["in", "/abs"]')
    settings = load(config_path=path).settings

    assert settings.data_dir == str(tmp_path / "data")
    assert settings.read_only_dirs == (str(tmp_path / "in"), "/abs")


def test_other_paths_start_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load({"data_dir": "data"}).settings.data_dir == str(tmp_path / "data")
    variable = {"STREAM_MANAGER_STORE_ROOT_DIR": "data"}
    assert load(environ=variable).settings.data_dir == str(tmp_path / "data")


def test_the_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert load({"data_dir": "~/streams"}).settings.data_dir == "/home/someone/streams"


def test_the_file_is_named_by_argument_then_variable_then_search(tmp_path):
    files = {}
    for port, name in enumerate(("argument", "variable", "first", "second"), 1):
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(f"port = {port}")
    environ = {"PENSTOCK_CONFIG": str(files["variable"])}
    search = (str(tmp_path / "missing.toml"), str(files["first"]), str(files["second"]))

    assert load({}, environ, str(files["argument"]), search).settings.port == 1
    assert load({}, environ, None, search).settings.port == 2
    assert load({}, {}, None, search).settings.port == 3


def test_the_file_of_the_current_folder_is_found_by_itself(tmp_path, monkeypatch):
    toml(tmp_path, "port = 77")
    monkeypatch.chdir(tmp_path)
    assert Settings.load({}, {}).settings.port == 77
    assert CONFIG_SEARCH == ("penstock.toml", "/etc/penstock/penstock.toml")


def test_a_named_file_that_does_not_exist_is_refused(tmp_path):
    missing = str(tmp_path / "missing.toml")
    for text in (problems({}, {}, missing), problems({}, {"PENSTOCK_CONFIG": missing})):
        assert f"there is no configuration file {missing}" in text
        assert "--config" in text


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    assert f"{tmp_path} cannot be read: Is a directory" in problems({}, {}, str(tmp_path))


@pytest.mark.parametrize("content", [b"port = ", b"port = 1\nport = 2", b'host = "\xff"'])
def test_a_file_that_is_not_toml_is_refused_with_its_path(tmp_path, content):
    path = tmp_path / "penstock.toml"
    path.write_bytes(content)
    assert f"{path} is not valid TOML: " in problems({}, {}, str(path))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("prot = 1", 'unknown key "prot" in {path}. Did you mean "port"?'),
        ("Port = 1", 'unknown key "Port" in {path}. Did you mean "port"?'),
        ("zzz = 1", 'unknown key "zzz" in {path}. `penstock config`'),
        ("[exports]\nthreads = 1", 'unknown table "exports" in {path}.'),
        ("[[pumps]]\nsql = '1'", 'unknown key "pumps" in {path}.'),
        ("STREAM_MANAGER_SERVER_PORT = 1", 'Its key is "port".'),
    ],
)
def test_an_unknown_key_is_refused_with_what_was_probably_meant(tmp_path, line, expected):
    path = toml(tmp_path, line)
    assert expected.format(path=path) in problems({}, {}, path)


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ('port = "8088"', "a whole number from 0 to 65535"),
        ("port = 1.0", "a whole number from 0 to 65535"),
        ("port = true", "a whole number from 0 to 65535"),
        ("port = -1", "a whole number from 0 to 65535"),
        ("[port]\na = 1", "a whole number from 0 to 65535"),
        ('frame_bytes_max = "1 furlong"', "a size from 4KiB to 1GiB"),
        ('frame_bytes_max = "2GiB"', "a size from 4KiB to 1GiB"),
        ("frame_bytes_max = 1", "a size from 4KiB to 1GiB"),
        ('authenticate_client = "true"', "true or false"),
        ("authenticate_client = 1", "true or false"),
        ('host = ""', "text that is not empty"),
        ('data_dir = ""', "a folder"),
        ('data_dir = "a\\u0000b"', "a folder"),
        ('tokens = "one"', "a list of texts"),
        ('tokens = ["one", ""]', "a list of texts"),
        ("tokens = [1]", "a list of texts"),
        ("read_only_dirs = [true]", "a list of folders"),
        ('log_level = "LOUD"', "one of TRACE, DEBUG, INFO, WARN, ERROR"),
        ("jvm_args = []", "Give text."),
        ("kinesis_inter_call_delay_ms = 2026-01-01", "a whole number from 0 to 3600000"),
    ],
)
def test_a_value_of_wrong_type_or_out_of_range_is_refused_with_source_and_limit(
    tmp_path, line, allowed
):
    path = toml(tmp_path, line)
    text = problems({}, {}, path)
    assert f"(file {path})" in text
    assert f"Give {allowed}" in text or allowed in text


# --- text values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("TRUE", True), ("1", True), ("on", True), ("False", False), ("no", False)],
)
def test_truth_can_be_written_in_several_ways(text, expected):
    loaded = load(environ={"STREAM_MANAGER_AUTHENTICATE_CLIENT": text})
    assert loaded.settings.authenticate_client is expected


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("STREAM_MANAGER_SERVER_PORT", "eighty"),
        ("STREAM_MANAGER_SERVER_PORT", "8_088"),
        ("STREAM_MANAGER_SERVER_PORT", "65536"),
        ("STREAM_MANAGER_SERVER_PORT", "1" * 5000),
        ("STREAM_MANAGER_AUTHENTICATE_CLIENT", "maybe"),
        ("STREAM_MANAGER_EXPORTER_MAX_BANDWIDTH", "0"),
        ("STREAM_MANAGER_READ_ONLY_DIRS", "/a,,/b"),
        ("PENSTOCK_TOKENS", "a,"),
    ],
)
def test_text_that_cannot_be_used_is_refused_and_names_its_variable(variable, text):
    assert f"(variable {variable})" in problems(environ={variable: text})


def test_a_wrong_choice_gets_a_suggestion():
    assert 'Did you mean "WARN"?' in problems(environ={"LOG_LEVEL": "warning"})


def test_tokens_come_from_a_comma_separated_variable():
    assert load(environ={"PENSTOCK_TOKENS": "one, two"}).settings.tokens == ("one", "two")


# --- flags and precedence -----------------------------------------------------------------------


def test_each_source_is_stronger_than_the_one_before(tmp_path):
    path = toml(tmp_path, 'port = 1\nexporter_threads = 1\nhost = "::1"')
    environ = {"STREAM_MANAGER_SERVER_PORT": "2", "PENSTOCK_EXPORTER_THREADS": "2"}
    loaded = load({"port": "3", "connections_max": None}, environ, path)

    assert (loaded.settings.port, loaded.sources["port"]) == (3, Source("flag", "--port"))
    assert loaded.settings.exporter_threads == 2
    assert loaded.sources["exporter_threads"] == Source("variable", "PENSTOCK_EXPORTER_THREADS")
    assert (loaded.settings.host, loaded.sources["host"]) == ("::1", Source("file", path))
    assert loaded.sources["connections_max"] == Source("default")


def test_flags_may_have_their_own_types_already():
    settings = load({"port": 0, "authenticate_client": True, "tokens": ["a,b"]}).settings
    assert (settings.port, settings.authenticate_client, settings.tokens) == (0, True, ("a,b",))


def test_a_wrong_flag_is_refused():
    assert "port (flag --port) is" in problems({"port": "x"})
    assert "host (flag --host) is" in problems({"host": ""})
    assert 'Did you mean "data_dir"?' in problems({"datadir": "x"})


def test_all_problems_are_reported_together(tmp_path):
    path = toml(tmp_path, "prot = 1\nport = -1")
    environ = {"PENSTOCK_NONSENSE": "1", "LOG_LEVEL": "LOUD"}
    lines = problems({"exporter_threads": "0"}, environ, path).splitlines()

    assert len(lines) == 5
    for line, part in zip(
        lines, ('"prot"', "port (file", "PENSTOCK_NONSENSE", "LOUD", "--exporter-t"), strict=True
    ):
        assert part in line


# --- authentication -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_value", "tokens", "required"),
    [
        (None, (), False),
        (None, ("t",), True),
        (True, (), True),
        (True, ("t",), True),
        (False, ("t",), False),
        (False, (), False),
    ],
)
def test_tokens_turn_authentication_on_unless_it_is_set(given_value, tokens, required):
    settings = Settings(authenticate_client=given_value, tokens=tokens, data_dir="/d")
    assert settings.authentication_required() is required


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    assert load({"host": host}).settings.authentication_required() is False


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "127.0.0.1.example.org", "128.0.0.1"]
)
def test_any_other_address_needs_a_token_and_authentication(host):
    assert "Set tokens (PENSTOCK_TOKENS), or listen on 127.0.0.1." in problems({"host": host})
    only_asked_for = {"host": host, "authenticate_client": True}
    assert "no token is configured" in problems(only_asked_for)
    off = {"host": host, "authenticate_client": False, "tokens": "t"}
    assert "Remove authenticate_client" in problems(off)

    assert load({"host": host, "tokens": "t"}).settings.authentication_required()


def test_the_same_counts_for_the_console_if_there_is_one():
    text = problems({"console_host": "0.0.0.0"})
    assert text.startswith("console_host is 0.0.0.0, which other machines can reach")
    assert "no token" in text
    assert load({"console_host": "0.0.0.0", "tokens": "t"}).settings.console_host == "0.0.0.0"
    assert load({"console_host": "0.0.0.0", "console": "false"}).settings.console is False
    text = problems({"console_host": "::", "tokens": "t", "authenticate_client": "false"})
    assert "authenticate_client is false" in text


def test_settings_that_lock_everyone_out_are_allowed_with_a_warning():
    settings = load({"authenticate_client": "true"}).settings
    assert ["every client will be refused" in text for text in settings.warnings()] == [True]


def test_tokens_that_nobody_is_asked_for_are_allowed_with_a_warning():
    settings = load({"authenticate_client": "false", "tokens": "t"}).settings
    assert ["not asked for" in text for text in settings.warnings()] == [True]
    assert load({"tokens": "t"}).settings.warnings() == []


def test_a_token_is_never_shown(tmp_path):
    settings = load({"tokens": "s3cret,0ther"}).settings
    assert "s3cret" not in repr(settings)
    assert SETTINGS["tokens"].shown(settings.tokens) == "2 configured"
    assert SETTINGS["tokens"].shown(()) == "none"
    assert "s3cret" not in problems({"tokens": "s3cret,"})
    assert "s3cret" not in problems({}, {}, toml(tmp_path, 'tokens = "s3cret"'))


# --- the declaration ----------------------------------------------------------------------------


def test_every_default_keeps_its_own_rule():
    for setting in SETTINGS.values():
        if setting.default is not None:
            assert setting.from_value(setting.default) == setting.default


def test_every_number_has_limits_and_every_setting_a_sentence():
    for setting in SETTINGS.values():
        assert setting.about.text.endswith("."), setting.key
        if setting.kind is int:
            assert setting.about.ge is not None, setting.key
            assert setting.about.le is not None, setting.key


def test_settings_cannot_be_changed_later():
    with pytest.raises(AttributeError):
        Settings(data_dir="/d").port = 1  # type: ignore[misc]


@given(st.sampled_from([s for s in SETTINGS.values() if s.kind is int]), st.data())
def test_a_number_that_is_shown_is_read_back_equal(setting, data):
    number = data.draw(st.integers(setting.about.ge, setting.about.le))
    assert setting.from_text(setting.shown(number)) == number


@given(st.dictionaries(st.sampled_from(list(SETTINGS)), st.text(max_size=20)))
def test_any_text_is_either_used_or_refused(flags):
    try:
        loaded = load(dict(flags))
    except SettingsError:
        return
    assert all(loaded.sources[key].kind == "flag" for key in flags)


def test_loading_without_a_file_imports_neither_a_parser_nor_a_table():
    script = (
        "import sys; from penstock.settings import Settings; "
        "Settings.load({'port': '1'}, {}, None, config_search=()); "
        "print([m for m in ('tomllib', 'difflib', 'ipaddress', 'pathlib', 'click', 'rich')"
        " if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")


# --- redirects ----------------------------------------------------------------------------------


def test_redirects_are_a_table_in_a_file_and_a_list_elsewhere(tmp_path):
    path = tmp_path / "penstock.toml"
    path.write_text('[iot_analytics_redirects]\nturbines = "kinesis:plant-7"\n')
    from_file = load(config_path=str(path)).settings
    listed = load(environ={"PENSTOCK_IOT_ANALYTICS_REDIRECTS": "turbines=kinesis:plant-7"}).settings
    assert from_file.iot_analytics_redirects == ("turbines=kinesis:plant-7",)
    assert from_file == listed
    assert from_file.kinesis_streams_by_channel() == {"turbines": "plant-7"}


def test_a_redirect_leads_to_kinesis_or_to_a_folder(tmp_path):
    path = tmp_path / "penstock.toml"
    path.write_text(
        "[iot_analytics_redirects]\n"
        'turbines = "kinesis:plant-7"\npumps = "parquet:/var/lib/my tables/_a/analytics"\n'
    )
    settings = load(config_path=str(path)).settings
    assert settings.kinesis_streams_by_channel() == {"turbines": "plant-7"}
    assert settings.tables_by_channel() == {"pumps": "/var/lib/my tables/_a/analytics"}


@pytest.mark.parametrize(
    "value",
    [
        *("plant-7", "kinesis:", "kinesis:not a name"),
        *("parquet:x", "parquet:tables/x", "parquet:/", "parquet:/a/", "parquet:s3a://b/t"),
        *("parquet:/a,b", "parquet:/a/_hidden", "parquet:/.hidden"),
    ],
)
def test_a_redirect_to_anything_else_is_refused(tmp_path, value):
    path = tmp_path / "penstock.toml"
    path.write_text(f'[iot_analytics_redirects]\nturbines = "{value}"\n')
    with pytest.raises(SettingsError, match="Give CHANNEL=kinesis:STREAM or CHANNEL=parquet:/FOL"):
        load(config_path=str(path))
