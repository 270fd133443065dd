/* A driver with two GPUs that exports memory and events, for the tests of the client: stricter than CUDA.
 *
 * Addresses are numbers; nothing lies behind them. What needs a current context fails without one (201), what is not
 * known fails as an invalid value (1) or handle (400).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { DEVICES = 2, ATTRIBUTE_LEGACY_IPC = 10, INTERPROCESS_WITHOUT_TIMING = 6 };

struct allocation {
    uint64_t base;
    size_t size;
    int device;
    int exportable;
};

static const struct allocation allocations[] = {
    {0x7f0000000000, 1 << 20, 0, 1},
    {0x7f0000200000, 4096, 1, 1},
    {0x7f0000300000, 2 << 20, 0, 0},
};

struct event {
    int device;
    uint64_t records;
    uint64_t stream;
};

static int initialized, retained[DEVICES], live_events;
static _Thread_local int current[16], depth;

static const struct allocation *find(uint64_t address)
{
    for (size_t i = 0; i < sizeof allocations / sizeof *allocations; i++)
        if (address >= allocations[i].base && address < allocations[i].base + allocations[i].size)
            return &allocations[i];
    return NULL;
}

static int here(int device) { return depth && current[depth - 1] == device; }

int cuInit(unsigned flags) { initialized = 1; return flags ? INVALID_VALUE : OK; }

int cuDeviceGet(int *device, int ordinal)
{
    if (!initialized) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= DEVICES) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(16 * device + i);
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    retained[device]++;
    *context = (void *)(uintptr_t)(device + 1);
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return retained[device]-- > 0 ? OK : INVALID_CONTEXT; }

int cuCtxPushCurrent_v2(void *context)
{
    int device = (int)(uintptr_t)context - 1;
    if (device < 0 || device >= DEVICES || !retained[device]) return INVALID_CONTEXT;
    current[depth++] = device;
    return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (!depth) return INVALID_CONTEXT;
    *context = (void *)(uintptr_t)(current[--depth] + 1);
    return OK;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t address)
{
    const struct allocation *found = find(address);
    if (!found || attribute != ATTRIBUTE_LEGACY_IPC) return INVALID_VALUE;
    *(int *)data = found->exportable;
    return OK;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address)
{
    const struct allocation *found = find(address);
    if (!depth) return INVALID_CONTEXT;
    if (!found) return INVALID_VALUE;
    *base = found->base;
    *size = found->size;
    return OK;
}

int cuIpcGetMemHandle(unsigned char *handle, uint64_t base)
{
    const struct allocation *found = find(base);
    if (!found || !found->exportable || found->base != base) return INVALID_VALUE;
    if (!here(found->device)) return INVALID_CONTEXT;
    memset(handle, 0xa0, 64);
    memcpy(handle, &base, sizeof base);
    return OK;
}

int cuEventCreate(void **event, unsigned flags)
{
    struct event *made = malloc(sizeof *made);
    if (!depth) return INVALID_CONTEXT;
    if (flags != INTERPROCESS_WITHOUT_TIMING) return INVALID_VALUE;
    *made = (struct event){current[depth - 1], 0, 0};
    *event = made;
    live_events++;
    return OK;
}

int cuIpcGetEventHandle(unsigned char *handle, void *event)
{
    if (!here(((struct event *)event)->device)) return INVALID_CONTEXT;
    memset(handle, 0xe0, 64);
    memcpy(handle, &event, sizeof event);
    return OK;
}

int cuEventRecord(void *event, void *stream)
{
    struct event *recorded = event;
    if (!here(recorded->device)) return INVALID_HANDLE;
    recorded->records++;
    recorded->stream = (uint64_t)(uintptr_t)stream;
    return OK;
}

int cuEventDestroy_v2(void *event)
{
    if (!depth) return INVALID_CONTEXT;
    free(event);
    live_events--;
    return OK;
}

int cuGetErrorName(int code, const char **name)
{
    *name = code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : code == INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE" : NULL;
    return *name ? OK : INVALID_VALUE;
}

/* For the tests. */
int double_retained(int device) { return retained[device]; }
int double_live_events(void) { return live_events; }
int double_depth(void) { return depth; }
uint64_t double_records(const unsigned char *handle) { struct event *e; memcpy(&e, handle, sizeof e); return e->records; }
uint64_t double_stream(const unsigned char *handle) { struct event *e; memcpy(&e, handle, sizeof e); return e->stream; }
