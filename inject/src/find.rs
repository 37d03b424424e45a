//! Where libcupti may be.
//!
//! Owns the order of the search. Opens nothing.

use std::env;
use std::path::{Path, PathBuf};

use crate::modules::Loaded;
use crate::settings;

/// Major versions of CUDA, newest first.
const VERSIONS: [&str; 3] = ["13", "12", "11"];

/// Files and names to try, the best first: the one that the environment names and no other; the one that is loaded
/// (PyTorch's, say); those of Python's wheels that something was loaded from; what the linker finds; CUDA's folders.
pub(crate) fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(settings::CUPTI).filter(|name| !name.is_empty()) {
        return vec![named.into()];
    }
    let loaded = Loaded::now();
    let mut found: Vec<PathBuf> = loaded.named("libcupti.so").cloned().collect();
    let versions = versions_of(&loaded);
    for folder in loaded.modules.iter().filter_map(|module| wheels(&module.path)) {
        for version in &versions {
            for sub in [format!("nvidia/cu{version}/lib"), "nvidia/cuda_cupti/lib".to_owned()] {
                found.push(folder.join(sub).join(format!("libcupti.so.{version}")));
            }
        }
    }
    let names = versions.iter().map(|version| format!("libcupti.so.{version}"));
    let names: Vec<String> = names.chain(["libcupti.so".to_owned()]).collect();
    found.extend(names.iter().map(PathBuf::from));
    for folder in cuda_folders(&loaded) {
        for sub in ["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"] {
            found.extend(names.iter().map(|name| folder.join(sub).join(name)));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|path| (path.components().count() == 1 || path.is_file()) && seen.insert(path.clone()));
    found
}

/// All versions, the one of a runtime that is loaded first.
fn versions_of(loaded: &Loaded) -> Vec<&'static str> {
    let names: Vec<String> =
        loaded.named("libcudart").map(|path| path.to_string_lossy().into_owned()).collect();
    let mut versions = VERSIONS.to_vec();
    versions.sort_by_key(|version| !names.iter().any(|name| name.contains(&format!(".so.{version}"))));
    versions
}

/// The folder that Python's packages lie in, for a file in one of them.
fn wheels(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| {
        folder.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages")
    })
}

fn cuda_folders(loaded: &Loaded) -> Vec<PathBuf> {
    let variables = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    // `/usr/local/cuda-13.0/lib64/libcudart.so`, `.../targets/x86_64-linux/lib/libcudart.so`.
    let runtimes =
        loaded.named("libcudart").flat_map(|path| path.ancestors().skip(2).take(3)).map(PathBuf::from);
    variables.chain(runtimes).chain([PathBuf::from("/usr/local/cuda")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_found_from_any_file_in_them() {
        let path = Path::new("/v/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so");
        assert_eq!(wheels(path), Some(Path::new("/v/lib/python3.12/site-packages")));
        assert_eq!(wheels(Path::new("/usr/lib/libc.so.6")), None);
    }
}
