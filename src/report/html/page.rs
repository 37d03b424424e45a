//! The frame of every page: one file that may load nothing.
//!
//! Owns the document, its Content-Security-Policy and how style sheets and scripts get into it. What stands in
//! the page is its caller's; a body arrives as finished, escaped HTML.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// A page in the making.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Page<'a> {
    /// Text of the window's title; escaped here.
    pub(in crate::report) title: &'a str,
    /// Finished HTML: whoever made it has escaped what came from a trace.
    pub(in crate::report) body: &'a str,
    /// Style sheets of ours, one after the other.
    pub(in crate::report) styles: &'a [&'a str],
    /// Scripts of ours, one after the other in one scope: the first ones define what the later ones use.
    pub(in crate::report) scripts: &'a [&'a str],
}

#[derive(Template)]
#[template(path = "page.html", config = "src/report/assets/askama.toml")]
struct Document<'a> {
    policy: String,
    title: &'a str,
    style: String,
    body: &'a str,
    script: String,
}

/// The whole document. It loads nothing: the policy allows this very style sheet and this very script, by
/// their hashes, and pictures that stand in the page itself.
#[must_use]
pub(in crate::report) fn page(page: Page<'_>) -> String {
    let (style, script) = (page.styles.join("\n"), page.scripts.join("\n"));
    let document =
        Document { policy: policy(&style, &script), title: page.title, style, body: page.body, script };
    document.render().unwrap_or_default()
}

fn policy(style: &str, script: &str) -> String {
    let scripts = if script.is_empty() { "'none'".to_owned() } else { source(script) };
    format!(
        "default-src 'none'; style-src {}; script-src {scripts}; img-src data:; base-uri 'none'; form-action 'none'",
        source(style)
    )
}

/// An inline element as a policy names it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_page_allows_its_own_style_and_script_and_nothing_else() {
        let made =
            page(Page { title: "a </title><b>", body: "<p>text</p>", styles: &["b{}"], scripts: &["1;"] });
        assert!(made.contains("default-src &#39;none&#39;") || made.contains("default-src 'none'"), "{made}");
        assert!(made.contains("<style>b{}</style>") && made.contains("<script type=\"module\">1;</script>"));
        assert!(!made.contains("</title><b>") && made.contains("<p>text</p>"));
        assert_eq!(source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
