"""What the commands print fits the screen: numbers are whole, and what is left out is named."""

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType

from kvstow.cli import misses, tables, top, why
from kvstow.cli.fates import KeyFate
from kvstow.cli.listing import NAME, NUMBER, PROSE, Listing, Sentence
from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2, reset_pb2, transfer_pb2

MANY = 1234567890123
LONG = "an-organisation/a-model-with-a-long-name-and-a-size-of-70B-Instruct"
IDENTITY = identity_pb2.Identity(model=LONG, tenant="a tenant", weights_version="2026-11-30")
IDENTITY.layout.world_size = 1
IDENTITY.layout.groups.add(segment_bytes=[1000])
SPACE = admin_pb2.Space(
    space_id=4096,
    identity=IDENTITY,
    generation=1234,
    session_count=4095,
    ready_count=12345678,
    writing_count=8765432,
    draining_generations=[1],
    counters=admin_pb2.SpaceCounters(
        lookups=MANY, hit_count=MANY, missed_count=77, stored_count=MANY, loaded_count=MANY + 1,
        evicted_count=MANY + 2,
    ),
)  # fmt: skip
SESSION = admin_pb2.Session(
    session_id=MANY, name=LONG, space_id=4096, age_s=9e5, attached_ranks=range(1000),
    transfer_count=4001, lease_count=4002, held_count=12345678, unacknowledged_count=1023,
)  # fmt: skip
TRANSFER = admin_pb2.Transfer(
    session_id=MANY, transfer_id=98765432109, kind=transfer_pb2.TRANSFER_KIND_STORE,
    state=transfer_pb2.TRANSFER_STATE_RUNNING, abandoned=True, overdue=True, age_s=86399,
    block_count=8192, space_id=4096, generation=1234, session_name=LONG, unfinished_ranks=[0, 7],
)  # fmt: skip
TRANSFERS = admin_pb2.ListTransfersResponse(transfers=[TRANSFER], total_count=1)
SLOTS = admin_pb2.SlotStats(
    slot_bytes=1000 << 10, extents=16384, slot_count=12345678, free_count=2345678,
    evictable_count=3456789, held_count=4567891, writing_count=5678912, quarantined_count=6789123,
    zeroing_count=7891234,
)  # fmt: skip
STATS = admin_pb2.GetStatsResponse(pool_bytes=1000 << 30, free_extents=16383, slots=[SLOTS])
INFO = cache_pb2.GetServerInfoResponse(
    boot_id="b", state=cache_pb2.SERVER_STATE_READY, version="1.22.333", uptime_s=86399
)
RESET = reset_pb2.ResetResult(
    generation=1234, dropped_count=MANY, ended_count=4095, abandoned_stores=4096, abandoned_loads=4097
)  # fmt: skip
MISS = admin_pb2.Miss(
    key=bytes(64), group=63, hit_count=12345, key_count=123456, age_s=86399, lookup_count=MANY,
    fate=admin_pb2.KEY_FATE_RECLAIMED, fate_age_s=86399, generation=1234,
)  # fmt: skip
LISTINGS: dict[str, Callable[[], RenderableType]] = {
    "spaces": lambda: tables.spaces_table([SPACE]),
    "sessions": lambda: tables.sessions_table([SESSION]),
    "transfers": lambda: tables.transfers_table(TRANSFERS),
    "stuck": lambda: tables.stuck_table(TRANSFERS),
    "pool": lambda: tables.pool_table(STATS),
    "reset": lambda: tables.resets_table({4096: RESET}),
    "settings": lambda: tables.settings_table(
        [admin_pb2.Setting(name="socket", value="/a/path" * 20, source="environment")], every=True
    ),
    "top": lambda: top.screen(look(10, 0), look(11, 1 << 30)),
    "misses": lambda: misses.missed_table(SPACE, [MISS]),
    "why-miss": lambda: why.explanation(
        [bytes(64), bytes(32)], [KeyFate("evicted", 86399, 3), KeyFate("unknown", 0, 4)], 86399
    ),
}


