/* A stand-in for libcuda: hands out addresses, the one freed last first, and fails above one TiB. It loads what
 * CUDA_INJECTION64_PATH names when it is initialised, and tells an observer of every call, as the driver tells CUPTI.
 * STANDIN_SLOW_FREE: a free returns some time after the address is free for others, as real ones do. STANDIN_COLD: an allocation
 * walks over so many bytes, as the driver's own work does, so that nothing else is in the caches. It knows what
 * cuMemAlloc has taken of each device, for the stand-in for NVML. */
#define _GNU_SOURCE
#include "standin.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long ptr_t;

static Observer observer;
static atomic_uint correlation;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ptr_t next = 0x7f0000000000ull, freed[1 << 16];
static int freed_count;
static __thread void *context;

/* Bytes taken of each device, and by each address that was ever handed out, with its device. */
static atomic_ullong taken[2];
static struct { ptr_t bytes; int device; } takings[1 << 18];

unsigned long long standin_taken(int device) { return atomic_load(&taken[device]); }

static void count(ptr_t address, ptr_t bytes) {
    ptr_t at = (address - 0x7f0000000000ull) / 0x200000;
    if (address < 0x7f0000000000ull || at >= sizeof takings / sizeof *takings) return;
    if (bytes) takings[at].device = (uintptr_t)context == 0x1001;
    atomic_fetch_add(&taken[takings[at].device], bytes - takings[at].bytes);
    takings[at].bytes = bytes;
}

void standin_set_observer(Observer set) { observer = set; }

static void tell(int site, uint32_t id, const char *name, void *params, CUresult *result, uint64_t *data, uint32_t number) {
    if (!observer) return;
    CallbackData record = {site, name, params, site ? result : NULL, NULL, context, 1, data, number};
    observer(id, &record);
}

#define CALL(id, name, body)                                             \
    CUresult result = 0;                                                 \
    uint64_t data = 0;                                                   \
    uint32_t number = atomic_fetch_add(&correlation, 1);                 \
    tell(0, id, #name, &params, &result, &data, number);                 \
    body;                                                                \
    tell(1, id, #name, &params, &result, &data, number);                 \
    return result

static void cool(void) {
    static long bytes = -1;
    static __thread volatile char *memory;
    if (bytes < 0) bytes = getenv("STANDIN_COLD") ? atol(getenv("STANDIN_COLD")) : 0;
    if (bytes && !memory) memory = calloc(bytes, 1);
    for (long at = 0; at < bytes; at += 64) memory[at]++;
}

static CUresult take(ptr_t *out, size_t bytes) {
    cool();
    if (bytes > 1ull << 40) return 2;
    pthread_mutex_lock(&lock);
    *out = freed_count ? freed[--freed_count] : (next += 0x200000);
    pthread_mutex_unlock(&lock);
    return 0;
}

static CUresult give(ptr_t address) {
    cool();
    if (!address) return 0;
    if (address & 1) return 1;
    pthread_mutex_lock(&lock);
    count(address, 0);
    if (freed_count < 1 << 16) freed[freed_count++] = address;
    pthread_mutex_unlock(&lock);
    if (getenv("STANDIN_SLOW_FREE")) usleep(50);
    return 0;
}

CUresult cuInit(unsigned flags) {
    static atomic_int done;
    if (atomic_exchange(&done, 1)) return 0;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (initialize) initialize();
    return 0;
}

CUresult cuDevicePrimaryCtxRetain(void **out, int device) {
    struct { void **out; int device; } params = {out, device};
    CALL(386, cuDevicePrimaryCtxRetain, *out = (void *)(uintptr_t)(0x1000 + device));
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    struct { int device; } params = {device};
    CALL(544, cuDevicePrimaryCtxRelease, );
}
CUresult cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = 0xa0 + device;
    return 0;
}
CUresult cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02X:00.0", 0xa0 + device);
    return 0;
}
CUresult cuCtxSetCurrent(void *set) { context = set; return 0; }

