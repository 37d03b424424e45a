// Takes memory by every interface of CUDA, in sizes that tell them apart, and gives half of it back. What is left is
// known: the table that `expected` prints. `memlab record` must find each, with its line.
// Build: nvcc -g -O0 -o leaks leaks.cu -lcuda (or, without nvcc: g++ -x c++ -g -O0 ... with CUDA's headers).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(call)                                                            \
    do {                                                                       \
        int error = (int)(call);                                               \
        if (error) {                                                           \
            fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, error);   \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

// One line a row: call (as in docs/trace-format.md), bytes, line, kept or freed.
static void expected(const char *call, size_t bytes, int line, const char *fate) {
    printf("%s %zu %d %s\n", call, bytes, line, fate);
}

static void runtime() {
    void *kept, *freed;
    CHECK(cudaMalloc(&kept, 1000001)); expected("device_alloc", 1000001, __LINE__, "kept");
    CHECK(cudaMalloc(&freed, 1000002)); expected("device_alloc", 1000002, __LINE__, "freed");
    CHECK(cudaFree(freed));
    CHECK(cudaMallocManaged(&kept, 1000003)); expected("managed_alloc", 1000003, __LINE__, "kept");
    CHECK(cudaMallocManaged(&freed, 1000004)); expected("managed_alloc", 1000004, __LINE__, "freed");
    CHECK(cudaFree(freed));
    CHECK(cudaMallocHost(&kept, 1000005)); expected("host_alloc", 1000005, __LINE__, "kept");
    CHECK(cudaHostAlloc(&freed, 1000006, cudaHostAllocMapped)); expected("host_alloc", 1000006, __LINE__, "freed");
    CHECK(cudaFreeHost(freed));
    void *plain = malloc(1 << 20);
    CHECK(cudaHostRegister(plain, 1000007, 0)); expected("host_register", 1000007, __LINE__, "freed");
    CHECK(cudaHostUnregister(plain));
    free(plain);
}

static void pools() {
    void *kept, *freed;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocAsync(&kept, 1000011, stream)); expected("pool_alloc", 1000011, __LINE__, "kept");
    CHECK(cudaMallocAsync(&freed, 1000012, stream)); expected("pool_alloc", 1000012, __LINE__, "freed");
    CHECK(cudaFreeAsync(freed, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void mappings() {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t bytes = 4 << 20;
    CUdeviceptr address;
    CUmemGenericAllocationHandle kept, freed;
    CHECK(cuMemAddressReserve(&address, 2 * bytes, 0, 0, 0)); expected("address_reserve", 2 * bytes, __LINE__, "kept");
    CHECK(cuMemCreate(&kept, bytes, &properties, 0)); expected("create", bytes, __LINE__, "kept");
    CHECK(cuMemCreate(&freed, 2 * bytes, &properties, 0)); expected("create", 2 * bytes, __LINE__, "freed");
    CHECK(cuMemRelease(freed));
    CHECK(cuMemMap(address, bytes, 0, kept, 0)); expected("map", bytes, __LINE__, "kept");
}

static void arrays() {
    cudaArray_t kept, freed;
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 32, 32, 32, cudaChannelFormatKindFloat);
    CHECK(cudaMallocArray(&kept, &format, 321, 123)); expected("array_create", 321 * 123 * 16, __LINE__, "kept");
    CHECK(cudaMallocArray(&freed, &format, 322, 123)); expected("array_create", 322 * 123 * 16, __LINE__, "freed");
    CHECK(cudaFreeArray(freed));
}

static void failures() {
    void *none;
    int error = (int)cudaMalloc(&none, (size_t)1 << 50); expected("device_alloc", (size_t)1 << 50, __LINE__, "failed");
    if (!error) exit(1);
    cudaGetLastError();
}

int main() {
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(0));
    runtime();
    pools();
    mappings();
    arrays();
    failures();
    std::thread(runtime).join();
    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    fprintf(stderr, "device_used %zu\n", total_bytes - free_bytes);
    return 0;
}
