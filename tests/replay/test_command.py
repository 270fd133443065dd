"""The command `kvstow replay`."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kvstow.cli.app import app
from replay.traces import BLOCK_TOKENS, json_lines, line

BLOCK_BYTES = BLOCK_TOKENS * 1024

PROMPTS = ([1, 2], [1, 2, 3], [4, 5], [1, 2, 3])
"""Ten blocks, five of them different: a pool for four finds [1, 2] at first, and [1] in the end."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "[bold] trace.jsonl"
    lines = [line(ids, timestamp=1000 * at) for at, ids in enumerate(PROMPTS)]
    path.write_bytes(json_lines(lines))
    return path


def run(*words: str | Path) -> Result:
    """Run the command on blocks of BLOCK_BYTES, unless `words` say otherwise."""
    command = ["replay", "--block-tokens", str(BLOCK_TOKENS), "--bytes-per-token", "1KiB"]
    return CliRunner().invoke(app, [*command, *map(str, words)], env={"COLUMNS": "200"})


def ask(*words: str | Path) -> Any:
    """Run the command with --json; returns what it prints."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_answer_as_json(trace: Path) -> None:
    found = ask(trace, "--pool-sizes", f"80KiB,{4 * BLOCK_BYTES}", "--policy", "lru")
    assert found == {
        "trace": {
            "name": str(trace),
            "requests": 4,
            "duration_s": 3.0,
            "prompt_tokens": 10 * BLOCK_TOKENS,
            "block_count": 10,
            "distinct_count": 5,
        },
        "block_tokens": BLOCK_TOKENS,
        "block_bytes": BLOCK_BYTES,
        "footprint_bytes": 5 * BLOCK_BYTES,
        "ceiling": 0.5,
        "within": 0.01,
        "enough_bytes": {"lru": 5 * BLOCK_BYTES},
        "runs": [
            {
                "policy": "lru",
                "pool_bytes": 4 * BLOCK_BYTES,
                "hit_ratio": 0.3,
                "hits": 3,
                "misses": 7,
                "stored": 6,
                "evicted": 2,
                "turned_away": 0,
            },
            {
                "policy": "lru",
                "pool_bytes": 5 * BLOCK_BYTES,
                "hit_ratio": 0.5,
                "hits": 5,
                "misses": 5,
                "stored": 5,
                "evicted": 0,
                "turned_away": 0,
            },
        ],
    }


def test_every_policy_is_tried_up_to_the_footprint(trace: Path) -> None:
    found = ask(trace)
    tried = {(one["policy"], one["pool_bytes"]) for one in found["runs"]}
    pools = [BLOCK_BYTES * count // 2 for count in (2, 3, 4, 6, 8, 10)]
    assert tried == {(policy, pool) for policy in ("lru", "arc") for pool in pools}


def test_near_enough_is_what_the_user_says(trace: Path) -> None:
    sizes = ("--pool-sizes", "64KiB,80KiB", "--policy", "lru")
    assert ask(trace, *sizes, "--within", "21")["enough_bytes"] == {"lru": 64 << 10}
    one_block = ("--pool-sizes", str(BLOCK_BYTES), "--policy", "lru")
    assert ask(trace, *one_block)["enough_bytes"] == {"lru": None}


def test_the_answer_as_tables(trace: Path) -> None:
    shown = run(trace, "--pool-sizes", "64KiB,80KiB", "--policy", "lru").stdout
    assert str(trace) in shown
    assert "50.0 % hits, in an infinite pool" in shown
    rows = [one.split() for one in shown.splitlines()]
    (row,) = (one for one in rows if one[:3] == ["64.0", "KiB", "4"])
    assert row[3:5] == ["30.0", "%"]
    bars = [one.count("━") for one in shown.splitlines() if "KiB" in one and "━" in one]
    assert bars == [12, 20]
    assert "lru  80.0 KiB is enough" in shown
    none = run(trace, "--pool-sizes", "64KiB").stdout
    assert "none of these pools is within 1 percentage points of the ceiling" in none


def test_a_block_may_be_given_instead_of_a_token(trace: Path) -> None:
    words = ["replay", str(trace), "--block-tokens", "16", "--json"]
    result = CliRunner().invoke(app, [*words, "--block-bytes", "5MB"])
    assert json.loads(result.stdout)["block_bytes"] == 5_000_000
    result = CliRunner().invoke(app, words)
    assert json.loads(result.stdout)["block_bytes"] == 16 * (128 << 10)
    both = run(trace, "--block-bytes", "5MB")
    assert both.exit_code == 2
    assert "not both" in both.stderr


def test_a_trace_from_standard_input(trace: Path) -> None:
    kvstow = [sys.executable, "-m", "kvstow.cli", "replay", "-", "--block-tokens", "16", "--json"]
    read = subprocess.run(kvstow, input=trace.read_bytes(), capture_output=True, check=True)
    assert json.loads(read.stdout)["trace"]["requests"] == 4
    refused = subprocess.run(kvstow, input=b"{}", capture_output=True, check=False)
    assert refused.returncode == 4
    assert refused.stderr == b"kvstow: <stdin>, line 1: timestamp: Field required\n"


def test_a_trace_that_cannot_be_used(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes() + b"{}\n")
    refused = run(trace)
    assert refused.exit_code == 4
    assert refused.stdout == ""
    assert refused.stderr == f"kvstow: {trace}, line 5: timestamp: Field required\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--pool-sizes", "1GiB,much"], "a size is written 64GiB"),
        (["--pool-sizes", "1GiB,"], "a size is written 64GiB"),
        (["--pool-sizes", "15KiB"], "a pool of 15.0 KiB holds no block, one takes 16.0 KiB"),
        (["--pool-sizes", "0"], "it is at least one byte"),
        (["--policy", "fifo"], "'fifo' is none of lru, arc"),
        (["--block-bytes", "-1"], "a size is written 64GiB"),
        (["--within", "101"], "less than or equal to 100"),
        (["--block-tokens", "0"], "greater than or equal to 1"),
    ],
)
def test_a_wrong_command_line(trace: Path, words: list[str], complaint: str) -> None:
    result = run(trace, *words)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        result = run(path)
        assert result.exit_code == 2
        assert str(path) in result.stderr


def read_screen(screen: int) -> bytes:
    """Everything that is shown until nobody has the terminal open any more, which Linux says by an error.

    It is read while it is written: the slower the machine, the more is shown, and a terminal takes only so much.
    """
    shown = b""
    with suppress(OSError):
        while part := os.read(screen, 1 << 16):
            shown += part
    return shown


def test_the_way_there_is_shown_where_somebody_may_be_looking(trace: Path) -> None:
    screen, terminal = pty.openpty()
    kvstow = [sys.executable, "-m", "kvstow.cli", "replay", str(trace), "--block-tokens", "16"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        kvstow, stdout=subprocess.PIPE, stderr=terminal, env=environment
    ) as replay:
        os.close(terminal)
        shown = read_screen(screen)
        printed, _ = replay.communicate()
    os.close(screen)
    assert replay.returncode == 0
    assert b"arc, 10.0 MiB" in shown
    assert b"\x1b" not in printed
    assert "pool" in printed.decode()


def test_it_needs_nothing_of_the_daemons_libraries() -> None:
    """Whoever installs the extra `cli` alone has none of them."""
    code = "import sys, kvstow.cli.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    names = set(loaded.stdout.decode().split())
    assert "kvstow.server.core.ledger" in names
    assert not names & {"numpy", "prometheus_client", "pydantic_settings", "structlog"}