def look(at: float, moved: int) -> top.Look:
    """A daemon that moves bytes."""
    stats = admin_pb2.GetStatsResponse(stored_bytes=moved, loaded_bytes=moved)
    stats.MergeFrom(STATS)
    oldest = admin_pb2.ListTransfersResponse(total_count=4000, transfers=[TRANSFER])
    return top.Look(at, INFO, {4096: SPACE}, 4095, oldest, 3999, stats)


def printed(what: RenderableType, width: int) -> list[str]:
    """The lines on a screen of that width."""
    out = io.StringIO()
    Console(file=out, width=width).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def numbers(lines: list[str]) -> set[str]:
    """All numbers of at least two digits, with whatever touches them; not those in names, paths and keys."""
    words = re.findall(r"\S*\d\d\S*", "\n".join(lines))
    return {word for word in words if not word.startswith((LONG[:8], "0000")) and "/" not in word}


@pytest.mark.parametrize("name", LISTINGS)
@pytest.mark.parametrize("width", [80, 120])
def test_no_number_is_cut(name: str, width: int) -> None:
    here = printed(LISTINGS[name](), width)
    assert max(map(len, here)) <= width
    assert numbers(here) <= numbers(printed(LISTINGS[name](), 400))


@pytest.mark.parametrize("name", LISTINGS)
def test_a_wide_screen_shows_everything(name: str) -> None:
    assert "not shown" not in "\n".join(printed(LISTINGS[name](), 400))


def listing() -> Listing:
    found = Listing(
        "a title that is longer than the table",
        {"id": NUMBER, "name": NAME, "count": NUMBER, "rest": NUMBER},
        spare=("rest", "count"),
    )
    found.add_row("1", "a-name-of-twenty-two-x", "123456", "98765432")
    return found


def test_a_title_is_not_broken_by_a_narrow_table() -> None:
    found = Listing("a title that is longer than the table", {"n": NUMBER})
    found.add_row("1")
    assert printed(found, 80) == ["a title that is longer than the table", "n", "1"]


def test_names_are_shortened_before_columns_are_left_out() -> None:
    assert printed(listing(), 80)[-1].split() == [
        "1",
        "a-name-of-twenty-two-x",
        "123456",
        "98765432",
    ]
    assert printed(listing(), 36)[-1].split() == ["1", "a-name-of-twe…", "123456", "98765432"]


def test_the_most_dispensable_column_is_left_out_first_and_named() -> None:
    found = Listing(
        "", {"n": NUMBER, "name": NAME, "count": NUMBER, "rest": NUMBER}, spare=("rest", "count")
    )
    found.add_row("1", "a" * 20, "1" * 26, "2" * 20)
    *_, row, said = printed(found, 60)
    assert row.split() == ["1", "a" * 20, "1" * 26]
    assert said == "not shown for lack of width: rest"
    *_, row, said = printed(found, 41)
    assert row.split() == ["1", "a" * 20]
    assert said == "not shown for lack of width: rest, count"


def test_prose_is_broken_between_words() -> None:
    found = Listing("", {"n": NUMBER, "why": PROSE})
    found.add_row("1", "because of this and because of that and so on")
    _, *lines = printed(found, 28)
    assert [len(line) <= 28 for line in lines] == [True] * len(lines)
    assert " ".join(line[2:].strip() for line in lines).split()[-3:] == ["and", "so", "on"]


def test_a_sentence_is_broken_between_its_parts() -> None:
    sentence = Sentence("one two,", "three four,", "five six")
    assert printed(sentence, 80) == ["one two, three four, five six"]
    assert printed(sentence, 21) == ["one two, three four,", " five six"]
    assert printed(sentence, 12) == ["one two,", " three four,", " five six"]


def test_slots_that_are_to_be_zeroed_are_shown_where_there_are_some() -> None:
    stats = admin_pb2.GetStatsResponse(slots=[admin_pb2.SlotStats(slot_count=2, free_count=2)])
    assert "zeroing" not in "".join(printed(tables.pool_table(stats), 200))
    stats.slots[0].zeroing_count = 77
    assert "zeroing" in "".join(printed(tables.pool_table(stats), 200))
    assert "77" in "".join(printed(tables.pool_table(stats), 200))
