"""The daemon as a process: settings, wiring, signals, exit code.

Exit codes: 0 after a drain, 1 when it cannot start, 2 when the settings are wrong. The first SIGTERM or SIGINT drains; a
second one ends the process at once.
"""

import gc
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

import structlog
from pydantic import ByteSize

from kvstow.server.command_line import (
    CHECK_CONFIG,
    ConfigError,
    as_toml,
    effective,
    load,
    misspelt,
)
from kvstow.server.config import Config
from kvstow.server.daemon import Daemon
from kvstow.server.daemon.devices import Hardware
from kvstow.server.device.base import DeviceError
from kvstow.server.device.choice import Choice, Wishes, choose_devices, leave_drivers_that_hang
from kvstow.server.device.faults import FaultyDevice
from kvstow.server.device.pool import HostPool
from kvstow.server.logs import set_up_logging
from kvstow.server.metrics import Metrics
from kvstow.server.metrics_server import MetricsServer, MetricsTls
from kvstow.server.notify import ServiceManager
from kvstow.server.rpc.options import ServerOptions, server_options, unusable
from kvstow.server.rpc.probes import ProbePort
from kvstow.server.rpc.server import RpcServer
from kvstow.server.rpc.unix_socket import SocketError, SocketPath
from kvstow.server.rpc.watched import CredentialError

STOP = (signal.SIGTERM, signal.SIGINT)
STREAM_GRACE_S = 5.0
"""How long streams may take to end after the daemon has drained. Of one that takes longer the last reports are lost, and its
engine takes the loads they are of for failed."""
CALL_GRACE_S = 2.0
"""How long calls may take to end after that; all of it passes while an engine stands still, whose connection gRPC waits for."""

HEALTH_PERIOD_S = 1.0
_log = structlog.get_logger("kvstow")


class StoppedError(Exception):
    """A signal came before the start was over."""


class StartError(Exception):
    """The daemon cannot start; one line that says why and what to do."""


class StopSignals:
    """Catches SIGTERM and SIGINT from now on, whichever thread the kernel gives them to; for the main thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno())
        for number in STOP:
            signal.signal(number, lambda *_: None)

    def wait(self, timeout_s: float) -> bool:
        """Whether one has come, at the latest after `timeout_s` seconds."""
        ready, _, _ = select.select([self._reader], [], [], timeout_s)
        return bool(ready)

    def restore(self) -> None:
        """The next one ends the process. Process 1 of a container has no default action that would do it."""
        for number in STOP:
            signal.signal(number, lambda caught, _: os._exit(128 + caught))


def main() -> int:
    """Run the daemon with the process's command line; returns the exit code."""
    arguments = sys.argv[1:]
    try:
        config = load(arguments, unusable)
        settings = effective(config, arguments, os.environ)
        options = server_options(config, settings)
    except (ConfigError, CredentialError, SocketError) as error:
        sys.stderr.write(f"kvstowd: the settings are wrong\n{error}\n")
        return 2
    set_up_logging(config.log_format, config.log_level)
    for name, nearest in misspelt(os.environ).items():
        _log.warning("no setting has this name", variable=name, nearest=nearest)
    if CHECK_CONFIG in arguments:
        sys.stdout.write(f"{as_toml(settings)}\n")
        return 0
    _log.info("settings", **{name: value for name, value, _ in settings if value})
    _allow_open_files()
    code = 0
    try:
        with ExitStack() as stack:
            _run(config, options, StopSignals(), ServiceManager(os.environ), stack)
    except StoppedError:
        _log.info("stopped before it was ready")
    except (StartError, DeviceError, SocketError) as error:
        sys.stderr.write(f"kvstowd: {error}\n")
        code = 1
    leave_drivers_that_hang(code)
    return code


def _run(
    config: Config,
    options: ServerOptions,
    stop: StopSignals,
    manager: ServiceManager,
    stack: ExitStack,
) -> None:
    """Start in an order in which nothing is promised too early, wait for a signal, drain; `stack` undoes the rest."""
    # Before the pool: another daemon has its memory, and would be the reason why this one finds none.
    SocketPath(config.socket).check_unserved()
    pool = HostPool(config.pool_size, config.pool_path)
    stack.callback(pool.close)
    devices = _choose_devices(config, pool)
    faults = FaultyDevice(devices.device) if config.debug_service else None
    metrics = Metrics()
    daemon = Daemon(
        config,
        devices.device if faults is None else faults,
        hardware=Hardware(devices.copy_kernel, devices.cuda_off, devices.pinned),
        meters=metrics,
        zero=pool.zero,
        after_growth=_settle_garbage,
    )
    threading.excepthook = daemon.health.report_dead_thread
    server = RpcServer(
        daemon, options, observe=metrics.called, report_bug=daemon.health.report, faults=faults
    )
    metrics.watch(daemon)
    _listen(config, daemon, server, stack)
    served = _serve_metrics(metrics, config, stack)
    _serve_probes(server, config.health_listen, stack)
    _prepare(pool, devices, config, stop, manager)
    daemon.set_ready()
    server.set_ready(True)
    manager.ready()
    _log_ready(config, daemon)
    _watch_health(daemon, server, served, stop, manager)
    manager.draining()
    server.set_ready(False)
    _drain(daemon, config.drain_grace_s)


