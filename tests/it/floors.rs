//! Imports go downwards only: the table of `docs/design.md` against the paths in the code.
//!
//! Reads every `src/**/*.rs`, blanks comments, texts and test code, and collects the folder behind each
//! `crate::` (and behind each chain of `super::` that climbs out of its folder), nested groups included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn imports_go_downwards_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let design = std::fs::read_to_string(root.join("docs/design.md")).unwrap();
    let floors = Floors::parse(&design).unwrap();
    let mut sources = BTreeMap::new();
    read_sources(&root.join("src"), &root.join("src"), &mut sources);
    assert!(sources.len() > 20, "the sources were not found");
    let faults: Vec<_> = sources.iter().flat_map(|(path, text)| floors.faults(path, text)).collect();
    assert!(faults.is_empty(), "against the table in docs/design.md:\n{}", faults.join("\n"));
}

fn read_sources(root: &Path, folder: &Path, sources: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(root, &path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            sources.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Which folder may import which.
struct Floors {
    allowed: BTreeMap<String, BTreeSet<String>>,
}

impl Floors {
    /// Reads rows like ``| 3 | `import` | `format`, `model` |``; "everything" is whatever lies below.
    fn parse(markdown: &str) -> Result<Self, String> {
        let rows: Vec<(u32, Vec<String>, &str)> = markdown.lines().filter_map(row).collect();
        let floor_of: BTreeMap<&str, u32> = rows
            .iter()
            .flat_map(|(floor, folders, _)| folders.iter().map(|folder| (folder.as_str(), *floor)))
            .collect();
        let mut allowed = BTreeMap::new();
        for (floor, folders, imports) in &rows {
            let mut may: BTreeSet<String> = quoted(imports).into_iter().collect();
            if imports.contains("everything") {
                let below = floor_of.iter().filter(|(_, below)| *below < floor);
                may.extend(below.map(|(folder, _)| (*folder).to_owned()));
            }
            for import in &may {
                match floor_of.get(import.as_str()) {
                    Some(below) if below < floor => {}
                    Some(_) => {
                        return Err(format!("{folders:?} on floor {floor} may not look up to `{import}`"));
                    }
                    None => return Err(format!("`{import}` has no row")),
                }
            }
            for folder in folders {
                if allowed.insert(folder.clone(), may.clone()).is_some() {
                    return Err(format!("`{folder}` has two rows"));
                }
            }
        }
        if allowed.is_empty() { Err("there is no table".to_owned()) } else { Ok(Self { allowed }) }
    }

    /// What is wrong with the file `path` (relative to `src`).
    fn faults(&self, path: &str, source: &str) -> Vec<String> {
        let folder = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
        if matches!(path, "lib.rs" | "main.rs") {
            return Vec::new();
        }
        let Some(allowed) = self.allowed.get(folder) else {
            return vec![format!("src/{path}: `{folder}` has no row")];
        };
        imports(&code_only(source), depth(path))
            .into_iter()
            .filter(|import| import != folder && !allowed.contains(import))
            .map(|import| format!("src/{path}: `{folder}` may not import `{import}`"))
            .collect()
    }
}

fn row(line: &str) -> Option<(u32, Vec<String>, &str)> {
    let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
    let floor = cells.next()?.parse().ok()?;
    Some((floor, quoted(cells.next()?), cells.next()?))
}

/// What stands in backticks; `std` is everybody's.
fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(|name| name.trim_end_matches('/').to_owned()).filter(|name| name != "std").collect()
}

/// How many modules lie between the file's own module and the crate's root, itself included.
fn depth(path: &str) -> usize {
    path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count()
}

/// The top-level names that `code` reaches.
fn imports(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(is_word) && !code[..at].ends_with('$') {
            heads(&code[at + "crate::".len()..], &mut found);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with(is_word) || code[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut climbed = 0;
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, climbed) = (above, climbed + 1);
        }
        if climbed >= depth {
            heads(rest, &mut found);
        }
    }
    found
}

