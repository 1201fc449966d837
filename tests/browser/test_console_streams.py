"""Streams in a browser: looking, making, changing, deleting; and what surrounds every page."""

from __future__ import annotations

import signal

import pytest
from console_page import ConsolePage
from console_plant import MIB, ConsolePlant
from playwright.sync_api import expect

from penstock.model import (
    ExportDefinition,
    ExportFormat,
    HTTPConfig,
    IoTAnalyticsConfig,
    IoTSiteWiseConfig,
    KinesisConfig,
    MessageStreamDefinition,
    Persistence,
    S3ExportTaskExecutorConfig,
    StatusConfig,
    StatusLevel,
    StrategyOnFull,
)

ADDRESSES = {
    "streams": "#/streams",
    "stream": "#/streams/press-7-vibration",
    "exports": "#/exports",
    "dead-letters": "#/dead-letters",
    "messages": "#/messages/press-7-vibration",
    "transforms": "#/transforms",
    "health": "#/health",
}


@pytest.fixture(scope="module", autouse=True)
def machines(plant: ConsolePlant) -> None:
    plant.open_machines()
    plant.start_flow()


def test_streams_are_shown_as_they_grow(page: ConsolePage) -> None:
    page.open("#/streams")
    row = page.row("press-7-vibration")
    expect(row).to_contain_text("of 4 MiB")
    expect(row).to_contain_text("→ cloud")
    expect(page.row("oven-2-temperature")).to_contain_text("overwrites · 7 d")
    expect(page.row("oven-3-temperature")).to_contain_text("disk, synced")
    expect(page.row("scratch")).to_contain_text("memory")
    expect(page.row("line-4-events")).to_contain_text("rejects")
    expect(page.page.locator(".row-count")).to_have_text("8 streams")
    message_count = row.locator("td").nth(2)
    expect(message_count).not_to_have_text(message_count.inner_text())
    expect(row).to_contain_text("0 s ago")


def test_a_click_on_a_heading_sorts_and_says_so(page: ConsolePage) -> None:
    page.open("#/streams")
    expect(page.page.get_by_role("columnheader", name="Stream")).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.button("Size").click()
    expect(page.page.get_by_role("columnheader", name="Size")).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.button("Size").click()
    # The fullest one, in relation to what it may hold.
    expect(page.page.locator("tbody:not(.spacer) tr").first).to_contain_text("line-4-events")


def test_the_filter_keeps_rows_with_all_its_words(page: ConsolePage) -> None:
    page.open("#/streams")
    expect(page.row("scratch")).to_be_visible()
    page.page.keyboard.press("/")
    page.page.keyboard.type("sitewise 3")
    expect(page.page.locator(".row-count")).to_have_text("1 of 8 streams")
    expect(page.row("oven-3-temperature")).to_be_visible()
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".row-count")).to_have_text("8 streams")
    page.page.keyboard.type("nothing like it")
    expect(page.page.get_by_text("No stream fits the filter.")).to_be_visible()


def test_a_stream_is_created_with_every_kind_of_export(
    page: ConsolePage, plant: ConsolePlant
) -> None:
    page.open("#/streams")
    expect(page.row("scratch")).to_be_visible()
    page.page.keyboard.press("n")
    form = page.dialog()
    form.get_by_label("Name", exact=True).fill("made, by hand")
    form.get_by_label("Largest size", exact=True).fill("3")
    form.get_by_label("Largest size, unit").select_option("MiB")
    form.get_by_label("When full").select_option("Reject new data")
    form.get_by_label("Keep messages for", exact=True).fill("2")
    form.get_by_label("Keep messages for, unit").select_option("hours")
    form.get_by_label("Segment size", exact=True).fill("1")
    form.get_by_label("Sync every append").check()
    for kind in ("Kinesis", "SiteWise", "S3 tasks", "HTTP", "IoT Analytics"):
        page.button(f"Add an export to {kind}").click()
        part = form.get_by_role("group", name=f"Export to {kind}")
        part.get_by_label("Identifier").fill(kind.replace(" ", "").lower())
        part.get_by_label("Paused").check()
    form.get_by_label("Kinesis stream").fill("plant-7")
    kinesis = form.get_by_role("group", name="Export to Kinesis")
    kinesis.get_by_label("Batch size").fill("500")
    kinesis.get_by_label("Batch interval", exact=True).fill("5")
    kinesis.get_by_label("Priority").fill("2")
    form.get_by_label("Address").fill("http://127.0.0.1:9/in")
    form.get_by_label("Format").select_option("JSON, batched")
    form.get_by_label("Channel").fill("turbines")
    form.get_by_label("Status stream").fill("statuses")
    form.get_by_label("Status level").select_option("Warnings")
    page.keep("create-stream")
    assert page.nameless() == []
    assert page.low_contrasts() == []
    page.button("Create").click()

    page.toast("Stream made, by hand was created.")
    expect(page.page.get_by_role("heading", name="made, by hand", level=1)).to_be_visible()
    status = StatusConfig(StatusLevel.WARN, "statuses")
    assert plant.user.describe_message_stream(
        "made, by hand"
    ).definition == MessageStreamDefinition(
        "made, by hand",
        max_size=3 * MIB,
        stream_segment_size=MIB,
        time_to_live_millis=7_200_000,
        strategy_on_full=StrategyOnFull.RejectNewData,
        persistence=Persistence.File,
        flush_on_write=True,
        export_definition=ExportDefinition(
            http=[
                HTTPConfig(
                    "http",
                    "http://127.0.0.1:9/in",
                    disabled=True,
                    export_format=ExportFormat.JSON_BATCHED,
                )
            ],
            iot_analytics=[IoTAnalyticsConfig("iotanalytics", "turbines", disabled=True)],
            kinesis=[KinesisConfig("kinesis", "plant-7", 500, 300_000, 2, disabled=True)],
            iot_sitewise=[IoTSiteWiseConfig("sitewise", disabled=True)],
            s3_task_executor=[
                S3ExportTaskExecutorConfig("s3tasks", disabled=True, status_config=status)
            ],
        ),
    )
    plant.user.delete_message_stream("made, by hand")


