"""What the log says when something happens that somebody will ask about."""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from support.daemons import Rig
from support.engine import Engine, keys
from support.waiting import wait_for

Lines = Sequence[MutableMapping[str, Any]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    structlog.configure()
    with capture_logs() as found:
        yield found


def logged(lines: Lines, event: str) -> list[MutableMapping[str, Any]]:
    return [line for line in lines if line["event"] == event]


def test_who_reset_is_said(rig: Rig, lines: Lines) -> None:
    engine = Engine(rig.daemon, rig.place)
    rig.daemon.reset(engine.session, 0.0)
    (session,) = rig.daemon.snapshot().sessions
    rig.daemon.reset_space(session.space, 0.0)
    rig.daemon.reset_all(0.0)
    resets = logged(lines, "space reset")
    assert [line["by"] for line in resets] == [
        f"session {engine.session}",
        "an administrator",
        "an administrator",
    ]
    assert [line["generation"] for line in resets] == [2, 3, 4]


def test_a_session_whose_stream_was_lost_has_the_cause_that_the_metric_has(
    rig: Rig, lines: Lines
) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.stream.close()
    wait_for(lambda: not rig.daemon.snapshot().sessions[0].streaming, "the loss of the stream")
    rig.clock.advance(60)
    wait_for(lambda: logged(lines, "session ended"), "the line")
    (line,) = logged(lines, "session ended")
    assert (line["session"], line["cause"]) == (engine.session, "stream_lost")


def test_a_transfer_past_its_deadline_is_logged_with_where_to_look(rig: Rig, lines: Lines) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    engine.fill(keys(1), [0])
    held = engine.begin_store_groups({0: (keys(1), [0])}, deadline_s=5)
    rig.wait_held(1)
    rig.clock.advance(6)
    wait_for(lambda: [line for line in lines if "deadline" in line["event"]], "the line")
    (line,) = (line for line in lines if "deadline" in line["event"])
    assert (line["transfer"], line["look_at"]) == (held.transfer, "kvstow transfers --stuck")
    let_go()
    engine.ended(held.transfer)
