/* A stand-in for libcupti: one subscriber, callbacks that were enabled, and nothing else. */
#define _GNU_SOURCE
#include "standin.h"
#include <dlfcn.h>
#include <stdlib.h>

static Callback subscriber;
static void *subscriber_data;
static unsigned char enabled[1024];

static void observe(uint32_t id, const CallbackData *data) {
    if (subscriber && id < sizeof enabled && enabled[id]) subscriber(subscriber_data, 1, id, data);
}

int cuptiSubscribe(void **handle, Callback callback, void *data) {
    if (getenv("STANDIN_CUPTI_ERROR")) return atoi(getenv("STANDIN_CUPTI_ERROR"));
    if (subscriber) return 39;
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*set_observer)(Observer) = cuda ? (void (*)(Observer))dlsym(cuda, "standin_set_observer") : NULL;
    if (!set_observer) return 15;
    subscriber = callback;
    subscriber_data = data;
    *handle = &subscriber;
    set_observer(observe);
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t id) {
    if (handle != (void *)&subscriber || domain != 1 || id >= sizeof enabled) return 1;
    enabled[id] = enable != 0;
    return 0;
}

/* The stand-in's contexts are numbers: 0x1000 + device. */
int cuptiGetDeviceId(void *context, uint32_t *device) {
    *device = (uint32_t)((uintptr_t)context - 0x1000);
    return 0;
}

int cuptiGetVersion(uint32_t *version) {
    *version = 130000;
    return 0;
}
