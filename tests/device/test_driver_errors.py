"""What the driver's errors are taken for: which setting they name, and which leave nothing to be done but a restart."""

import pytest

from device.conftest import CudaRig
from device.rig import SESSION, GpuMemory
from kvstow.server.device.base import DeviceError
from kvstow.server.device.cuda.driver import CudaError

BLOCK = 4096
NAMESPACES = "must share the IPC and the PID namespace"
VIRTUAL = "unset expandable_segments"
WITHOUT_A_HINT = 217  # a GPU that does not reach another

HINTS = {
    1: f"{NAMESPACES}.*{VIRTUAL}",
    2: "the GPU has no memory left for the daemon's mappings",
    201: "this process exported it itself",
    205: NAMESPACES,
    304: NAMESPACES,
    400: f"{NAMESPACES}.*{VIRTUAL}",
    801: VIRTUAL,
    WITHOUT_A_HINT: NAMESPACES,
}
"""By what `cuIpcOpenMemHandle` may say."""

LAST = (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 999)
"""Of which `cuda.h` says that the process or the context is of no use any more, memory errors and the unknown among them."""

NOT_LAST = (0, 1, 2, 46, 201, 205, 304, 400, 500, 600, 701, 712, 713, 720, 801)


@pytest.mark.parametrize("code", HINTS)
def test_memory_that_is_not_mapped_names_the_likely_setting(cuda: CudaRig, code: int) -> None:
    with (
        cuda.driver.failing("open_memory", code, "CUDA_ERROR_THIS"),
        pytest.raises(
            DeviceError, match=rf"cannot be mapped: .* CUDA_ERROR_THIS \({code}\); .*{HINTS[code]}"
        ),
    ):
        cuda.device.open_region(GpuMemory(cuda.engine, BLOCK).handle, SESSION)
    assert all(health.healthy for health in cuda.device.health())


@pytest.mark.parametrize("code", LAST)
def test_after_these_the_daemon_has_to_be_restarted(code: int) -> None:
    assert CudaError(code, "CUDA_ERROR_THIS", "some_call").ends_context


@pytest.mark.parametrize("code", NOT_LAST)
def test_after_these_it_can_go_on(code: int) -> None:
    assert not CudaError(code, "CUDA_ERROR_THIS", "some_call").ends_context
