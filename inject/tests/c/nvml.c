/* A stand-in for libnvidia-ml: two devices with known figures, in another order than CUDA's. CUDA's
 * device d has (80 + d) GiB, 600 MiB of them the driver's own. Taken are 1 GiB + what the stand-in for libcuda says, by
 * this process (500 + d) MiB + that.
 * STANDIN_NVML is `fails` (no initialisation), `by-bus` (no device has a UUID), `silent` (no figures of processes),
 * `many` (the first answer has no room for all processes), `old` (only the first version of the figures, which counts
 * the driver's own as taken), `slow` (a figure is asked for 20 ms before and 20 ms after it is taken, and the start takes
 * as long) or nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } Process;
typedef struct { int number, cuda; } Device;

static Device devices[2] = {{0, 1}, {1, 0}};
static int is_ready;

static int is(const char *what) {
    const char *set = getenv("STANDIN_NVML");
    return set && !strcmp(set, what);
}

static void pause_if_slow(void) {
    if (is("slow")) usleep(20000);
}

static unsigned long long taken(const Device *device) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    unsigned long long (*ask)(int) = cuda ? (unsigned long long (*)(int))dlsym(cuda, "standin_taken") : NULL;
    pause_if_slow();
    unsigned long long bytes = ask ? ask(device->cuda) : 0;
    pause_if_slow();
    return bytes;
}

static int find(const char *name, const char *format, void **device) {
    for (int i = 0; i < 2; i++) {
        char own[64];
        int cuda = devices[i].cuda;
        snprintf(own, sizeof own, format, 0xa0 + cuda, 0xa0 + cuda, 0xa0 + cuda, 0xa0 + cuda);
        if (!strncmp(name, own, strlen(own))) {
            *device = &devices[i];
            return 0;
        }
    }
    return 6;
}

int nvmlInit_v2(void) {
    pause_if_slow();
    is_ready = !is("fails");
    return is_ready ? 0 : 999;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return is_ready ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &devices[index % 2];
    return is_ready ? 0 : 1;
}
int nvmlDeviceGetHandleByUUID(const char *name, void **device) {
    return !is_ready || is("by-bus") ? 6 : find(name, "GPU-%02x%02x%02x%02x-", device);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *name, void **device) {
    return is_ready ? find(name, "0000:%02X:00.0", device) : 1;
}
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    memory->total = (80ull + device->cuda) << 30;
    memory->used = (1ull << 30) + (600ull << 20) + taken(device);
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *memory) {
    if (memory->version != (sizeof *memory | 2 << 24) || is("old")) return 25;
    memory->total = (80ull + device->cuda) << 30;
    memory->reserved = 600ull << 20;
    memory->used = (1ull << 30) + taken(device);
    memory->free = memory->total - memory->reserved - memory->used;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *found) {
    unsigned all = is("many") ? 200 : 2;
    if (*count < all) {
        *count = all;
        return 7;
    }
    for (unsigned i = 0; i < all; i++) found[i] = (Process){1, 12345, 0, 0};
    found[all - 1] = (Process){getpid(), ((500ull + device->cuda) << 20) + taken(device), 0, 0};
    if (is("silent")) found[all - 1].used = -1ull;
    *count = all;
    return 0;
}
