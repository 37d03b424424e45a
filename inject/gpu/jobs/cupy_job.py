"""Arrays of known sizes in CuPy's pool, and a product by cuBLAS; its last line says what the pool holds."""

import json
import os
import time

import cupy
import numpy

KEPT = (1_000, 300_000, 5 << 20, 70 << 20)


def main():
    pool = cupy.get_default_memory_pool()
    kept = [cupy.zeros(size, dtype=cupy.uint8) for size in KEPT]
    given_back = cupy.empty(30 << 20, dtype=cupy.uint8)
    del given_back
    pool.free_all_blocks()
    cached = cupy.empty(11 << 20, dtype=cupy.uint8)
    del cached  # stays in the pool
    matrix = cupy.asarray(numpy.ones((512, 512), dtype=numpy.float32))
    product = cupy.dot(matrix, matrix)
    assert float(product[0, 0].get()) == 512.0
    cupy.cuda.Device().synchronize()
    free, total = cupy.cuda.runtime.memGetInfo()
    facts = {"library": "cupy", "version": cupy.__version__, "pid": os.getpid(), "time_us": time.time_ns() // 1000}
    facts |= {"pool_bytes": pool.total_bytes(), "used_bytes": pool.used_bytes(), "kept_bytes": sum(array.nbytes for array in kept)}
    print(json.dumps(facts | {"free": free, "total": total}), flush=True)


if __name__ == "__main__":
    main()
