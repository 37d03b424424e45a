//! Names that people know for files of machine code.
//!
//! Owns which file belongs to which library, and what one should know about a library that takes memory by itself. File
//! names are those of NVIDIA's and the frameworks' packages; what is not listed keeps its own name.

/// A library and the beginnings of its files' names.
#[derive(Debug)]
struct Library {
    name: &'static str,
    files: &'static [&'static str],
    note: Option<&'static str>,
}

const fn library(name: &'static str, files: &'static [&'static str], note: Option<&'static str>) -> Library {
    Library { name, files, note }
}

/// In this order: the first whose file name fits.
static LIBRARIES: [Library; 17] = [
    library(
        "cuBLAS",
        &["libcublas"],
        Some(
            "a handle keeps its workspace: CUBLAS_WORKSPACE_CONFIG bounds it, fewer streams and threads mean fewer handles",
        ),
    ),
    library("cuDNN", &["libcudnn"], None),
    library(
        "NCCL",
        &["libnccl", "nccl"],
        Some(
            "each communicator keeps buffers: share process groups; NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS bound them",
        ),
    ),
    library("NVSHMEM", &["libnvshmem", "nvshmem"], None),
    library("cuFFT", &["libcufft"], None),
    library("cuSOLVER", &["libcusolver"], None),
    library("cuSPARSE", &["libcusparse"], None),
    library("cuRAND", &["libcurand"], None),
    library("TensorRT", &["libnvinfer"], None),
    library(
        "XLA",
        &["xla_cuda_plugin", "libxla", "xla_extension", "libjax", "jaxlib"],
        Some(
            "XLA takes a large part of the device at its start, whatever the program needs: \
             XLA_PYTHON_CLIENT_MEM_FRACTION bounds it, XLA_PYTHON_CLIENT_PREALLOCATE=false turns it off; what the program \
             uses of it is not seen here",
        ),
    ),
    library("TensorFlow", &["libtensorflow", "_pywrap_tensorflow"], None),
    library("ONNX Runtime", &["libonnxruntime", "onnxruntime"], None),
    library(
        "CuPy",
        &["cupy"],
        Some("CuPy keeps freed memory in its pool: cupy.get_default_memory_pool().free_all_blocks()"),
    ),
    library("RMM", &["librmm", "rmm"], None),
    library("Numba", &["numba"], None),
    library("Triton", &["libtriton", "triton"], None),
    library("PyTorch, beside its allocator", &["libtorch", "libc10", "torch"], None),
];

/// The library that `file` (a name without its folder, or a package) is of: its name, and its note.
pub(super) fn library_of(file: &str) -> Option<(&'static str, Option<&'static str>)> {
    let found = LIBRARIES.iter().find(|library| library.files.iter().any(|start| file.starts_with(start)));
    found.map(|library| (library.name, library.note))
}

/// Files between a caller and the driver: nobody's own.
const BETWEEN: [&str; 12] = [
    "libcuda.so",
    "libcudart",
    "libcudadebugger",
    "libnvidia-",
    "libcupti",
    "libmemlab_",
    "libffi",
    "_ctypes.",
    "ld-linux",
    "libdl.so",
    "libpthread",
    "linux-vdso",
];

/// Whether `file` only passes calls on.
pub(super) fn is_between(file: &str) -> bool {
    BETWEEN.iter().any(|start| file.starts_with(start))
}

/// The file that PyTorch's caching allocator is in.
pub(super) fn is_of_the_allocator(file: &str) -> bool {
    file.starts_with("libc10_cuda.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_packages_have_their_librarys_name() {
        for (file, name) in [
            ("libcublasLt.so.13", Some("cuBLAS")),
            ("libcudnn_engines_precompiled.so.9", Some("cuDNN")),
            ("libnccl.so.2", Some("NCCL")),
            ("xla_cuda_plugin.so", Some("XLA")),
            ("libtorch_cuda.so", Some("PyTorch, beside its allocator")),
            ("cupy_backends", Some("CuPy")),
            ("libmine.so", None),
        ] {
            assert_eq!(library_of(file).map(|found| found.0), name, "{file}");
        }
    }

    #[test]
    fn the_runtime_is_between_and_a_callers_own_file_is_not() {
        assert!(["libcuda.so.1", "libcudart.so.13", "libcudart-a1b2.so.12"].into_iter().all(is_between));
        assert!(!["libc10_cuda.so", "leaks", "libcublas.so.13", "libcudnn.so.9"].into_iter().any(is_between));
        assert!(is_of_the_allocator("libc10_cuda.so"));
    }
}
