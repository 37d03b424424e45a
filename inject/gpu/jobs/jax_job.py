"""A product by XLA; its last line says what JAX's allocator holds. XLA_PYTHON_CLIENT_PREALLOCATE decides how it takes it."""

import json
import os
import time

import jax
import jax.numpy as jnp


def main():
    kept = [jnp.ones((rows, 1024), dtype=jnp.float32) for rows in (256, 1024, 20_000)]
    product = jnp.dot(kept[2], kept[1]).block_until_ready()
    assert float(product[0, 0]) == 1024.0
    stats = jax.local_devices()[0].memory_stats()
    facts = {"library": "jax", "version": jax.__version__, "pid": os.getpid(), "time_us": time.time_ns() // 1000}
    facts["preallocate"] = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true") == "true"
    print(json.dumps(facts | {"kept_bytes": sum(array.nbytes for array in kept), "stats": stats}), flush=True)


if __name__ == "__main__":
    main()
