"""Ranks that share bytes are found, whatever else they have attached."""

from collections.abc import Sequence
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.server.core.errors import RegionInvalid
from kvstow.server.core.types import SessionId
from kvstow.server.daemon.attachments import Attachments, MappedMemory
from kvstow.server.device.base import Device, Origin
from kvstow.server.device.handles import HOST
from kvstow.server.device.host import HostRegion

SESSION = SessionId(1)
origins = st.builds(
    lambda inode, start, size: Origin((1, inode), start, start + size),
    st.integers(1, 2),
    st.integers(0, 20),
    st.integers(1, 6),
)


def share(one: Origin, other: Origin) -> bool:
    return one.memory == other.memory and one.start < other.end and other.start < one.end


def memory(found: Sequence[Origin]) -> MappedMemory:
    regions = [HostRegion(part.end - part.start, part) for part in found]
    return MappedMemory(HOST, regions, (), ())


@settings(deadline=None)
@given(st.lists(st.lists(origins, max_size=3), max_size=3), st.lists(origins, max_size=3))
def test_a_rank_is_refused_if_and_only_if_it_shares_bytes_with_another(
    others: list[list[Origin]], mine: list[Origin]
) -> None:
    attachments = Attachments(mock.create_autospec(Device), lambda: None)
    for rank, found in enumerate(others):
        attachments.enter(SESSION, rank, memory(found), None)
    shared = any(share(a, b) for found in others for a in found for b in mine)
    try:
        attachments.check_apart(SESSION, len(others), memory(mine))
    except RegionInvalid as refused:
        facts = {name: int(value) for name, value in refused.facts.items()}
        assert facts["rank"] == len(others)
        assert share(mine[facts["region"]], others[facts["other_rank"]][facts["other_region"]])
    else:
        assert not shared
