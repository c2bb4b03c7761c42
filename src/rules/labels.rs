//! The metric labels of a rule: its path, level by level.

/// Label values; `key3` joins all levels from the third on with dots and may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// The domain.
    pub domain: Box<str>,
    /// The first level.
    pub key1: Box<str>,
    /// The second level, or empty.
    pub key2: Box<str>,
    /// All further levels, or empty.
    pub key3: Box<str>,
}

impl Labels {
    /// Labels of a path: one text per level, `key`, `key_value` or `key_pattern`.
    pub fn new<'a>(domain: &str, levels: impl Iterator<Item = &'a str>) -> Self {
        todo!("{domain} {}", levels.count())
    }
}
