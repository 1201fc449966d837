"""What stands in for batches and bulk reads."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock import Message
from penstock.client.fallback import (
    PORTION_BYTES_MAX,
    PORTION_MESSAGES_MAX,
    blocks_of,
    portions,
)

payload_sizes = st.one_of(
    st.integers(1, 20), st.integers(1000, 100_000), st.just(PORTION_BYTES_MAX + 1)
)


@given(st.lists(payload_sizes, min_size=1, max_size=600))
def test_portions_hold_everything_in_order_and_keep_their_limits(sizes: list[int]) -> None:
    payloads = [bytes(size) for size in sizes]
    found = [list(portion) for portion in portions(payloads)]
    assert [payload for portion in found for payload in portion] == payloads
    for portion in found:
        assert 1 <= len(portion) <= PORTION_MESSAGES_MAX
        assert len(portion) == 1 or sum(map(len, portion)) <= PORTION_BYTES_MAX


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(-5, 2**40), st.binary(min_size=1, max_size=50)),
        max_size=30,
    )
)
def test_messages_become_intact_blocks_without_gaps(steps: list[tuple[int, int, bytes]]) -> None:
    messages: list[Message] = []
    sequence = 2**32 - 10  # so that the low half, which entries keep, starts over
    for step, time_ms, payload in steps:
        sequence += step
        messages.append(Message("s", sequence, time_ms, payload))
    blocks = blocks_of(messages)
    assert [message for block in blocks for message in block.messages("s")] == messages
    assert all(block.intact() for block in blocks)
    for block, following in pairwise(blocks):
        assert block.next_sequence < following.first_sequence
