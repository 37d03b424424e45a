//! What plotters cannot say: classes, tooltips, role, description and style sheet.
//!
//! Works on the text that plotters' SVG backend writes, one element a line, and knows an element's role by
//! its colour. Drops what changes nothing (`opacity="1"`), so that pictures stay small.

use std::collections::VecDeque;

use super::palette::{Ink, hex, style};
use crate::report::escape::xml;

/// Tooltips by role, in the order in which the elements are drawn.
#[derive(Debug, Default)]
pub(super) struct Tooltips {
    roles: Vec<Role>,
}

#[derive(Debug)]
struct Role {
    colour: String,
    class: &'static str,
    titles: VecDeque<String>,
}

impl Tooltips {
    /// Makes `ink` known, so that its elements get their class.
    pub(super) fn know(&mut self, ink: Ink) {
        self.role(ink);
    }

    /// The next shape drawn with `ink` gets `title`; the last title serves all later ones.
    pub(super) fn add(&mut self, ink: Ink, title: String) {
        self.role(ink).titles.push_back(title);
    }

    fn role(&mut self, ink: Ink) -> &mut Role {
        let colour = hex(ink.colour);
        let index = self.roles.iter().position(|role| role.colour == colour).unwrap_or_else(|| {
            self.roles.push(Role { colour, class: ink.class, titles: VecDeque::new() });
            self.roles.len() - 1
        });
        &mut self.roles[index]
    }

    /// The role of an element by its colour.
    fn of(&mut self, element: &str) -> Option<&mut Role> {
        let colour = ["fill=\"#", "stroke=\"#"].iter().find_map(|attribute| {
            let start = element.find(attribute)? + attribute.len() - 1;
            element.get(start..start + 7)
        })?;
        self.roles.iter_mut().find(|role| role.colour == colour)
    }
}

impl Role {
    fn next_title(&mut self) -> Option<String> {
        if self.titles.len() > 1 { self.titles.pop_front() } else { self.titles.front().cloned() }
    }
}

/// The picture `plotted` with everything around and on its shapes.
pub(super) fn decorate(plotted: &str, title: &str, description: &str, mut tooltips: Tooltips) -> String {
    let mut svg = String::with_capacity(plotted.len() + 4096);
    let mut lines = plotted.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("<svg ") {
            open(&mut svg, rest, title, description);
        } else if line.starts_with("<text ") {
            let content = lines.next().unwrap_or_default();
            svg.push_str(&classed(line, &mut tooltips));
            svg.extend([content.trim_end(), "</text>\n"]);
            lines.next();
        } else {
            svg.extend([shape(line, &mut tooltips).as_str(), "\n"]);
        }
    }
    svg
}

fn open(svg: &mut String, attributes: &str, title: &str, description: &str) {
    let title = xml(title);
    svg.extend(["<svg role=\"img\" aria-label=\"", &title, "\" ", attributes, "\n"]);
    svg.extend(["<title>", &title, "</title>\n<desc>", &xml(description), "</desc>\n"]);
    svg.extend(["<style>\n", &style(&[]), "</style>\n"]);
}

/// The element with its class, and less what is the default anyway.
fn classed(element: &str, tooltips: &mut Tooltips) -> String {
    let plain = element
        .replacen(" opacity=\"1\"", "", 1)
        .replacen(" font-family=\"sans-serif\"", "", 1)
        .replacen(" \"/>", "\"/>", 1);
    match tooltips.of(element) {
        Some(role) => plain.replacen(' ', &format!(" class=\"{}\" ", role.class), 1),
        None => plain,
    }
}

fn shape(element: &str, tooltips: &mut Tooltips) -> String {
    let plain = classed(element, tooltips);
    let Some(open) = plain.strip_suffix("/>") else {
        return plain;
    };
    let name = open.split(' ').next().unwrap_or_default().trim_start_matches('<');
    match tooltips.of(element).and_then(Role::next_title) {
        Some(title) => format!("{open}><title>{}</title></{name}>", xml(&title)),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::super::palette::{OOM, STEP};
    use super::*;

    const PLOTTED: &str = "<svg width=\"10\">\n\
        <rect x=\"1\" opacity=\"1\" fill=\"#B3261E\" stroke=\"none\"/>\n\
        <line opacity=\"1\" stroke=\"#6E7781\"/>\n<line opacity=\"0.5\" stroke=\"#6E7781\"/>\n\
        <text x=\"1\" opacity=\"1\" fill=\"#B3261E\">\na &lt; b\n</text>\n</svg>\n";

    #[test]
    fn shapes_get_class_and_tooltip_in_drawing_order() {
        let mut tooltips = Tooltips::default();
        tooltips.add(OOM, "OOM <1>".to_owned());
        tooltips.add(STEP, "step 0".to_owned());
        tooltips.add(STEP, "step 1".to_owned());
        let svg = decorate(PLOTTED, "A & B", "what \"it\" shows", tooltips);
        assert!(
            svg.contains(
                "<svg role=\"img\" aria-label=\"A &amp; B\" width=\"10\">\n<title>A &amp; B</title>"
            )
        );
        assert!(svg.contains(
            "<rect class=\"oom\" x=\"1\" fill=\"#B3261E\" stroke=\"none\"><title>OOM &lt;1&gt;</title></rect>"
        ));
        assert!(svg.contains("<line class=\"step\" stroke=\"#6E7781\"><title>step 0</title></line>"));
        assert!(svg.contains("opacity=\"0.5\" stroke=\"#6E7781\"><title>step 1</title></line>"));
        assert!(svg.contains("<text class=\"oom\" x=\"1\" fill=\"#B3261E\">a &lt; b</text>\n</svg>\n"));
    }
}