def _listen(config: Config, daemon: Daemon, server: RpcServer, stack: ExitStack) -> None:
    stack.callback(server.stop, CALL_GRACE_S)
    # Before the server stops: a socket that is gone says that no copy runs any more.
    stack.callback(daemon.close)
    port = server.start()
    daemon.start()
    _log.info(
        "listening",
        socket=str(config.socket),
        tcp=config.listen,
        port=port,
        tls=config.tls_cert is not None,
        tokens=config.tokens is not None,
        boot_id=daemon.boot_id,
    )


def _serve_metrics(metrics: Metrics, config: Config, stack: ExitStack) -> MetricsServer | None:
    address, tls = config.metrics_listen, None
    if not address:
        return None
    if config.metrics_tls and config.tls_cert is not None and config.tls_key is not None:
        tls = MetricsTls(config.tls_cert, config.tls_key, config.tls_client_ca)
    try:
        served = MetricsServer(metrics.registry, address, tls)
    except OSError as error:
        raise StartError(
            f"cannot serve metrics on {address}: {error.strerror}; set metrics_listen"
        ) from error
    stack.callback(served.close)
    _log.info("metrics served", url=served.url)
    return served


def _serve_probes(server: RpcServer, address: str | None, stack: ExitStack) -> None:
    if address is None:
        return
    try:
        probes = ProbePort(server.health, address)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StartError(f"cannot serve health on {address}: {why}; set health_listen") from error
    stack.callback(probes.stop)
    probes.start()
    _log.info("health served", port=probes.port)


def _choose_devices(config: Config, pool: HostPool) -> Choice:
    pinned, kernel = config.pin, config.cuda_copies == "kernel"
    wishes = Wishes(
        config.copy_threads, config.piece_size, config.cuda, pinned, config.cuda_watchdog_s, kernel
    )
    devices = choose_devices(pool, wishes)
    if devices.cuda is None:
        _log.info("no GPUs: engines on GPUs are refused", reason=devices.cuda_off)
    else:
        _log.info("GPUs found", gpus=[health.device for health in devices.cuda.health()])
        if not config.pin:
            _log.warning("the host pool is not page-locked: copies to and from GPUs are slow")
    return devices


def _prepare(
    pool: HostPool, devices: Choice, config: Config, stop: StopSignals, manager: ServiceManager
) -> None:
    """Fault the pool in and page-lock it; a signal meanwhile ends the start."""
    pool.populate(_progress("preparing", pool, stop, manager), config.copy_threads)
    if devices.cuda is not None:
        devices.cuda.pin(_progress("page-locking", pool, stop, manager))
    _settle_garbage()


def _progress(
    doing: str, pool: HostPool, stop: StopSignals, manager: ServiceManager
) -> Callable[[int], None]:
    """Log a line for every tenth of the pool that is done."""
    tenth = 0

    def report(done_bytes: int) -> None:
        nonlocal tenth
        if stop.wait(0):
            stop.restore()
            raise StoppedError
        if done_bytes * 10 // pool.size_bytes > tenth:
            tenth = done_bytes * 10 // pool.size_bytes
            _log.info(f"{doing} the host pool", percent=tenth * 10)
            manager.preparing(tenth * 10)

    return report


def _log_ready(config: Config, daemon: Daemon) -> None:
    _log.info(
        "ready",
        pool=config.pool_size.human_readable(),
        extents=config.pool_size // config.extent_bytes,
        extent=ByteSize(config.extent_bytes).human_readable(),
        policy=config.policy,
        copy_kernel=daemon.info().copy_kernel,
    )


def _watch_health(
    daemon: Daemon,
    server: RpcServer,
    served: MetricsServer | None,
    stop: StopSignals,
    manager: ServiceManager,
) -> None:
    """Tell the health service and the service manager what is wrong, until a signal comes."""
    while not stop.wait(HEALTH_PERIOD_S):
        status = daemon.status()
        renewed = server.refresh()
        if renewed is not None and served is not None:
            served.reload(renewed.load_into)
        server.set_live(status.bug_count == 0)
        if status.bug_count == 0:
            manager.alive()
        server.set_devices(status)
    stop.restore()
    _log.info("draining; a second signal ends the process at once")


def _drain(daemon: Daemon, grace_s: float) -> None:
    if daemon.drain(grace_s, STREAM_GRACE_S):
        _log.info("drained: every copy has ended")
    else:
        _log.warning(
            "the grace time is over and copies still run; their reports are lost", grace_s=grace_s
        )


def _settle_garbage() -> None:
    """Take what lives long out of the garbage collector's sight: the books of a full pool would take it long to walk."""
    gc.collect()
    gc.freeze()


def _allow_open_files() -> None:
    """Each engine and each of its ranks keeps a connection and a process open: soon more than the usual thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
