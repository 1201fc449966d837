"""Exports, dead letters, messages and transforms in a browser, while data flows."""

from __future__ import annotations

import json
import time

import pytest
from console_page import ConsolePage
from console_plant import ConsolePlant, delivers, fails, refuses
from playwright.sync_api import expect

from penstock.model import HTTPConfig, KinesisConfig

MARKUP = b'<img src=x onerror="alert(1)"><script>alert(2)</script>'


@pytest.fixture(scope="module", autouse=True)
def machines(plant: ConsolePlant) -> None:
    plant.open_machines()
    plant.start_flow()


def open_refused(plant: ConsolePlant, name: str, *payloads: bytes) -> None:
    """A stream whose messages are all refused."""
    plant.rules[name, "cloud"] = refuses("<b>no such</b> stream in Kinesis", least=0, every=1)
    plant.open(name, KinesisConfig("cloud", "plant-7"))
    plant.user.append_messages(name, list(payloads))


def test_states_are_words_and_not_only_colours(page: ConsolePage) -> None:
    page.open("#/exports")
    expect(page.row("press-7-alerts").locator(".badge")).to_contain_text("backing off")
    expect(page.row("camera-files").locator(".badge")).to_contain_text("blocked")
    expect(page.row("conveyor-speed").locator(".badge")).to_contain_text("paused")
    page.page.get_by_label("Trouble").check()
    expect(page.row("camera-files")).to_be_visible()
    expect(page.row("conveyor-speed")).to_have_count(0)


def test_an_error_is_told_in_full_with_a_countdown(page: ConsolePage, plant: ConsolePlant) -> None:
    reason = "the collector answered 503 to " + "a very long request " * 20
    plant.rules["failing", "collector"] = fails(reason, 40)
    plant.open("failing", HTTPConfig("collector", "http://127.0.0.1:9/in"))
    plant.user.append_message("failing", b"{}")
    page.open("#/exports")
    note = page.row("failing").get_by_role("button", name="again in")
    first = note.inner_text()
    page.until(
        """before => [...document.querySelectorAll(".note-button")]
             .some((each) => each.textContent.includes("503") && each.innerText !== before)""",
        first,
    )
    note.click()
    expect(page.dialog().locator("pre")).to_have_text(reason)
    expect(page.dialog()).to_contain_text("Failed tries since the last success")
    page.keep("error")


def test_an_export_is_paused_and_resumed(page: ConsolePage, plant: ConsolePlant) -> None:
    plant.open("steady", KinesisConfig("cloud", "plant-7"))
    page.open("#/exports")
    page.button("Pause cloud of steady").click()
    page.toast("Export cloud of steady is paused.")
    expect(page.row("steady").locator(".badge")).to_contain_text("paused")
    plant.user.append_message("steady", b"waits")
    expect(page.row("steady")).to_contain_text("5 B")
    page.button("Resume cloud of steady").click()
    page.toast("Export cloud of steady goes on.")
    expect(page.row("steady").locator(".badge")).to_contain_text("idle")
    page.open("#/streams/steady")
    page.button("Pause").click()
    expect(page.button("Resume")).to_be_visible()
    (config,) = plant.user.describe_message_stream("steady").definition.export_definition.kinesis
    assert config.disabled


def test_lag_is_plotted_with_values_under_the_pointer_and_as_a_table(page: ConsolePage) -> None:
    page.open("#/exports")
    page.button("Plot the lag of conveyor-speed, export cloud").click()
    plot = page.page.get_by_role("img", name="Lag in messages of conveyor-speed, export cloud")
    page.until("() => document.querySelector('.dialog .plot-line')?.getAttribute('d').length > 30")
    box = plot.bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + box["width"] - 16, box["y"] + box["height"] / 2)
    readout = page.dialog().locator(".plot-readout")
    expect(readout).to_contain_text("· lag ")
    page.dialog().get_by_text("Values as a table").click()
    expect(page.dialog().get_by_role("columnheader", name="lag")).to_be_visible()
    newest = page.dialog().locator("tbody tr").first.locator("td")
    assert int(newest.inner_text().replace(",", "")) > 0
    page.keep("plot")
    assert page.nameless() == []
    assert page.low_contrasts() == []
    page.dialog().get_by_label("Bytes").check()
    expect(newest).to_contain_text("B")
    page.dialog().get_by_label("Rates").check()
    expect(page.dialog().get_by_role("columnheader", name="appended")).to_be_visible()


