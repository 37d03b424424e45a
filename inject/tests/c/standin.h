/* What the stand-ins for libcuda and libcupti share: CUPTI's record of a callback, as its headers have it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int callbackSite;
    const char *functionName;
    const void *functionParams;
    void *functionReturnValue;
    const char *symbolName;
    void *context;
    uint32_t contextUid;
    uint64_t *correlationData;
    uint32_t correlationId;
} CallbackData;

typedef void (*Callback)(void *userdata, int domain, uint32_t id, const CallbackData *data);

/* libcuda calls this, if it is set, around every function. */
typedef void (*Observer)(uint32_t id, const CallbackData *data);