/// The first name of `path`, or of every member when it is a group.
fn heads(path: &str, found: &mut BTreeSet<String>) {
    let path = path.trim_start();
    let Some(group) = path.strip_prefix('{') else {
        let end = path.find(|c: char| !is_word(c)).unwrap_or(path.len());
        found.insert(if end == 0 { path.chars().take(1).collect() } else { path[..end].to_owned() });
        return;
    };
    let (mut level, mut start) = (0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => level += 1,
            ',' | '}' if level == 0 => {
                let member = group[start..at].trim();
                if !member.is_empty() {
                    heads(member, found);
                }
                start = at + 1;
                if character == '}' {
                    return;
                }
            }
            '}' => level -= 1,
            _ => {}
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The source without comments, texts and what stands behind `#[cfg(test)]`.
fn code_only(source: &str) -> String {
    let blank = without_texts(source);
    let mut code = String::new();
    let mut rest = blank.as_str();
    while let Some(at) = rest.find("#[cfg(test)]") {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[item_end(rest)..];
    }
    code + rest
}

/// Where the item at the start of `code` ends: at its semicolon or at its closing brace.
fn item_end(code: &str) -> usize {
    let mut level = 0usize;
    for (at, character) in code.char_indices() {
        match character {
            '{' => level += 1,
            '}' if level <= 1 => return at + 1,
            '}' => level -= 1,
            ';' if level == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The source with comments, string and character literals left out.
fn without_texts(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        let skip = literal_length(rest, code.ends_with(is_word));
        if skip > 0 {
            code.push(' ');
            rest = &rest[skip..];
        } else {
            code.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    code
}

/// Length of the comment or literal at the start of `rest`; 0 when there is none.
fn literal_length(rest: &str, after_word: bool) -> usize {
    let until =
        |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return until(2, "*/");
    }
    if let Some(inner) = rest.strip_prefix('"') {
        return 1 + quoted_length(inner, '"');
    }
    if rest.starts_with('r') && !after_word {
        let hashes = rest[1..].chars().take_while(|&c| c == '#').count();
        if rest[1 + hashes..].starts_with('"') {
            return until(2 + hashes, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    // A quote also begins a lifetime: only `'x'` and `'\...'` are characters.
    if let Some(inner) = rest.strip_prefix('\'') {
        let is_character = inner.starts_with('\\') || inner.chars().nth(1) == Some('\'');
        return if is_character { 1 + quoted_length(inner, '\'') } else { 0 };
    }
    0
}

/// Length up to and with the closing quote.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

const TABLE: &str = "
| floor | folder | may import |
| --- | --- | --- |
| 3 | `cli` | everything |
| 2 | `import` · `export` | `model`, `error` (not each other) |
| 1 | `model` | `error` |
| 0 | `error` | `std` |
";

fn faults(path: &str, source: &str) -> Vec<String> {
    Floors::parse(TABLE).unwrap().faults(path, source)
}

#[test]
fn an_import_from_above_or_aside_is_a_fault() {
    let fault = faults("model/x.rs", "use crate::import::read;");
    assert_eq!(fault, ["src/model/x.rs: `model` may not import `import`"]);
    assert_eq!(faults("import/mod.rs", "fn f() { crate::export::write() }").len(), 1);
    assert_eq!(faults("error.rs", "use super::model::Trace;").len(), 1);
    assert_eq!(faults("import/a.rs", "use super::super::export::write;").len(), 1);
    assert_eq!(faults("import/a.rs", "use crate::*;").len(), 1);
}

#[test]
fn an_import_from_below_or_from_the_own_folder_is_none() {
    let source =
        "use crate::{error::{Error, Result}, model::Trace};\nuse super::other;\nuse crate::import::b;";
    assert_eq!(faults("import/a.rs", source), Vec::<String>::new());
    assert_eq!(
        faults("cli/commands/x.rs", "use crate::{import, export, error::Error};"),
        Vec::<String>::new()
    );
    assert_eq!(faults("lib.rs", "pub use crate::nowhere;"), Vec::<String>::new());
}

#[test]
fn groups_are_looked_into() {
    let source = "use crate::{\n    error::{self, Error},\n    export::{a, b::{c, d}},\n    model,\n};";
    assert_eq!(faults("import/a.rs", source), ["src/import/a.rs: `import` may not import `export`"]);
}

#[test]
fn a_folder_without_a_row_is_a_fault() {
    assert_eq!(faults("util/a.rs", ""), ["src/util/a.rs: `util` has no row"]);
    assert_eq!(
        faults("import/a.rs", "use crate::util::x;"),
        ["src/import/a.rs: `import` may not import `util`"]
    );
}

#[test]
fn comments_texts_and_tests_are_no_imports() {
    let source = r##"
        //! See [`crate::import`].
        /* crate::export */
        const A: &str = "crate::cli \" crate::cli";
        const B: &str = r#"crate::cli " crate::cli"#;
        const C: (char, char) = ('"', '\'');
        fn f<'a>(x: &'a str) {}
        #[cfg(test)]
        mod tests { use crate::cli::x; fn f() { g("}") } }
    "##;
    assert_eq!(faults("model/x.rs", source), Vec::<String>::new());
    let behind = format!("{source}\nuse crate::cli;");
    assert_eq!(faults("model/x.rs", &behind).len(), 1, "code behind the tests counts");
}

#[test]
fn a_table_that_looks_up_is_refused() {
    for (rows, words) in [
        ("| 1 | `a` | `b` |\n| 2 | `b` | nothing |", "may not look up"),
        ("| 1 | `a` | `b` |\n| 1 | `b` | nothing |", "may not look up"),
        ("| 1 | `a` | `c` |", "has no row"),
        ("| 1 | `a` | nothing |\n| 0 | `a` | nothing |", "two rows"),
        ("", "no table"),
    ] {
        let error = Floors::parse(rows).err().unwrap();
        assert!(error.contains(words), "{error}");
    }
}
