"""Step 7 and the end: what the metrics say of all that, and the figures in one table."""

from rich.table import Table

from examples.demo.stage import BLOCK_TOKENS, Stage

_SHOWN = (
    ("kvstow_lookup_blocks_total{hit}", "blocks looked up and found"),
    ("kvstow_lookup_blocks_total{miss}", "blocks looked up and not found"),
    ("kvstow_stored_blocks_total", "blocks stored"),
    ("kvstow_loaded_blocks_total", "blocks loaded"),
    ("kvstow_copy_bytes_sum{store}", "bytes copied out of engines"),
    ("kvstow_copy_bytes_sum{load}", "bytes copied into engines"),
    ("kvstow_copy_duration_seconds_sum{load}", "seconds it took to load"),
    ("kvstow_transfers_total{store,done}", "stores done"),
    ("kvstow_transfers_total{load,done}", "loads done"),
    ("kvstow_transfers_total{store,abandoned}", "stores abandoned"),
    ("kvstow_resets_total", "resets"),
    ("kvstow_dropped_blocks_total{reset}", "blocks dropped by resets"),
    ("kvstow_blocks{ready}", "blocks in the cache now"),
    ("kvstow_pool_bytes{quarantined}", "bytes of the pool in quarantine now"),
    ("kvstow_internal_errors_total", "errors of the daemon"),
)


def show_metrics(stage: Stage) -> None:
    """Step 7."""
    stage.report.title(7, "What Prometheus would see")
    metrics = stage.daemon.metrics()
    table = Table(box=None, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column()
    for name, meaning in _SHOWN:
        table.add_row(name, _number(metrics.get(name, 0.0)), meaning)
    stage.report.console.print(table)
    loaded = sum(answer.external_tokens for _, _, answer in stage.answers) // BLOCK_TOKENS
    stage.report.claim(
        f"the engines used {loaded} loaded blocks, and so many were loaded",
        metrics["kvstow_loaded_blocks_total"] == loaded,
    )
    stage.report.claim(
        "nothing is in quarantine, and the daemon found no error in itself",
        metrics["kvstow_pool_bytes{quarantined}"] == metrics["kvstow_internal_errors_total"] == 0,
    )
    stage.report.figures["metrics"] = {name: metrics.get(name, 0.0) for name, _ in _SHOWN}


def show_summary(stage: Stage) -> None:
    """One line per answer."""
    table = Table(title="What each answer waited for", title_justify="left")
    table.add_column("asked")
    table.add_column("question")
    for heading in ("prompt", "from kvstow", "own", "first token"):
        table.add_column(heading, justify="right")
    for name, question, answer in stage.answers:
        table.add_row(
            name,
            question.text,
            str(answer.prompt_tokens),
            str(answer.external_tokens),
            str(answer.local_tokens),
            f"{answer.first_token_s:.2f} s",
        )
    stage.report.console.print()
    stage.report.console.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.3f}"
