"""How log lines look, and which are written. Called once by the main thread, before anything is logged."""

import logging
import sys

import structlog
from structlog.typing import Processor

_GRPC_LOGGER = "grpc._cython.cygrpc"
_QUOTES_METADATA = "Invalid encoding on"
"""How gRPC begins to tell, of each call, what metadata it has that are no UTF-8: a token, say, and from anybody."""


def set_up_logging(log_format: str, log_level: str) -> None:
    """One line per event on stderr, from structlog and from libraries alike."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    as_json = log_format == "json"
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The default is another where rich is installed: it shows the variables, and what tokens they hold.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    tail = [structlog.processors.format_exc_info] if as_json else []
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail, renderer],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=log_level.upper())
    logging.getLogger(_GRPC_LOGGER).addFilter(_quotes_no_metadata)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _quotes_no_metadata(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_QUOTES_METADATA)