def test_a_definition_that_is_refused_stays_in_its_form(page: ConsolePage) -> None:
    page.forgive("status of 400")
    page.open("#/streams")
    page.button("New stream").click()
    form = page.dialog()
    form.get_by_label("Name", exact=True).fill("brief")
    form.get_by_label("Keep messages for", exact=True).fill("5")
    form.get_by_label("Keep messages for, unit").select_option("seconds")
    page.button("Create").click()
    expect(form.get_by_role("alert")).to_contain_text("timeToLiveMillis: Expected `int` >= 60000")
    expect(form.get_by_label("Name", exact=True)).to_have_value("brief")


def test_an_edit_keeps_what_it_does_not_touch(page: ConsolePage, plant: ConsolePlant) -> None:
    # A size that JavaScript's numbers cannot hold.
    plant.open("vast", KinesisConfig("cloud", "plant-7", 17, priority=3), max_size=2**63 - 1)
    before = plant.user.describe_message_stream("vast").definition
    page.open("#/streams/vast")
    page.button("Edit").click()
    expect(page.dialog().get_by_label("Name", exact=True)).to_be_disabled()
    page.dialog().get_by_label("Kinesis stream").fill("plant-8")
    page.button("Save").click()
    page.toast("Stream vast was changed.")

    before.export_definition.kinesis[0].kinesis_stream_name = "plant-8"
    assert plant.user.describe_message_stream("vast").definition == before
    plant.user.delete_message_stream("vast")


