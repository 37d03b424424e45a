/* Calls the driver in a known order, and says on stdout what it called and what came of it: one line a call, `thread
 * call result address bytes handle`, numbers as in the trace. The first argument is what to do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long ptr_t;
#define NOINLINE __attribute__((noinline, noclone))

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(ptr_t *, size_t);
int cuMemAllocPitch_v2(ptr_t *, size_t *, size_t, size_t, unsigned);
int cuMemFree_v2(ptr_t);
int cuMemAllocManaged(ptr_t *, size_t, unsigned);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuMemAddressReserve(ptr_t *, size_t, size_t, ptr_t, unsigned long long);
int cuMemAddressFree(ptr_t, size_t);
int cuMemCreate(unsigned long long *, size_t, const int *, unsigned long long);
int cuMemRelease(unsigned long long);
int cuMemMap(ptr_t, size_t, size_t, unsigned long long, unsigned long long);
int cuMemUnmap(ptr_t, size_t);
int cuMemPoolCreate(void **, const int *);
int cuMemPoolDestroy(void *);
int cuMemPoolTrimTo(void *, size_t);
int cuMemAllocFromPoolAsync(ptr_t *, size_t, void *, void *);
int cuMemAllocAsync_ptsz(ptr_t *, size_t, void *);
int cuMemFreeAsync(ptr_t, void *);
int cuArray3DCreate_v2(void **, const void *);
int cuArrayDestroy(void *);

static void say(int call, int result, ptr_t address, size_t bytes, ptr_t handle) {
    printf("%ld %d %d %llu %zu %llu\n", syscall(SYS_gettid), call, result, address, bytes, handle);
}

static ptr_t allocate(size_t bytes) {
    ptr_t address = 0;
    int result = cuMemAlloc_v2(&address, bytes);
    say(1, result, address, bytes, 0);
    return address;
}

static void release(ptr_t address) { say(2, cuMemFree_v2(address), address, 0, 0); }

static void *set_up(int device) {
    void *context = NULL;
    cuInit(0);
    say(23, cuDevicePrimaryCtxRetain(&context, device), 0, 0, 0x1000 + device);
    cuCtxSetCurrent(context);
    return context;
}

/* Every kind of call once, a failure and a call within a call among them. */
static void all(void) {
    set_up(0);
    release(allocate(4096));
    allocate(1ull << 41); /* fails */
    release(1);           /* fails */
    ptr_t a = 0, b = 0;
    void *p = NULL, *pool = NULL, *array = NULL;
    size_t pitch = 0;
    int r = cuMemAllocPitch_v2(&a, &pitch, 1000, 3, 4);
    say(1, 0, a, 3 * 1024, 0); /* the inner one returns first */
    say(1, r, a, 3 * 1024, 0);
    release(a);
    r = cuMemAllocManaged(&a, 8192, 1);
    say(3, r, a, 8192, 0);
    r = cuMemHostAlloc(&p, 12288, 3);
    say(4, r, (ptr_t)p, 12288, 0);
    say(5, cuMemFreeHost(p), (ptr_t)p, 0, 0);
    say(6, cuMemHostRegister_v2(&a, 100, 0), (ptr_t)&a, 100, 0);
    say(7, cuMemHostUnregister(&a), (ptr_t)&a, 0, 0);
    unsigned long long handle = 0;
    int on_device_1[8] = {1, 0, 1, 1};
    r = cuMemAddressReserve(&b, 1 << 22, 0, 0, 0);
    say(8, r, b, 1 << 22, 0);
    r = cuMemCreate(&handle, 1 << 21, on_device_1, 0);
    say(10, r, 0, 1 << 21, handle);
    say(12, cuMemMap(b, 1 << 21, 0, handle, 0), b, 1 << 21, handle);
    say(13, cuMemUnmap(b, 1 << 21), b, 1 << 21, 0);
    say(11, cuMemRelease(handle), 0, 0, handle);
    say(9, cuMemAddressFree(b, 1 << 22), b, 1 << 22, 0);
    r = cuMemPoolCreate(&pool, on_device_1);
    say(16, r, 0, 0, (ptr_t)pool);
    r = cuMemAllocFromPoolAsync(&a, 777, pool, (void *)0x55);
    say(14, r, a, 777, (ptr_t)pool);
    say(15, cuMemFreeAsync(a, (void *)0x55), a, 0, 0);
    r = cuMemAllocAsync_ptsz(&a, 778, NULL);
    say(14, r, a, 778, 0);
    say(18, cuMemPoolTrimTo(pool, 4096), 0, 4096, (ptr_t)pool);
    say(17, cuMemPoolDestroy(pool), 0, 0, (ptr_t)pool);
    size_t descriptor[5] = {64, 32, 0, 0x20 | 4ull << 32, 0};
    r = cuArray3DCreate_v2(&array, descriptor);
    say(19, r, 0, 64 * 32 * 16, (ptr_t)array);
    say(20, cuArrayDestroy(array), 0, 0, (ptr_t)array);
    say(24, cuDevicePrimaryCtxRelease_v2(0), 0, 0, 0);
}

