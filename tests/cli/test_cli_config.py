"""`penstock config`, and the page of the docs that it makes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from command_line import CommandLine

from penstock.cli.config import settings_page
from penstock.settings import SETTINGS, Settings

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def test_every_setting_is_shown_with_value_and_source(penstock: CommandLine):
    (penstock.folder / "penstock.toml").write_text('tokens = ["s3cret", "0ther"]\nport = 9')
    environment = {"STREAM_MANAGER_SERVER_PORT": "10", "LOG_LEVEL": ""}
    result = penstock("config", env=environment)

    rows = {line.split()[0]: line for line in result.lines[1:]}
    assert list(rows) == list(SETTINGS)
    assert rows["port"].split() == ["port", "10", "variable", "STREAM_MANAGER_SERVER_PORT"]
    assert rows["log_level"].split() == ["log_level", "INFO", "default"]
    file = str(penstock.folder / "penstock.toml")
    assert rows["tokens"].split() == ["tokens", "2", "configured", "file", file]
    assert "s3cret" not in result.text


def test_json_gives_values_sources_and_never_a_token(penstock: CommandLine):
    result = penstock("config", "--json", env={"PENSTOCK_TOKENS": "s3cret"})

    assert list(result.json) == list(SETTINGS)
    assert result.json["port"] == {"value": 8088, "source": {"kind": "default", "name": ""}}
    assert result.json["frame_bytes_max"]["value"] == 67108864
    assert result.json["authenticate_client"]["value"] is None
    assert result.json["tokens"] == {
        "count": 1,
        "source": {"kind": "variable", "name": "PENSTOCK_TOKENS"},
    }
    assert "s3cret" not in result.text


def test_a_file_can_be_named(penstock: CommandLine):
    (penstock.folder / "other.toml").write_text("port = 77")
    result = penstock.succeeds("config", "--json", "--config", "other.toml")
    assert result.json["port"]["value"] == 77


def test_each_problem_is_a_line_of_its_own(penstock: CommandLine):
    result = penstock("config", env={"PENSTOCK_PROT": "1", "LOG_LEVEL": "LOUD"})
    assert (result.status, result.output) == (2, b"")
    lines = result.errors.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("penstock: ") for line in lines)
    assert 'Did you mean "PENSTOCK_PORT"?' in lines[0]


def test_a_warning_is_shown_and_is_no_error(penstock: CommandLine):
    result = penstock("config", env={"STREAM_MANAGER_AUTHENTICATE_CLIENT": "true"})
    assert result.status == 0
    assert "every client will be refused" in result.errors
    assert "authenticate_client" in result.text


def test_on_a_terminal_the_table_has_a_heading_and_fits(penstock: CommandLine):
    result = penstock.on_terminal("config")
    assert result.status == 0
    assert b"\x1b[1m" in result.output
    assert "jvm_args" in result.text


# --- the page -----------------------------------------------------------------------------------


def test_the_page_in_the_docs_is_up_to_date():
    assert DOCS.read_text() == settings_page(), "run `penstock config --docs > docs/settings.md`"


def test_the_command_prints_the_page(penstock: CommandLine):
    assert penstock.succeeds("config", "--docs").text == settings_page()


def test_the_page_has_every_key_variable_and_flag():
    page = settings_page()
    for setting in SETTINGS.values():
        assert f"\n## {setting.key}\n" in page
        assert f"`{setting.flag}`" in page
        for variable in setting.variables:
            assert f"`{variable}`" in page


def test_the_example_on_the_page_is_accepted(tmp_path):
    example = settings_page().partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "penstock.toml"
    path.write_text(example)
    loaded = Settings.load({}, {}, str(path))
    assert {key for key, source in loaded.sources.items() if source.kind == "file"} == set(
        tomllib.loads(example)
    )


@pytest.mark.parametrize("key", SETTINGS)
def test_serve_has_a_flag_for_every_setting(key):
    from penstock.cli.serve import serve

    assert SETTINGS[key].flag in {flag for option in serve.params for flag in option.opts}
