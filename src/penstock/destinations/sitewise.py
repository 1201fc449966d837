"""AWS IoT SiteWise: BatchPutAssetPropertyValue, one entry per message."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from penstock.destinations.aws import Denied, Service
from penstock.destinations.base import Batch, BatchLimits, Context, Delivery, Timeouts, Transient
from penstock.destinations.parts import RequestRefused, send_in_parts
from penstock.destinations.sitewise_entry import (
    ANSWERS,
    Checked,
    EntryErrors,
    Request,
    checked,
    in_window,
    parts_without_conflict,
)
from penstock.model import KIB, MIB, IoTSiteWiseConfig

RETRY_CODES = frozenset(
    (
        *("InternalFailureException", "ServiceUnavailableException", "ThrottlingException"),
        *("LimitExceededException", "ConflictingOperationException"),
    )
)
CONFLICT = "ConflictingOperationException"
DENIED = "AccessDeniedException"
CONTENT_CODES = frozenset(("InvalidRequestException", "SerializationException"))


class SiteWiseDestination:
    """All properties that the entries name.

    An entry that breaks a rule of the service is refused before anything is sent; so are values
    outside its time window, while the other values of their entry are delivered.
    """

    # The service counts entries and values, not bytes; no valid entry is larger than this.
    limits = BatchLimits(10, MIB, 256 * KIB)

    def __init__(
        self, config: IoTSiteWiseConfig, context: Context, *, timeouts: Timeouts | None = None
    ) -> None:
        self._target = f"SiteWise (export {config.identifier})"
        self._context = context
        # Numbers of messages whose entries met others in a request that we could not see as equal,
        # as an alias and the ids of the same property. They go alone.
        self._alone: frozenset[int] = frozenset()
        self._access_proven = False
        self._service = Service(
            "iotsitewise", self._target, refused_codes=CONTENT_CODES, timeouts=timeouts
        )

    def send(self, batch: Batch) -> Delivery:
        entries = self._within_window([checked(payload) for payload in batch.payloads])
        numbers = batch.sequence_numbers
        return send_in_parts(
            batch,
            self._context,
            lambda part: self._put(
                numbers[part.start : part.stop], entries[part.start : part.stop]
            ),
            parts_without_conflict(entries, [number in self._alone for number in numbers]),
        )

    def check(self) -> None:
        """A request without entries: whoever refuses only that has let us in."""
        try:
            self._service.call("batch_put_asset_property_value", entries=[])
        except RequestRefused:
            return

    def close(self) -> None:
        self._service.close()

    def _within_window(self, entries: list[Checked]) -> list[Checked]:
        """Refuse values outside the service's time window, by the service's own clock.

        A device's clock can be hours off after a start. It must not cost data that the service
        would take: if it objects, the service is asked.
        """
        local_s = time.time()
        if all(in_window(entry, local_s) is entry for entry in entries):
            return entries
        if not self._service.clock_is_known():
            self.check()
        return [in_window(entry, self._service.now_s()) for entry in entries]

    def _put(self, numbers: Sequence[int], entries: Sequence[Checked]) -> Delivery:
        """One request. Entries go under the numbers of their messages: those are unique."""
        outgoing = {
            str(number): msgspec.structs.replace(entry.entry, entry_id=str(number))
            for number, entry in zip(numbers, entries, strict=True)
            if entry.entry is not None
        }
        errors = self._errors(list(outgoing), Request(list(outgoing.values()))) if outgoing else {}
        retry: dict[int, str] = {}
        refused: dict[int, str] = {}
        for position, (number, entry) in enumerate(zip(numbers, entries, strict=True)):
            if found := errors.get(str(number)):
                fate = retry if found.codes() & RETRY_CODES else refused
                fate[position] = found.text()
            elif entry.refusal is not None:
                refused[position] = entry.refusal
        return Delivery(retry, refused)

    def _errors(self, entry_ids: list[str], request: Request) -> dict[str, EntryErrors]:
        """What the service did not take, by entry id."""
        answer = self._service.exchange(
            "batch_put_asset_property_value", msgspec.json.encode(request), entries=[]
        )
        try:
            found = ANSWERS.decode(answer).error_entries
        except msgspec.MsgspecError as error:
            raise Transient(f"{self._target}: the answer makes no sense: {error}") from error
        errors = {entry.entry_id: entry for entry in found}
        if unknown := errors.keys() - set(entry_ids):
            raise Transient(f"{self._target}: errors name unknown entries: {sorted(unknown)}")
        self._note_access(errors, len(entry_ids))
        self._alone = frozenset(int(id) for id in errors if CONFLICT in errors[id].codes())
        return errors

    def _note_access(self, errors: dict[str, EntryErrors], entry_count: int) -> None:
        """The service denies entry by entry. If it never allowed one, the policy is missing."""
        denied = [entry for entry in errors.values() if DENIED in entry.codes()]
        if len(denied) < entry_count:
            self._access_proven = True
        if denied and not self._access_proven:
            raise Denied(
                f"{self._target}: access is denied; allow iotsitewise:BatchPutAssetPropertyValue "
                f"({denied[0].text()})"
            )
