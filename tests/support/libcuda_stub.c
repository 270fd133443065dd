/* A CUDA driver without a GPU: device memory is memory of this process, and copies are made at once.
 *
 * For tests of the binding: it takes arguments as cuda.h passes them, and refuses what a driver would refuse. Compiled with
 * -DHEADER='<cuda.h>' the compiler compares every function with NVIDIA's own header. -DBATCHES=12 or 13 adds the copies in
 * batches as CUDA 12.8 and 13.0 have them.
 */
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HEADER
#include HEADER
#else
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef int CUdevice_attribute, CUmemorytype;
typedef struct { char bytes[16]; } CUuuid;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct { char reserved[64]; } CUipcEventHandle;
typedef struct { int type, id; } CUmemLocation;
typedef struct {
    int srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;
typedef struct {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
#endif

enum { OK = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600 };
enum { ALREADY_LOCKED = 712, NOT_LOCKED = 713 };
enum { GPUS = 2, MOST = 4096 };

typedef struct { uint64_t start, size; } range;

/* What is there, for the test to look at: mappings, locked pieces, streams and events, contexts. */
int64_t stub_mapped, stub_locked, stub_made, stub_contexts, stub_batches;

/* What every batch is refused with, after some of its copies were made. */
int64_t stub_refusal, stub_made_before;

/* While it is not zero, nobody returns from the initialization or from waiting for a stream; nor, while the file that
 * STUB_HANG names is there, from page-locking, from undoing it, or from the end of the process: then the file that
 * STUB_REACHED names is there, too. */
int64_t stub_hanging;

static range mappings[MOST], locked[MOST];
static __thread CUcontext current;

#define NEED_CONTEXT if (current == NULL) return INVALID_CONTEXT

/* Threads come together here without Python's lock. */
static char ranges_taken;

static void take_ranges(void)
{
    while (__atomic_test_and_set(&ranges_taken, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void give_ranges(void) { __atomic_clear(&ranges_taken, __ATOMIC_RELEASE); }

static range *look_for(range *ranges, uint64_t start, uint64_t size)
{
    for (range *one = ranges; one < ranges + MOST; one++)
        if (one->size && one->start <= start && start + size <= one->start + one->size)
            return one;
    return NULL;
}

static range *find(range *ranges, uint64_t start, uint64_t size)
{
    take_ranges();
    range *found = look_for(ranges, start, size);
    give_ranges();
    return found;
}

static CUresult add(range *ranges, uint64_t start, uint64_t size, int64_t *count)
{
    take_ranges();
    range *one = ranges;
    while (one < ranges + MOST && one->size)
        one++;
    int fits = one < ranges + MOST;
    if (fits) {
        *one = (range){start, size};
        ++*count;
    }
    give_ranges();
    return fits ? OK : INVALID_VALUE;
}

static CUresult drop(range *ranges, uint64_t start, int64_t *count)
{
    take_ranges();
    range *found = look_for(ranges, start, 1);
    int is_there = found != NULL && found->start == start;
    if (is_there) {
        found->size = 0;
        --*count;
    }
    give_ranges();
    return is_there ? OK : INVALID_VALUE;
}

static CUresult make(void *where)
{
    *(void **)where = calloc(1, sizeof(int64_t *));
    __atomic_add_fetch(&stub_made, 1, __ATOMIC_SEQ_CST);
    return OK;
}

static CUresult destroy(void *made)
{
    free(made);
    __atomic_sub_fetch(&stub_made, 1, __ATOMIC_SEQ_CST);
    return OK;
}

static void hang(void)
{
    while (__atomic_load_n(&stub_hanging, __ATOMIC_SEQ_CST))
        sched_yield();
}

static void hang_with_file(void)
{
    const char *path = getenv("STUB_HANG"), *reached = getenv("STUB_REACHED");
    while (path != NULL && access(path, F_OK) == 0) {
        close(creat(reached, 0600));
        usleep(1000);
    }
}

__attribute__((destructor)) static void end(void) { hang_with_file(); }

CUresult cuInit(unsigned int flags)
{
    hang();
    return flags ? INVALID_VALUE : OK;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OTHER";
    return OK;
}

CUresult cuDeviceGetCount(int *count) { return *count = GPUS, OK; }

CUresult cuDeviceGet(CUdevice *device, int ordinal) { return *device = ordinal, OK; }

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    strncpy(name, device ? "Second" : "First", (size_t)length);
    return OK;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(0xf0 * device + i);
    return OK;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == 91 && device == 0;
    return OK;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(uintptr_t)(device + 1);
    __atomic_add_fetch(&stub_contexts, 1, __ATOMIC_SEQ_CST);
    return OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    __atomic_sub_fetch(&stub_contexts, 1, __ATOMIC_SEQ_CST);
    return OK;
}

CUresult cuCtxSetCurrent(CUcontext context) { return current = context, OK; }

/* The handle of memory is its address and its size. */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    uint64_t named[2];
    memcpy(named, handle.reserved, sizeof named);
    NEED_CONTEXT;
    if (flags != 1 || named[0] == 0 || find(mappings, named[0], 1))
        return INVALID_VALUE;
    *address = named[0];
    return add(mappings, named[0], named[1], &stub_mapped);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    NEED_CONTEXT;
    return drop(mappings, address, &stub_mapped);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr address)
{
    range *found = find(mappings, address, 1);
    NEED_CONTEXT;
    if (found == NULL)
        return INVALID_VALUE;
    *start = found->start;
    *size = found->size;
    return OK;
}

CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned int flags)
{
    NEED_CONTEXT;
    hang_with_file();
    if (flags != 3)
        return INVALID_VALUE;
    if (find(locked, (uintptr_t)address, 1))
        return ALREADY_LOCKED;
    return add(locked, (uintptr_t)address, size, &stub_locked);
}

CUresult cuMemHostUnregister(void *address)
{
    NEED_CONTEXT;
    hang_with_file();
    return drop(locked, (uintptr_t)address, &stub_locked) ? NOT_LOCKED : OK;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    NEED_CONTEXT;
    return flags == 1 ? make(stream) : INVALID_VALUE;
}

CUresult cuStreamDestroy_v2(CUstream stream) { return destroy(stream); }

CUresult cuStreamSynchronize(CUstream stream)
{
    hang();
    return stream ? OK : INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    NEED_CONTEXT;
    return flags == 3 ? make(event) : INVALID_VALUE;
}

CUresult cuEventDestroy_v2(CUevent event) { return destroy(event); }

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    NEED_CONTEXT;
    return event && stream ? OK : INVALID_HANDLE;
}

/* The handle of an event is the address of a number that is zero until it is reached. */
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    NEED_CONTEXT;
    make(event);
    memcpy(*(void **)event, handle.reserved, sizeof(int64_t *));
    return OK;
}