def test_a_stream_is_deleted_once_its_name_is_typed(page: ConsolePage, plant: ConsolePlant) -> None:
    plant.open("useless")
    page.open("#/streams/useless")
    page.button("Delete").click()
    delete = page.button("Delete the stream")
    expect(delete).to_be_disabled()
    page.page.keyboard.type("usele")
    expect(delete).to_be_disabled()
    page.page.keyboard.type("ss")
    page.keep("delete-stream")
    delete.click()
    page.toast("Stream useless was deleted.")
    expect(page.page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
    expect(page.row("useless")).to_have_count(0)
    assert "useless" not in plant.user.list_streams()


def test_a_stream_shows_its_definition_and_its_exports(page: ConsolePage) -> None:
    page.open("#/streams/press-7-vibration")
    definition = page.page.get_by_role("region", name="Definition")
    expect(definition).to_contain_text("4 MiB (4,194,304 bytes)")
    export = page.page.get_by_role("region", name="Export cloud")
    expect(export).to_contain_text("Kinesis plant-7")
    plot = page.page.get_by_role("img", name="Messages appended to press-7-vibration per second")
    page.until("() => document.querySelectorAll('.plot-line').length === 2")
    plot.focus()
    page.page.keyboard.press("ArrowLeft")
    readout = page.page.locator(".plot-readout").first
    expect(readout).to_contain_text("appended")
    page.page.get_by_role("link", name="Messages").last.click()
    expect(page.page.get_by_role("heading", name="Messages", level=1)).to_be_visible()


def test_health_tells_of_server_disk_and_pipeline(page: ConsolePage, plant: ConsolePlant) -> None:
    assert plant.server.process is not None
    page.open("#/health")
    main = page.page.get_by_role("main")
    expect(main).to_contain_text(f"127.0.0.1:{plant.server.port}")
    expect(main).to_contain_text(str(plant.server.data_dir))
    expect(main).to_contain_text(str(plant.server.process.pid))
    expect(main).to_contain_text("external")
    expect(main).to_contain_text("--spark-ui")
    expect(main.get_by_role("link", name="/metrics")).to_have_attribute("href", "/metrics")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_can_be_read_and_heard(page: ConsolePage, theme: str) -> None:
    page.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.open("#/streams")
    for name, address in ADDRESSES.items():
        page.page.evaluate("address => { location.hash = address; }", address)
        expect(page.page.locator("main h1")).to_be_visible()
        page.until("() => document.querySelector('main :is(td, .tile-value, .fact dd)')")
        if name in ("exports", "stream"):
            page.until("() => document.querySelector(':is(.spark-line, .plot-line)[d]')")
        if name == "messages":
            page.until("() => document.querySelector('.payload')")
        page.keep(f"{name}-{theme}")
        assert page.nameless() == []
        assert page.low_contrasts() == []
        assert page.page.locator("h1").count() == 1
        assert page.page.locator("table:not(:has(caption))").count() == 0


def test_pages_fit_a_narrow_window(page: ConsolePage) -> None:
    page.page.set_viewport_size({"width": 1000, "height": 800})
    page.open("#/streams")
    for name, address in ADDRESSES.items():
        page.page.evaluate("address => { location.hash = address; }", address)
        page.until("() => document.querySelector('main :is(td, .tile-value, .fact dd)')")
        page.keep(f"{name}-narrow")
        wide = "() => document.documentElement.scrollWidth <= window.innerWidth"
        assert page.page.evaluate(wide), name


def test_the_chosen_colours_stay(page: ConsolePage) -> None:
    page.open("#/health")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(ground)
    page.button("Colours: as the system has it").click()
    page.button("Colours: light").click()
    dark = page.page.evaluate(ground)
    assert dark != light
    page.open("#/health")
    assert page.page.evaluate(ground) == dark
    page.button("Colours: dark").click()
    assert page.page.evaluate(ground) == light


def test_everything_can_be_reached_by_keys(page: ConsolePage) -> None:
    keyboard = page.page.keyboard
    page.open("#/streams")
    expect(page.row("scratch")).to_be_visible()
    keyboard.press("Tab")
    expect(page.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keyboard.press("Enter")
    expect(page.page.get_by_role("main")).to_be_focused()
    page.page.get_by_role("link", name="camera-files").focus()
    keyboard.press("ArrowDown")
    expect(page.page.get_by_role("link", name="conveyor-speed")).to_be_focused()
    keyboard.press("End")
    expect(page.page.get_by_role("link", name="scratch")).to_be_focused()
    keyboard.press("Enter")
    expect(page.page.get_by_role("heading", name="scratch", level=1)).to_be_focused()
    keyboard.press("g")
    keyboard.press("e")
    expect(page.page.get_by_role("heading", name="Exports", level=1)).to_be_focused()
    keyboard.press("?")
    expect(page.dialog()).to_contain_text("go to the filter")
    keyboard.press("Escape")
    expect(page.dialog()).to_have_count(0)


def test_a_lost_connection_is_told_and_found_again(page: ConsolePage, plant: ConsolePlant) -> None:
    page.forgive("ERR_CONNECTION_REFUSED")
    page.forgive("ERR_INCOMPLETE_CHUNKED_ENCODING")
    page.open("#/streams")
    side = page.page.locator(".connection")
    expect(side).to_have_text("Live")
    plant.kill_console()
    banner = page.page.locator("#banner")
    expect(banner).to_contain_text("The connection to the console is lost")
    page.keep("no-console")
    expect(side).to_have_text("Live", timeout=20_000)
    expect(banner).to_be_hidden()


def test_a_server_that_does_not_answer_is_told(page: ConsolePage, plant: ConsolePlant) -> None:
    assert plant.server.process is not None
    page.open("#/streams")
    expect(page.page.locator(".connection")).to_have_text("Live")
    plant.server.process.send_signal(signal.SIGSTOP)
    try:
        banner = page.page.locator("#banner")
        expect(banner).to_contain_text("The server cannot be reached", timeout=20_000)
        page.keep("no-server")
        # A page that is opened meanwhile has nothing to show, and says why.
        page.open("#/streams")
        expect(banner).to_contain_text("The server cannot be reached", timeout=20_000)
    finally:
        plant.server.process.send_signal(signal.SIGCONT)
    expect(banner).to_be_hidden(timeout=20_000)
