"""Step 6: a reset while a store is in flight."""

from collections.abc import Iterable, Sequence
from functools import partial

from examples.demo.daemon import wait_for
from examples.demo.engines import Answer, EngineProcess, Question
from examples.demo.stage import AUTHOR, IN_FLIGHT, INDEPENDENCE, Stage
from kvstow.v1 import admin_pb2, reset_pb2

_QUESTIONS = (INDEPENDENCE, AUTHOR, IN_FLIGHT)


def reset_in_flight(stage: Stage, before: Answer) -> None:
    """Step 6.

    Args:
        before: Engine 2's answer to AUTHOR, before the reset.
    """
    stage.report.title(6, "The space is reset while a store is held in flight")
    engine_2, engine_3 = stage.engines["engine 2"], stage.engines["engine 3"]
    fault = stage.daemon.hold_stores(engine_3.session)
    stage.ask(engine_3, IN_FLIGHT)
    stage.daemon.wait_held(fault)
    held = stage.daemon.client.administration.transfers().transfers
    result = _reset(stage, held)
    in_daemon = [engine_3.count(question)[1] for question in _QUESTIONS]
    stage.report.claim("at once, nothing from before is found in kvstow", not any(in_daemon))
    for engine in (engine_2, engine_3):
        wait_for(partial(_heard, engine, "SpaceReset"), f"{engine.name} hears of the reset")
    stage.report.claim(
        "nor in the engines, which heard of the reset", _found(stage, _QUESTIONS) == 0
    )
    again = stage.ask(engine_2, AUTHOR)
    stage.report.claim(
        "engine 2 has to compute it again, and generates identical tokens",
        again.external_tokens == again.local_tokens == 0 and again.tokens == before.tokens,
    )
    _claim_quarantine(stage, engine_3, result)
    stage.daemon.release(fault)
    reports = _claim_reports(stage, engine_3, len(held))
    stage.report.claim("what was copied is found by nobody", _found(stage, [IN_FLIGHT]) == 0)
    _claim_no_leak(stage)
    stage.report.figures["reset"] = {
        "dropped_blocks": result.dropped_count,
        "abandoned_stores": result.abandoned_stores,
        "abandoned_reports": reports,
        "loaded_tokens_after": again.external_tokens,
    }


def _reset(stage: Stage, held: Sequence[admin_pb2.Transfer]) -> reset_pb2.ResetResult:
    """Reset the one space there is, as an administrator who has put new weights in place."""
    administration = stage.daemon.client.administration
    (space,) = administration.spaces()
    result = administration.reset_space(space.space_id)
    blocks = sum(transfer.block_count for transfer in held)
    stage.report.say(
        f"engine 3 has {_stores(len(held))} of {blocks} blocks in flight; the reset dropped "
        f"{result.dropped_count} blocks and began generation {result.generation}"
    )
    stage.report.claim(
        "the reset did not wait for the copy",
        not result.drained
        and result.abandoned_stores > 0
        and result.abandoned_stores + result.ended_count == len(held),
    )
    stage.report.claim(
        f"it dropped all {space.ready_count} blocks that were there",
        result.dropped_count == space.ready_count,
    )
    return result


def _found(stage: Stage, questions: Iterable[Question]) -> int:
    """Blocks that the engines find for these questions, in the daemon and in themselves."""
    return sum(
        sum(engine.count(question)) for engine in stage.engines.values() for question in questions
    )


def _claim_quarantine(stage: Stage, engine: EngineProcess, result: reset_pb2.ResetResult) -> None:
    administration = stage.daemon.client.administration
    running = administration.transfers().transfers
    quarantined = sum(slots.quarantined_count for slots in administration.stats().slots)
    stage.report.claim(
        f"until the copy ends its {quarantined} slots are nobody else's",
        len(running) == result.abandoned_stores
        and all(transfer.abandoned for transfer in running)
        and quarantined == sum(transfer.block_count for transfer in running),
    )
    stage.report.claim(
        "and it has no report yet", engine.report()["unfinished"] == result.abandoned_stores
    )


def _claim_reports(stage: Stage, engine: EngineProcess, held_count: int) -> int:
    """Wait for the end of the held copies; returns how many reports of abandoned ones came."""
    engine.drain()
    wait_for(partial(_heard, engine, "ResetDrained"), "the reset has drained")
    report = engine.report()
    abandoned: int = report["ended"].get("abandoned", 0)
    stage.report.say("the copy is let go, and ends")
    stage.report.claim(
        f"{_stores(held_count)} abandoned, {abandoned} reported as ABANDONED",
        abandoned == held_count,
    )
    stage.report.claim(
        "every transfer of engine 3 was reported exactly once",
        sum(report["ended"].values()) == report["stores"] + report["loads"]
        and report["ignored_reports"] == report["unfinished"] == 0,
    )
    stage.report.claim("ResetDrained came once", _heard(engine, "ResetDrained") == 1)
    return abandoned


def _claim_no_leak(stage: Stage) -> None:
    administration = stage.daemon.client.administration
    slots = administration.stats().slots
    ready = sum(space.ready_count for space in administration.spaces())
    free = sum(size.free_count for size in slots)
    total = sum(size.slot_count for size in slots)
    stage.report.claim(
        f"nothing leaked: {free} free slots and {ready} blocks make {total}",
        free + ready == total
        and ready == sum(size.evictable_count for size in slots)
        and not administration.leases().total_count
        and not administration.transfers().total_count,
    )
    administration.check_ledger()
    stage.report.claim("the daemon has verified its books", True)


def _stores(count: int) -> str:
    return f"{count} store" if count == 1 else f"{count} stores"


def _heard(engine: EngineProcess, event: str) -> int:
    """How often an engine's session heard of this."""
    count: int = engine.report()["events"].get(event, 0)
    return count
