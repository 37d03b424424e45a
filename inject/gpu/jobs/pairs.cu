// Takes memory and gives it back, over and over: what a call costs, without and with a recorder.
// Prints lines `NAME MICROSECONDS COUNT CALLS`: the time of one pair, how many were done, and the driver's calls in one.
// Usage: pairs MALLOCS ASYNCS SECONDS, where a loop that lasts longer than SECONDS ends early.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

using Clock = std::chrono::steady_clock;

static const size_t BYTES = 1 << 20;

static double microseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The clock is looked at after every hundredth pair: it must not count among what is measured.
template <typename Pair>
static void timed(const char *name, long most, double seconds, Pair pair) {
    for (int i = 0; i < 100; i++) pair();
    CHECK(cudaDeviceSynchronize());
    long done = 0;
    Clock::time_point start = Clock::now();
    while (done < most) {
        pair();
        if (++done % 100 == 0 && microseconds_since(start) > seconds * 1e6) break;
    }
    CHECK(cudaDeviceSynchronize());
    printf("%s %.3f %ld 2\n", name, microseconds_since(start) / (done ? done : 1), done);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    double seconds = atof(words[3]);
    CHECK(cudaFree(0));
    timed("malloc_free", atol(words[1]), seconds, [] {
        void *memory;
        CHECK(cudaMalloc(&memory, BYTES));
        CHECK(cudaFree(memory));
    });
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    timed("async_pair", atol(words[2]), seconds, [stream] {
        void *memory;
        CHECK(cudaMallocAsync(&memory, BYTES, stream));
        CHECK(cudaFreeAsync(memory, stream));
    });
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