static int rounds = 300;

static void *storm(void *seed) {
    cuCtxSetCurrent((void *)(uintptr_t)(0x1000 + (uintptr_t)seed % 2));
    ptr_t held[4] = {0};
    for (int i = 0; i < rounds; i++) {
        ptr_t *slot = &held[i * 7 % 4];
        if (*slot) release(*slot);
        *slot = allocate(((uintptr_t)seed + 1) * 100000 + i);
    }
    for (int i = 0; i < 4; i++)
        if (held[i]) release(held[i]);
    return NULL;
}

static void threads(void) {
    pthread_t ids[6];
    set_up(0);
    for (uintptr_t i = 0; i < 6; i++) pthread_create(&ids[i], NULL, storm, (void *)i);
    for (int i = 0; i < 6; i++) pthread_join(ids[i], NULL);
}

/* A library that allocates is loaded and unloaded again and again while other threads work. */
static void plugins(const char *path) {
    pthread_t ids[3];
    set_up(0);
    for (uintptr_t i = 0; i < 3; i++) pthread_create(&ids[i], NULL, storm, (void *)i);
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(path, RTLD_NOW);
        int (*take)(ptr_t *, size_t) = library ? (int (*)(ptr_t *, size_t))dlsym(library, "plugin_allocate") : NULL;
        if (!take) abort();
        ptr_t address = 0;
        int result = take(&address, 7000 + i);
        say(1, result, address, 7000 + i, 0);
        dlclose(library);
    }
    for (int i = 0; i < 3; i++) pthread_join(ids[i], NULL);
}

NOINLINE static ptr_t inner(size_t bytes) {
    ptr_t address = 0;
    cuMemAlloc_v2(&address, bytes); /* LINE inner */
    return address + 1;
}
NOINLINE static ptr_t middle(size_t bytes) {
    return inner(bytes) + 1; /* LINE middle */
}
NOINLINE static void stacks(void) {
    set_up(0);
    ptr_t sum = 0;
    volatile int count = 3; /* one call, thrice */
    for (int i = 0; i < count; i++) sum += middle(64); /* LINE stacks */
    sum += inner(65);
    if (sum == 1) abort();
}

static void forks(int is_exec, char *self) {
    set_up(0);
    allocate(1001);
    allocate(1002);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (is_exec) execl(self, self, "one", NULL);
        allocate(2001);
        allocate(2002);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    allocate(1003);
    fprintf(stderr, "child %d\n", (int)child);
}

static void bench(int count) {
    set_up(0);
    struct timespec a, b;
    ptr_t address;
    for (int pass = 0; pass < 2; pass++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < count; i++) {
            cuMemAlloc_v2(&address, 512);
            cuMemFree_v2(address);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
    }
    double ns = (b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec);
    printf("%.0f\n", ns / (2.0 * count));
}

/* Two devices, one after the other, and pauses that are long enough for readings. */
static void two_devices(void) {
    set_up(0);
    usleep(100000);
    allocate(5000);
    usleep(700000);
    allocate(5001);
    usleep(700000);
    set_up(1);
    usleep(100000);
    release(allocate(5002));
}

/* Bursts of allocations and frees, and some rest between them. */
static void bursts(void) {
    ptr_t held[100];
    set_up(0);
    for (int burst = 0; burst < 3; burst++) {
        for (int i = 0; i < 100; i++, usleep(3000)) held[i] = allocate(10000 + i);
        for (int i = burst; i < 100; i++, usleep(3000)) release(held[i]);
        usleep(500000);
    }
}

static void at_the_end(void) { allocate(31337); }

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    if (!strcmp(what, "all")) all();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "stacks")) stacks();
    if (!strcmp(what, "plugins")) plugins(argv[2]);
    if (!strcmp(what, "fork")) forks(0, argv[0]);
    if (!strcmp(what, "exec")) forks(1, argv[0]);
    if (!strcmp(what, "fork-late")) set_up(0), usleep(300000), forks(0, argv[0]);
    if (!strcmp(what, "bench")) bench(argc > 2 ? atoi(argv[2]) : 20000);
    if (!strcmp(what, "late")) atexit(at_the_end), set_up(0);
    if (!strcmp(what, "one")) set_up(0), allocate(3001);
    if (!strcmp(what, "two")) two_devices();
    if (!strcmp(what, "bursts")) bursts();
    if (!strcmp(what, "wait")) {
        set_up(0);
        for (int i = 0; i < 2999; i++) allocate(i + 1);
        puts("ready");
        fflush(stdout);
        pause();
    }
    if (!strcmp(what, "forever")) {
        set_up(0);
        for (size_t i = 1;; i++) {
            ptr_t address = 0;
            cuMemAlloc_v2(&address, i);
        }
    }
    return argc > 2 && !strcmp(what, "one") ? atoi(argv[2]) : 0;
}
