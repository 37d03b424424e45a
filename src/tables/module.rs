//! Names of modules: which part of the user's program a file belongs to.
//!
//! Owns the rule behind `--group-by module`. A recording has file names only, no package roots, so the rule
//! rests on what the user's files have in common.

use std::collections::BTreeMap;

/// Module names of the user files of a trace.
///
/// Files are taken together by their first folder (`/home`, `/tmp`). Below the deepest folder that all of
/// them share, the module is the first folder, or for a file right there its name without extension:
/// of `/home/me/gpt/train.py` and `/home/me/gpt/model/block.py`, `train` and `model`.
#[derive(Clone, Debug, Default)]
pub(super) struct ModuleNames {
    /// First folder of a file → number of leading parts that all files below it share.
    shared: BTreeMap<String, Vec<String>>,
}

impl ModuleNames {
    pub(super) fn new<'a>(files: impl Iterator<Item = &'a str>) -> Self {
        let mut shared: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in files {
            let parts = parts_of(file);
            let folders = &parts[..parts.len() - 1];
            match shared.get_mut(root_of(&parts)) {
                Some(common) => {
                    let same = common.iter().zip(folders).take_while(|(a, b)| a == b).count();
                    common.truncate(same);
                }
                None => {
                    shared.insert(root_of(&parts).to_owned(), folders.to_vec());
                }
            }
        }
        Self { shared }
    }

    /// The module that `file` belongs to.
    pub(super) fn name(&self, file: &str) -> String {
        let parts = parts_of(file);
        let common = self.shared.get(root_of(&parts)).map_or(0, Vec::len);
        let own = &parts[common.min(parts.len() - 1)..];
        match own {
            [name] => name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned(),
            [folder, ..] => folder.clone(),
            [] => String::new(),
        }
    }
}

/// Never empty: a text without a slash is one part.
fn parts_of(file: &str) -> Vec<String> {
    file.trim_start_matches(['/', '\\']).split(['/', '\\']).map(str::to_owned).collect()
}

fn root_of(parts: &[String]) -> &str {
    if parts.len() > 1 { &parts[0] } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<String> {
        let modules = ModuleNames::new(files.iter().copied());
        files.iter().map(|file| modules.name(file)).collect()
    }

    #[test]
    fn a_module_is_the_package_or_file_below_the_shared_folder() {
        let files =
            ["/home/me/gpt/train.py", "/home/me/gpt/model/block.py", "/home/me/gpt/model/layers/norm.py"];
        assert_eq!(names(&files), ["train", "model", "model"]);
    }

    #[test]
    fn a_notebook_cell_elsewhere_does_not_widen_the_shared_folder() {
        let files = ["/home/me/gpt/train.py", "/home/me/gpt/data.py", "/tmp/ipykernel_7/310587.py"];
        assert_eq!(names(&files), ["train", "data", "310587"]);
    }

    #[test]
    fn bare_names_and_odd_names_are_their_own_modules() {
        assert_eq!(names(&["train.py", "model.py", "<stdin>", ""]), ["train", "model", "<stdin>", ""]);
        assert_eq!(names(&["src/train.py", "C:\\me\\a.py"]), ["train", "a"]);
    }
}
