"""Steps 1 to 5: a cache that outlives its engine, and is shared by the next ones."""

from examples.demo.daemon import POOL_SIZE, wait_for
from examples.demo.engines import Answer
from examples.demo.stage import (
    AUTHOR,
    BLOCK_TOKENS,
    INDEPENDENCE,
    PLEDGE,
    Stage,
)


def start_daemon(stage: Stage) -> None:
    """Step 1."""
    stage.report.title(1, "kvstowd starts")
    with stage.bar("preparing the host pool"):
        info = stage.daemon.wait_ready()
    stage.report.say(
        f"kvstowd {info.version}: a pool of {POOL_SIZE}, policy {info.policy}, "
        f"copies by {info.copy_kernel} code"
    )


def read_cold(stage: Stage) -> Answer:
    """Step 2."""
    stage.report.title(2, "Engine 1 reads a document of about two thousand tokens")
    engine = stage.start_engine("engine 1")
    answer = stage.ask(engine, INDEPENDENCE)
    stage.report.claim(
        "nothing of it was cached anywhere", answer.local_tokens == answer.external_tokens == 0
    )
    all_ended, stored = engine.drain(), _ready_blocks(stage)
    # The answer's last token was never computed, so a block may be missing at the very end.
    computed = (answer.prompt_tokens + len(answer.tokens)) // BLOCK_TOKENS
    stage.report.claim(
        f"its blocks are in kvstow: {stored} of {engine.block_bytes / 1024:.0f} KiB",
        all_ended and answer.prompt_tokens // BLOCK_TOKENS <= stored <= computed,
    )
    return answer


def kill_engine(stage: Stage) -> None:
    """Step 3."""
    stage.report.title(3, "Engine 1 is killed with SIGKILL")
    before = _ready_blocks(stage)
    stage.engines.pop("engine 1").kill()
    wait_for(lambda: not stage.daemon.client.administration.sessions(), "its session has ended")
    stage.report.say("the daemon has seen it die, and ended its session")
    stage.report.claim("every block is still there", _ready_blocks(stage) == before)
    stage.report.claim("nothing is held for the dead engine", _nothing_held(stage))


def read_warm(stage: Stage, cold: Answer) -> None:
    """Step 4."""
    stage.report.title(4, "Engine 2, a new process, is asked the same")
    warm = stage.ask(stage.start_engine("engine 2"), INDEPENDENCE)
    reusable = (cold.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    stage.report.claim(
        f"all {reusable} tokens of full blocks came back from kvstow",
        (warm.local_tokens, warm.external_tokens) == (0, reusable),
    )
    stage.report.claim("the generated tokens are identical", warm.tokens == cold.tokens)
    ratio = cold.first_token_s / warm.first_token_s
    stage.report.say(
        f"first token: {cold.first_token_s:.2f} s cold, {warm.first_token_s:.2f} s warm: "
        f"{ratio:.1f} times as fast"
    )
    stage.report.figures["first_token"] = {
        "prompt_tokens": cold.prompt_tokens,
        "loaded_tokens": warm.external_tokens,
        "cold_s": cold.first_token_s,
        "warm_s": warm.first_token_s,
        "ratio": ratio,
        "answer": cold.text,
        "tokens_identical": warm.tokens == cold.tokens,
    }


def share(stage: Stage) -> Answer:
    """Step 5. Returns engine 2's answer about the second document."""
    stage.report.title(5, "Engine 3 runs beside engine 2, and they share")
    engine_2, engine_3 = stage.engines["engine 2"], stage.start_engine("engine 3")
    engine_2.begin_answer(AUTHOR)
    engine_3.begin_answer(PLEDGE)
    stored = stage.finish(engine_2, AUTHOR)
    loaded = stage.finish(engine_3, PLEDGE)
    stage.report.claim(
        "while engine 2 computed and stored one document, engine 3 loaded another",
        stored.external_tokens == 0 and loaded.external_tokens > loaded.prompt_tokens * 0.9,
    )
    engine_2.drain()
    shared = stage.ask(engine_3, AUTHOR)
    # The system prompt is the same in all questions, so its first block is in the engine already.
    stage.report.claim(
        "what engine 2 stored, engine 3 loads",
        shared.local_tokens <= BLOCK_TOKENS
        and shared.external_tokens > shared.prompt_tokens * 0.8,
    )
    stage.report.claim("both answer with identical tokens", shared.tokens == stored.tokens)
    stage.report.figures["sharing"] = {
        "loaded_tokens": loaded.external_tokens,
        "shared_tokens": shared.external_tokens,
        "tokens_identical": shared.tokens == stored.tokens,
    }
    return stored


def _ready_blocks(stage: Stage) -> int:
    return sum(space.ready_count for space in stage.daemon.client.administration.spaces())


def _nothing_held(stage: Stage) -> bool:
    administration = stage.daemon.client.administration
    return not administration.leases().total_count and not administration.transfers().total_count