CUresult cuEventQuery(CUevent event)
{
    int64_t *reached = *(int64_t **)event;
    NEED_CONTEXT;
    return reached == NULL || *reached ? OK : NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    NEED_CONTEXT;
    return event ? OK : INVALID_HANDLE;
}

static CUresult copy(uint64_t target, uint64_t source, size_t size, uint64_t device, CUstream stream)
{
    NEED_CONTEXT;
    if (stream == NULL || size == 0 || find(mappings, device, size) == NULL)
        return INVALID_VALUE;
    memcpy((void *)(uintptr_t)target, (void *)(uintptr_t)source, size);
    return OK;
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size, CUstream stream)
{
    return copy((uintptr_t)target, source, size, source, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t size, CUstream stream)
{
    return copy(target, (uintptr_t)source, size, target, stream);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *two, CUstream stream)
{
    int store = two->srcMemoryType == 2 && two->dstMemoryType == 1;
    if (!store && (two->srcMemoryType != 1 || two->dstMemoryType != 2))
        return INVALID_VALUE;
    if (two->WidthInBytes > two->srcPitch || two->WidthInBytes > two->dstPitch)
        return INVALID_VALUE;
    for (size_t row = 0; row < two->Height; row++) {
        uint64_t source = store ? two->srcDevice : (uintptr_t)two->srcHost;
        uint64_t target = store ? (uintptr_t)two->dstHost : two->dstDevice;
        source += row * two->srcPitch;
        target += row * two->dstPitch;
        CUresult error = copy(target, source, two->WidthInBytes, store ? source : target, stream);
        if (error)
            return error;
    }
    return OK;
}

/* The kernel itself, run by one thread for all. */
typedef struct { unsigned x, y, z, w; } uint4;
static __thread struct { unsigned x; } blockIdx, threadIdx, gridDim, blockDim;
#define __global__ static
#define __launch_bounds__(most) /**/
#include "../../server/kvstow/server/device/cuda/gpu_kernel.cu"

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    NEED_CONTEXT;
    if (strstr(image, ".entry kvstow_copy(") == NULL || strstr(image, ".target sm_75") == NULL)
        return INVALID_VALUE;
    make(module);
    *(CUcontext *)*module = current;
    return OK;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    *function = (CUfunction)module;
    return strcmp(name, "kvstow_copy") ? INVALID_VALUE : OK;
}