CUresult cuMemAlloc_v2(ptr_t *out, size_t bytes) {
    struct { ptr_t *out; size_t bytes; } params = {out, bytes};
    CALL(243, cuMemAlloc, result = take(out, bytes); if (!result) count(*out, bytes));
}
CUresult cuMemAllocPitch_v2(ptr_t *out, size_t *pitch, size_t width, size_t height, unsigned element) {
    struct { ptr_t *out; size_t *pitch; size_t width, height; unsigned element; } params = {out, pitch, width, height, element};
    /* A call within a call. */
    CALL(244, cuMemAllocPitch, *pitch = (width + 511) / 512 * 512; result = cuMemAlloc_v2(out, *pitch * height));
}
CUresult cuMemFree_v2(ptr_t address) {
    struct { ptr_t address; } params = {address};
    CALL(245, cuMemFree, result = give(address));
}
CUresult cuMemAllocManaged(ptr_t *out, size_t bytes, unsigned flags) {
    struct { ptr_t *out; size_t bytes; unsigned flags; } params = {out, bytes, flags};
    CALL(371, cuMemAllocManaged, result = take(out, bytes));
}
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    struct { void **out; size_t bytes; unsigned flags; } params = {out, bytes, flags};
    CALL(39, cuMemHostAlloc, result = take((ptr_t *)out, bytes));
}
CUresult cuMemFreeHost(void *address) {
    struct { void *address; } params = {address};
    CALL(38, cuMemFreeHost, result = give((ptr_t)address));
}
CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    struct { void *address; size_t bytes; unsigned flags; } params = {address, bytes, flags};
    CALL(379, cuMemHostRegister, );
}
CUresult cuMemHostUnregister(void *address) {
    struct { void *address; } params = {address};
    CALL(302, cuMemHostUnregister, );
}
CUresult cuMemAddressReserve(ptr_t *out, size_t bytes, size_t alignment, ptr_t wanted, unsigned long long flags) {
    struct { ptr_t *out; size_t bytes, alignment; ptr_t wanted; unsigned long long flags; } params = {out, bytes, alignment, wanted, flags};
    CALL(547, cuMemAddressReserve, result = take(out, bytes));
}
CUresult cuMemAddressFree(ptr_t address, size_t bytes) {
    struct { ptr_t address; size_t bytes; } params = {address, bytes};
    CALL(548, cuMemAddressFree, result = give(address));
}
CUresult cuMemCreate(unsigned long long *handle, size_t bytes, const int *properties, unsigned long long flags) {
    struct { unsigned long long *handle; size_t bytes; const int *properties; unsigned long long flags; } params = {handle, bytes, properties, flags};
    CALL(549, cuMemCreate, result = take((ptr_t *)handle, bytes));
}
CUresult cuMemRelease(unsigned long long handle) {
    struct { unsigned long long handle; } params = {handle};
    CALL(550, cuMemRelease, result = give(handle));
}
CUresult cuMemMap(ptr_t address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags) {
    struct { ptr_t address; size_t bytes, offset; unsigned long long handle, flags; } params = {address, bytes, offset, handle, flags};
    CALL(551, cuMemMap, );
}
CUresult cuMemUnmap(ptr_t address, size_t bytes) {
    struct { ptr_t address; size_t bytes; } params = {address, bytes};
    CALL(552, cuMemUnmap, );
}
CUresult cuMemPoolCreate(void **pool, const int *properties) {
    struct { void **pool; const int *properties; } params = {pool, properties};
    CALL(607, cuMemPoolCreate, result = take((ptr_t *)pool, 1));
}
CUresult cuMemPoolDestroy(void *pool) {
    struct { void *pool; } params = {pool};
    CALL(608, cuMemPoolDestroy, result = give((ptr_t)pool));
}
CUresult cuMemPoolTrimTo(void *pool, size_t bytes) {
    struct { void *pool; size_t bytes; } params = {pool, bytes};
    CALL(602, cuMemPoolTrimTo, );
}
CUresult cuMemAllocFromPoolAsync(ptr_t *out, size_t bytes, void *pool, void *stream) {
    struct { ptr_t *out; size_t bytes; void *pool, *stream; } params = {out, bytes, pool, stream};
    CALL(611, cuMemAllocFromPoolAsync, result = take(out, bytes));
}
CUresult cuMemAllocAsync_ptsz(ptr_t *out, size_t bytes, void *stream) {
    struct { ptr_t *out; size_t bytes; void *stream; } params = {out, bytes, stream};
    CALL(599, cuMemAllocAsync_ptsz, result = take(out, bytes));
}
CUresult cuMemFreeAsync(ptr_t address, void *stream) {
    struct { ptr_t address; void *stream; } params = {address, stream};
    CALL(600, cuMemFreeAsync, result = give(address));
}
CUresult cuArray3DCreate_v2(void **out, const void *descriptor) {
    struct { void **out; const void *descriptor; } params = {out, descriptor};
    CALL(274, cuArray3DCreate, result = take((ptr_t *)out, 1));
}
CUresult cuArrayDestroy(void *array) {
    struct { void *array; } params = {array};
    CALL(89, cuArrayDestroy, result = give((ptr_t)array));
}
