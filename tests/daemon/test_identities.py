"""What the log says about spaces."""

from dataclasses import replace

import structlog
from structlog.testing import capture_logs

from kvstow.server.core.types import Group
from kvstow.server.daemon.identities import block_counts, differences
from support.daemons import Rig, running_daemon
from support.engine import ONE_RANK, Engine, identity


def test_the_fields_that_differ_are_named_with_both_values() -> None:
    one = identity()
    other = replace(
        one,
        weights_version="v2",
        layout=replace(ONE_RANK, dtype="bfloat16", groups=(Group((512, 256)), Group((64,)))),
        key_scheme=replace(one.key_scheme, fingerprint=b"\x01\xff"),
    )
    assert differences(one, other) == [
        "weights_version:  and v2",
        "layout.dtype: float32 and bfloat16",
        "layout.groups[0].segment_bytes[1]: 512 and 256",
        "layout.groups[1].segment_bytes[0]: none and 64",
        "layout.groups[1].replicated: none and False",
        "key_scheme.fingerprint:  and 01ff",
    ]
    assert differences(one, identity()) == []


def test_of_very_many_differences_the_first_are_named() -> None:
    one, other = (
        identity(replace(ONE_RANK, groups=(Group((size_bytes,) * 100),))) for size_bytes in (8, 16)
    )
    assert differences(one, other) == [
        *(f"layout.groups[0].segment_bytes[{number}]: 8 and 16" for number in range(8)),
        "and more",
    ]


def test_the_blocks_of_a_pool_are_counted_by_whole_extents() -> None:
    assert block_counts(ONE_RANK, pool_bytes=10_000, extent_bytes=2500) == (8,)


def test_whose_freed_slots_are_zeroed_is_logged() -> None:
    """A tenant whose name is misspelt in the settings would not be found out otherwise."""
    structlog.configure()
    with running_daemon(zero_freed="blue") as rig, capture_logs() as lines:
        Engine(rig.daemon, rig.place, identity(tenant="blue"))
        Engine(rig.daemon, rig.place, identity(tenant="red"))
    opened = [line for line in lines if line["event"] == "space opened"]
    assert [(line["tenant"], line["zero_freed"]) for line in opened] == [
        ("blue", True),
        ("red", False),
    ]


def test_a_second_space_of_a_model_is_logged_with_what_separates_it(rig: Rig) -> None:
    structlog.configure()
    with capture_logs() as lines:
        Engine(rig.daemon, rig.place, identity(tenant="blue"))
        Engine(rig.daemon, rig.place, identity(tenant="blue"))
        Engine(rig.daemon, rig.place, identity(tenant="red"))
        Engine(rig.daemon, rig.place, identity(model="another"))
    opened = [line for line in lines if line["event"] == "space opened"]
    assert [line["model"] for line in opened] == ["model", "model", "another"]
    assert opened[0]["block_bytes"] == (1024,)
    assert opened[0]["blocks_if_alone"] == (8,)
    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert warning["differs_in"] == ["tenant: red and blue"]
