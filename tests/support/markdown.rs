//! Documents in Markdown, as far as tests look into them.

use std::collections::BTreeSet;

/// A block of code.
pub struct Block<'t> {
    /// What it is written in, as the fence says.
    pub language: &'t str,
    /// The line of the document that it begins after.
    pub line: usize,
    /// What stands between the fences.
    pub text: String,
}

/// The blocks of code of a document.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_open = false;
    for (line, number) in text.lines().zip(1..) {
        match (line.strip_prefix("```"), is_open) {
            (Some(language), false) => {
                blocks.push(Block { language, line: number, text: String::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => blocks.last_mut().unwrap().text.extend([line, "\n"]),
            (None, false) => {}
        }
    }
    blocks
}

/// What the sections of a document are called in links.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    prose.filter(|line| line.starts_with('#')).map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words.replace(' ', "-").chars().filter(|&c| c.is_alphanumeric() || "-_".contains(c)).collect()
}