def test_dead_letters_are_read_replayed_and_purged(page: ConsolePage, plant: ConsolePlant) -> None:
    payloads = (b'{"n": 12345678901234567890, "a": [1, {}]}', b"\x00\xff\x10", MARKUP)
    open_refused(plant, "refused", *payloads)
    page.open("#/exports")
    page.row("refused").get_by_role("link", name="3 dead letters of refused, cloud").click()
    rows = page.page.locator("tr[data-id]")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("<b>no such</b> stream in Kinesis")

    payload = page.page.locator("pre.payload")
    rows.nth(0).get_by_role("button").click()
    # Digits that parsing would round are as they were sent.
    expect(payload).to_contain_text('"n": 12345678901234567890,')
    rows.nth(1).get_by_role("button").click()
    expect(payload).to_contain_text("000000  00 ff 10")
    rows.nth(2).get_by_role("button").click()
    expect(payload).to_have_text(MARKUP.decode())
    page.page.get_by_label("Hex").check()
    expect(payload).to_contain_text("3c 69 6d 67 20")
    page.keep("dead-letters")

    plant.rules["refused", "cloud"] = delivers
    page.button("Replay this").click()
    page.button("Replay").click()
    page.toast("1 dead letter will be sent again.")
    expect(rows).to_have_count(2)

    rows.nth(0).get_by_role("checkbox").check()
    page.button("Purge 1 chosen").click()
    page.button("Purge").click()
    page.toast("1 dead letter purged.")
    expect(rows).to_have_count(1)

    page.button("Purge all").click()
    expect(page.dialog()).to_contain_text("All dead letters of refused, cloud")
    page.button("Purge").click()
    expect(page.page.get_by_text("There are no dead letters here")).to_be_visible()
    assert plant.user.find_dead_letters("refused") == []


def test_dead_letters_come_by_themselves_and_go_all_at_once(
    page: ConsolePage, plant: ConsolePlant
) -> None:
    open_refused(plant, "refused-again", b"first")
    page.open("#/dead-letters?stream=refused-again&export=cloud")
    rows = page.page.locator("tr[data-id]")
    expect(rows).to_have_count(1)
    plant.user.append_message("refused-again", b"second")
    expect(rows).to_have_count(2)
    reasons = page.page.get_by_label("Filter by reason")
    reasons.fill("NO kinesis such")
    expect(page.button("Purge 2 shown")).to_be_visible()
    reasons.fill("throttled")
    expect(page.page.get_by_text("No reason fits the filter.")).to_be_visible()
    expect(page.button("Purge 0 shown")).to_be_disabled()
    reasons.fill("")
    plant.rules["refused-again", "cloud"] = delivers
    page.button("Replay all").click()
    page.button("Replay").click()
    page.toast("2 dead letters will be sent again.")
    expect(rows).to_have_count(0)


def test_messages_are_found_by_number_and_by_time(page: ConsolePage, plant: ConsolePlant) -> None:
    plant.open("diary")
    plant.user.append_messages("diary", [f"page {number}".encode() for number in range(120)])
    # Times of the page have seconds, so the rest comes in a later one.
    later_s = int(time.time()) + 1
    time.sleep(later_s - time.time())
    plant.user.append_messages("diary", [json.dumps({"page": 120}).encode(), MARKUP])

    page.open("#/messages/diary")
    current = page.page.locator("tr[aria-current]")
    payload = page.page.locator("pre.payload")
    expect(current).to_contain_text("121")
    expect(payload).to_have_text(MARKUP.decode())
    expect(page.button("Newer")).to_be_disabled()
    page.button("Older").click()
    expect(page.page.locator("tr[data-number]").first).to_contain_text("page 22")
    page.page.get_by_label("Go to number").fill("7")
    page.page.keyboard.press("Enter")
    expect(current).to_contain_text("page 7")
    page.button("Newer").click()
    expect(current).to_contain_text("page 57")
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(later_s))
    page.page.get_by_label("Go to time").fill(clock)
    page.page.keyboard.press("Enter")
    first = page.page.locator("tr[data-number]").first
    expect(first).to_contain_text('{"page": 120}')
    first.get_by_role("button").click()
    expect(payload).to_have_text('{\n  "page": 120\n}')
    page.page.keyboard.press("ArrowDown")
    expect(payload).to_have_text(MARKUP.decode())
    page.button("Newest").click()
    expect(page.page.locator("tr[data-number]")).to_have_count(50)


def test_a_large_message_is_shown_in_part_and_downloaded_whole(
    page: ConsolePage, plant: ConsolePlant
) -> None:
    large = bytes(range(256)) * 400
    plant.open("pictures")
    plant.user.append_message("pictures", large)
    page.open("#/messages/pictures")
    expect(page.page.get_by_text("the first 64 KiB of 100 KiB")).to_be_visible()
    whole = page.download(page.page.get_by_role("link", name="Download").click)
    assert whole == large


def test_messages_of_a_stream_that_is_not_there_say_so(page: ConsolePage) -> None:
    page.forgive("status of 404")
    page.open("#/messages/nothing")
    expect(page.page.locator("main .empty").first).to_contain_text("nothing")


def test_a_transform_tells_its_trouble_and_begins_again(
    page: ConsolePage, plant: ConsolePlant
) -> None:
    page.open("#/transforms")
    row = page.row("archive")
    expect(row.locator(".badge")).to_contain_text("backing off")
    expect(row).to_contain_text("again in")
    expect(page.row("minutes")).to_contain_text("18.2K")
    row.get_by_role("button", name="again in").click()
    expect(page.dialog().locator("pre")).to_contain_text("No space left on device")
    page.page.keyboard.press("Escape")
    page.button("Reset archive").click()
    page.page.get_by_label("Begin at").select_option("the next message that comes")
    page.button("Reset the transform").click()
    page.toast("archive begins again at latest, generation 2.")
    generations = {view.name: view.generation for view in plant.user.describe_transforms()}
    assert generations["archive"] == 2
