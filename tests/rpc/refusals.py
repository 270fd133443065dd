"""One way to provoke each documented refusal: arranges the daemon, returns what it refuses.

Refusals that depend on the daemon's state alone (NOT_READY, DRAINING) and those that end a stream
are not here: see the tests.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kvstow.server.device.base import DeviceBusyError, DeviceError, UnknownGpuError
from kvstow.v1 import admin_pb2, cache_pb2
from rpc.rig import BLOCK_COUNT, Engine, Served, blocks, identity, key

Arrangement = Callable[[Served], Any]

NOBODY = 999
GPU = "01234567-89ab-cdef-0123-456789abcdef"
CACHE, ADMIN = "CacheService", "AdminService"
CASES: dict[tuple[str, str], Arrangement] = {}


def case(method: str, reason: str) -> Callable[[Arrangement], Arrangement]:
    def enter(arrangement: Arrangement) -> Arrangement:
        assert (method, reason) not in CASES
        CASES[method, reason] = arrangement
        return arrangement

    return enter


NAMING_A_SESSION: dict[str, type[Any]] = {
    "AttachMemory": cache_pb2.AttachMemoryRequest,
    "DetachMemory": cache_pb2.DetachMemoryRequest,
    "Lookup": cache_pb2.LookupRequest,
    "Store": cache_pb2.StoreRequest,
    "Load": cache_pb2.LoadRequest,
    "Release": cache_pb2.ReleaseRequest,
    "Cancel": cache_pb2.CancelRequest,
    "Reset": cache_pb2.ResetRequest,
    "Watch": cache_pb2.WatchRequest,
    "Acknowledge": cache_pb2.AcknowledgeRequest,
}


def unknown_session(request: type[Any], served: Served) -> Any:
    return request(session_id=NOBODY)


for name, request in NAMING_A_SESSION.items():
    case(f"{CACHE}/{name}", "NO_SUCH_SESSION")(partial(unknown_session, request))


@case(f"{CACHE}/OpenSession", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return cache_pb2.OpenSessionRequest()


@case(f"{CACHE}/OpenSession", "TOO_MANY_SESSIONS")
def _(served: Served) -> Any:
    for _ in range(3):
        Engine(served)
    return cache_pb2.OpenSessionRequest(identity=identity())


@case(f"{CACHE}/OpenSession", "TOO_MANY_SPACES")
def _(served: Served) -> Any:
    Engine(served, "one")
    Engine(served, "two")
    return cache_pb2.OpenSessionRequest(identity=identity("three"))


@case(f"{CACHE}/OpenSession", "BLOCK_TOO_LARGE")
def _(served: Served) -> Any:
    return cache_pb2.OpenSessionRequest(identity=identity(world_size=17))


@case(f"{CACHE}/AttachMemory", "INVALID_REQUEST")
def _(served: Served) -> Any:
    request = Engine(served, attached=False).attach_request()
    request.rank = 1
    return request


@case(f"{CACHE}/AttachMemory", "RANK_ATTACHED")
def _(served: Served) -> Any:
    engine = Engine(served)
    other = served.memory / "other"
    other.write_bytes(engine.files[0].read_bytes())
    return engine.attach_request(file=other)


@case(f"{CACHE}/AttachMemory", "RANK_MISMATCH")
def _(served: Served) -> Any:
    engine = Engine(served, world_size=2, attached=False)
    served.cache.AttachMemory(engine.attach_request(0))
    return engine.attach_request(1, block_count=BLOCK_COUNT - 1)


@case(f"{CACHE}/AttachMemory", "REGION_INVALID")
def _(served: Served) -> Any:
    return Engine(served, attached=False).attach_request(file=served.memory / "nothing")


@case(f"{CACHE}/AttachMemory", "FENCE_INVALID")
def _(served: Served) -> Any:
    request = Engine(served, attached=False).attach_request()
    request.fences.add(gpu_uuid=GPU, event=bytes(64))
    return request


def memory_of_a_gpu(reason: str, error: DeviceError | None = None) -> None:
    """Enter a case in which memory of a GPU is attached, and the device says so, if it does not decide itself."""

    @case(f"{CACHE}/AttachMemory", reason)
    def _(served: Served) -> Any:
        served.faults.error = error
        request = Engine(served, attached=False).attach_request()
        memory = cache_pb2.CudaMemory(gpu_uuid=GPU, allocation=bytes(64), size_bytes=1 << 20)
        request.regions[0].cuda_memory.CopyFrom(memory)
        return request


memory_of_a_gpu("CUDA_OFF")
memory_of_a_gpu("GPU_UNKNOWN", UnknownGpuError(GPU, ["another"]))
memory_of_a_gpu("DEVICE_BUSY", DeviceBusyError("not answered within 30 s"))


@case(f"{CACHE}/DetachMemory", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return cache_pb2.DetachMemoryRequest(session_id=Engine(served).session_id, wait_s=-1)


@case(f"{CACHE}/Lookup", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return Engine(served).lookup_request([1], hold=cache_pb2.HOLD_PREFIX)


@case(f"{CACHE}/Lookup", "STALE_GENERATION")
def _(served: Served) -> Any:
    engine = Engine(served)
    served.cache.Reset(cache_pb2.ResetRequest(session_id=engine.session_id))
    return engine.lookup_request([1])


@case(f"{CACHE}/Lookup", "TOO_MANY_KEYS")
def _(served: Served) -> Any:
    return Engine(served).lookup_request(range(17))


@case(f"{CACHE}/Lookup", "TOO_MANY_LEASES")
def _(served: Served) -> Any:
    engine = Engine(served)
    engine.watch()
    engine.store(1, [1])
    hold = cache_pb2.HOLD_PREFIX
    for request in "ab":
        served.cache.Lookup(engine.lookup_request([1], hold=hold, request=request))
    return engine.lookup_request([1], hold=hold, request="c")


Begin = Callable[..., Any]
"""Makes the request of a store or of a load, of block 1 as transfer 1 unless told otherwise."""


def transfer_case(reason: str) -> Callable[[Callable[..., Any]], None]:
    """Enter a case that stores and loads are refused for alike."""

    def enter(arrangement: Callable[..., Any]) -> None:
        for verb, begin in (("Store", Engine.store_request), ("Load", Engine.load_request)):
            arranged = partial(arrangement, begin=partial(begin_with, begin))
            case(f"{CACHE}/{verb}", reason)(arranged)

    return enter


def begin_with(
    make: Begin,
    engine: Engine,
    transfer_id: int = 1,
    numbers: Sequence[int] = (1,),
    **options: Any,
) -> Any:
    return make(engine, transfer_id, numbers, **options)


@transfer_case("INVALID_REQUEST")
def _(served: Served, begin: Begin) -> Any:
    unequal = [cache_pb2.GroupBlocks(keys=key(1), blocks=[1, 2])]
    return begin(Engine(served), groups=unequal)


@transfer_case("STALE_GENERATION")
def _(served: Served, begin: Begin) -> Any:
    engine = Engine(served)
    served.cache.Reset(cache_pb2.ResetRequest(session_id=engine.session_id))
    return begin(engine)


@transfer_case("NOT_ATTACHED")
def _(served: Served, begin: Begin) -> Any:
    engine = Engine(served, world_size=2, attached=False)
    served.cache.AttachMemory(engine.attach_request(0))
    return begin(engine)


@transfer_case("TOO_MANY_KEYS")
def _(served: Served, begin: Begin) -> Any:
    return begin(Engine(served), numbers=range(17))


@transfer_case("DUPLICATE_KEY")
def _(served: Served, begin: Begin) -> Any:
    return begin(Engine(served), groups=blocks([1, 1]))


@transfer_case("DUPLICATE_BLOCK")
def _(served: Served, begin: Begin) -> Any:
    return begin(Engine(served), groups=blocks([1, 2], ids=[3, 3]))


@transfer_case("BLOCK_OUT_OF_RANGE")
def _(served: Served, begin: Begin) -> Any:
    return begin(Engine(served), groups=blocks([1], ids=[BLOCK_COUNT]))


@transfer_case("FENCE_OUT_OF_RANGE")
def _(served: Served, begin: Begin) -> Any:
    return begin(Engine(served), fence=0)


@transfer_case("TRANSFER_ID_REUSED")
def _(served: Served, begin: Begin) -> Any:
    engine = Engine(served)
    engine.watch()
    engine.store(1, [1, 2])
    return begin(engine)


@transfer_case("TOO_MANY_TRANSFERS")
def _(served: Served, begin: Begin) -> Any:
    engine = Engine(served)
    engine.watch()
    engine.store(1, [1])
    engine.store(2, [2])
    return begin(engine, transfer_id=3)


@case(f"{CACHE}/Load", "KEY_NOT_READY")
def _(served: Served) -> Any:
    engine = Engine(served)
    engine.watch()
    engine.store(1, [1])
    return engine.load_request(2, [1, 2])


@case(f"{CACHE}/Reset", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return cache_pb2.ResetRequest(session_id=Engine(served).session_id, wait_s=math.nan)


@case(f"{CACHE}/Watch", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return cache_pb2.WatchRequest(session_id=Engine(served).session_id, after=1)


@case(f"{CACHE}/Acknowledge", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return cache_pb2.AcknowledgeRequest(session_id=Engine(served).session_id, sequence=1)


def unknown_space(request: type[Any], served: Served) -> Any:
    return request(space_id=NOBODY)


for name in ("ExplainKeys", "ListMisses", "ResetSpace", "DropSpace"):
    request = vars(admin_pb2)[f"{name}Request"]
    case(f"{ADMIN}/{name}", "NO_SUCH_SPACE")(partial(unknown_space, request))


@case(f"{ADMIN}/ExplainKeys", "TOO_MANY_KEYS")
def _(served: Served) -> Any:
    return admin_pb2.ExplainKeysRequest(space_id=Engine(served).space_id, keys=17 * key(1))


@case(f"{ADMIN}/ResetSpace", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return admin_pb2.ResetSpaceRequest(space_id=Engine(served).space_id, wait_s=-1)


@case(f"{ADMIN}/ResetAll", "INVALID_REQUEST")
def _(served: Served) -> Any:
    return admin_pb2.ResetAllRequest(wait_s=math.inf)


@case(f"{ADMIN}/DropSpace", "SPACE_IN_USE")
def _(served: Served) -> Any:
    return admin_pb2.DropSpaceRequest(space_id=Engine(served).space_id)
