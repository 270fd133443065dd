"""What is shown of devices: each by its name, healthy or not, with the copies that it was given; and of the pool for them."""

from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from kvstow.server.config import Config
from kvstow.server.daemon import Daemon
from kvstow.server.daemon.devices import Hardware
from kvstow.server.device.base import DeviceHealth, Direction
from kvstow.server.device.host import HostDevice
from kvstow.server.device.pool import HostPool
from kvstow.server.metrics import Metrics


class TwoGpus(HostDevice):
    """Says that it is two GPUs, one of which hangs."""

    def health(self) -> Sequence[DeviceHealth]:
        return [
            DeviceHealth("aa", "GPU", True, "", {Direction.STORE: 3, Direction.LOAD: 1}, "rows"),
            DeviceHealth("bb", "GPU", False, "hangs", {Direction.STORE: 0, Direction.LOAD: 7}),
        ]


def shown(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """The value of a series."""
    value: float | None = registry.get_sample_value(name, labels)
    return value


def test_each_device_has_its_health_and_its_queue(tmp_path: Path) -> None:
    config = Config(socket=tmp_path / "socket", pool_size=1 << 20)
    pool = HostPool(config.pool_size)
    daemon, metrics = Daemon(config, TwoGpus(pool), hardware=Hardware(pinned=True)), Metrics()
    metrics.watch(daemon)
    registry = metrics.registry
    assert shown(registry, "kvstow_device_healthy", device="aa") == 1
    assert shown(registry, "kvstow_device_healthy", device="bb") == 0
    assert shown(registry, "kvstow_copy_method", device="aa", method="rows") == 1
    assert shown(registry, "kvstow_copy_method", device="bb", method="") is None
    assert shown(registry, "kvstow_copy_queue_depth", device="aa", direction="store") == 3
    assert shown(registry, "kvstow_copy_queue_depth", device="bb", direction="load") == 7
    assert shown(registry, "kvstow_pool_pinned") == 1
    daemon.close()
    pool.close()


def test_a_pool_that_is_not_page_locked_is_seen(tmp_path: Path) -> None:
    config = Config(socket=tmp_path / "socket", pool_size=1 << 20)
    pool = HostPool(config.pool_size)
    daemon, metrics = Daemon(config, HostDevice(pool)), Metrics()
    metrics.watch(daemon)
    assert shown(metrics.registry, "kvstow_pool_pinned") == 0
    daemon.close()
    pool.close()
