/* A library that comes and goes, and allocates while it is there. */
typedef unsigned long long ptr_t;
int cuMemAlloc_v2(ptr_t *, unsigned long);

int plugin_allocate(ptr_t *out, unsigned long bytes) {
    int result = cuMemAlloc_v2(out, bytes);
    return result + !*out;
}