CUresult cuModuleUnload(CUmodule module) { return destroy(module); }

CUresult cuLaunchKernel(CUfunction function, unsigned int grid, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block, unsigned int block_y, unsigned int block_z,
                        unsigned int shared, CUstream stream, void **given, void **extra)
{
    const unsigned long long *orders = *(const unsigned long long **)given[0];
    unsigned int count = *(unsigned int *)given[1];
    NEED_CONTEXT;
    if (*(CUcontext *)function != current || stream == NULL || grid == 0 || block == 0 || block > 256)
        return INVALID_VALUE;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared || extra)
        return INVALID_VALUE;
    if (find(locked, (uintptr_t)orders, 24ULL * count) == NULL)
        return INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        uint64_t source = orders[i], target = orders[count + i], size = orders[2 * count + i];
        int store = find(mappings, source, size) && find(locked, target, size);
        if (!store && !(find(mappings, target, size) && find(locked, source, size)))
            return INVALID_VALUE;
    }
    gridDim.x = grid;
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++)
            kvstow_copy(orders, count);
    return OK;
}

#ifdef BATCHES
/* Sources on the GPU are read in the order of the stream (1), those in locked memory at any time (3). */
static CUresult batch(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                      CUmemcpyAttributes *attributes, size_t *first, size_t kinds, size_t *refused,
                      CUstream stream)
{
    if (kinds != 1 || first[0] != 0 || attributes->flags > 1)
        return INVALID_VALUE;
    __atomic_add_fetch(&stub_batches, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < count; i++) {
        int store = attributes->srcAccessOrder == 1;
        if (stub_refusal && (int64_t)i >= stub_made_before)
            return (CUresult)stub_refusal;
        uint64_t host = store ? targets[i] : sources[i], device = store ? sources[i] : targets[i];
        *refused = i;
        if (!store && attributes->srcAccessOrder != 3)
            return INVALID_VALUE;
        if (!find(locked, host, sizes[i]) || copy(targets[i], sources[i], sizes[i], device, stream))
            return INVALID_VALUE;
    }
    return OK;
}

#if BATCHES == 12
CUresult cuMemcpyBatchAsync(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *first, size_t kinds,
                            size_t *refused, CUstream stream)
{
    return batch(targets, sources, sizes, count, attributes, first, kinds, refused, stream);
}
#else
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes,
                               size_t count, CUmemcpyAttributes *attributes, size_t *first,
                               size_t kinds, CUstream stream)
{
    size_t refused;
    return batch(targets, sources, sizes, count, attributes, first, kinds, &refused, stream);
}
#endif
#endif
