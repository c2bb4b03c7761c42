//! YAML text to [`Raw`] trees. The only file that names the YAML crate.
//!
//! It takes the parser's events rather than serde's values: those hide whether a scalar was
//! quoted, what its literal text was and where keys stand, and stop at the first duplicate key.

use super::merge::{add_missing, duplicates};
use super::plain;
use super::raw::{Place, Raw, RawEntry, RawValue};
use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag,
};
use std::collections::{HashMap, HashSet};

/// What a text holds.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Its documents, without empty and faulty ones.
    pub(super) documents: Vec<Raw>,
    /// Where it is not YAML, or not fit for us: at most one syntax error a document.
    pub(super) faults: Vec<(Place, String)>,
}

/// How places in a text that is embedded in a file differ from those in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shift {
    /// Lines of the file before the text.
    pub(super) lines: u32,
    /// Characters before each line of it.
    pub(super) columns: u32,
}

/// How deep values may nest. Each level of descriptors takes two; see also the descriptors' own
/// bound, which says so in their words.
const MAX_DEPTH: usize = 160;

/// How many MiB of values anchors keep and aliases repeat in one file.
const MAX_COPIED_MIB: usize = 128;

/// Reads every document of a text.
pub(super) fn parse(text: &str, shift: Shift) -> Parsed {
    let options = granit_parser::options! {
        emit_comments: false,
        block_scalar_eof_without_line_feed: true,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let composer = Composer {
        parser,
        shift,
        stack: Vec::new(),
        anchors: HashMap::new(),
        copied_bytes: 0,
        parsed: Parsed::default(),
    };
    composer.run()
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    shift: Shift,
    /// The lists and mappings that are still open, outermost first.
    stack: Vec<Open>,
    /// What aliases may refer to. `None`: it is still open.
    anchors: HashMap<usize, Option<Raw>>,
    copied_bytes: usize,
    parsed: Parsed,
}

/// A list or mapping whose end has not come yet.
struct Open {
    place: Place,
    anchor: usize,
    values: Values,
}

enum Values {
    List(Vec<Raw>),
    Map {
        entries: Vec<RawEntry>,
        /// The key whose value comes next.
        key: Option<Raw>,
        /// What stands under `<<`.
        merged: Vec<Raw>,
    },
}

/// A fault that ends the document, and its place.
type Broken = (Place, String);

impl<'t> Composer<'t> {
    fn run(mut self) -> Parsed {
        while let Some(next) = self.parser.next_event() {
            let result = match next {
                Ok((event, span)) => self.event(event, span),
                Err(error) => Err((self.place(error.marker()), explained(&error))),
            };
            if let Err(broken) = result {
                self.parsed.faults.push(broken);
                self.forget();
                if !self.parser.proceed_next_document().unwrap_or(false) {
                    break;
                }
            }
        }
        self.parsed
    }

    fn forget(&mut self) {
        self.stack.clear();
        self.anchors.clear();
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "events that say nothing of values")]
    fn event(&mut self, event: Event<'t>, span: Span) -> Result<(), Broken> {
        let place = self.place(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.complete(Raw { place, value }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(place, anchor, Values::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                let values = Values::Map { entries: Vec::new(), key: None, merged: Vec::new() };
                self.open(place, anchor, values)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(place, anchor),
            Event::DocumentEnd => {
                self.forget();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: Place, anchor: usize, values: Values) -> Result<(), Broken> {
        self.check_depth(place, 1)?;
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.stack.push(Open { place, anchor, values });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Broken> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let value = match open.values {
            Values::List(items) => RawValue::List(items),
            Values::Map { entries, merged, .. } => RawValue::Map(self.mapping(entries, merged)?),
        };
        self.complete(Raw { place: open.place, value }, open.anchor)
    }

    /// Puts a value where it belongs: the open list or mapping, or else it is the document.
    fn complete(&mut self, raw: Raw, anchor: usize) -> Result<(), Broken> {
        if anchor != 0 {
            self.count_copy(raw.place, raw.measure().0)?;
            self.anchors.insert(anchor, Some(raw.clone()));
        }
        match self.stack.last_mut().map(|open| &mut open.values) {
            Some(Values::List(items)) => items.push(raw),
            Some(Values::Map { entries, key, merged }) => match key.take() {
                None if raw.literal().is_none() && raw.value != RawValue::Null => {
                    let message = format!("{} cannot be a key, expected a text", raw.described());
                    return Err((raw.place, message));
                }
                None => *key = Some(raw),
                Some(key) if key.text() == Some("<<") => merged.push(raw),
                Some(key) => entries.push(RawEntry { key, value: raw }),
            },
            None if raw.value == RawValue::Null => {}
            None => self.parsed.documents.push(raw),
        }
        Ok(())
    }

    fn alias(&mut self, place: Place, anchor: usize) -> Result<(), Broken> {
        let Some(Some(target)) = self.anchors.get(&anchor) else {
            return Err((place, "the alias stands inside of what it refers to".to_owned()));
        };
        let (bytes, depth) = target.measure();
        self.check_depth(place, depth)?;
        self.count_copy(place, bytes)?;
        let target = self.anchors.get(&anchor).and_then(Option::as_ref);
        let value = target.map_or(RawValue::Null, |target| target.value.clone());
        self.complete(Raw { place, value }, 0)
    }

    fn count_copy(&mut self, place: Place, bytes: usize) -> Result<(), Broken> {
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
        if self.copied_bytes > MAX_COPIED_MIB << 20 {
            let message = format!(
                "anchors and aliases up to here make more than {MAX_COPIED_MIB} MiB of values"
            );
            return Err((place, message));
        }
        Ok(())
    }

    fn check_depth(&self, place: Place, added: usize) -> Result<(), Broken> {
        if self.stack.len().saturating_add(added) > MAX_DEPTH {
            return Err((place, format!("values are nested more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    /// The entries of a mapping: its own, without duplicates, then those merged into it.
    fn mapping(&mut self, own: Vec<RawEntry>, merged: Vec<Raw>) -> Result<Vec<RawEntry>, Broken> {
        let mut entries = self.without_duplicates(own);
        for source in merged {
            let maps = if let RawValue::List(items) = source.value { items } else { vec![source] };
            for map in maps {
                let RawValue::Map(additions) = map.value else {
                    return Err((
                        map.place,
                        "`<<` takes a mapping, or a list of mappings".to_owned(),
                    ));
                };
                add_missing(&mut entries, additions);
            }
        }
        Ok(entries)
    }

    fn without_duplicates(&mut self, entries: Vec<RawEntry>) -> Vec<RawEntry> {
        let duplicates = duplicates(&entries);
        if duplicates.is_empty() {
            return entries;
        }
        for (index, first) in &duplicates {
            let Some(key) = entries.get(*index).map(|entry| &entry.key) else { continue };
            let message = format!(
                "duplicate key {}: it stands at line {} already, remove one of them",
                key.described(),
                first.line
            );
            self.parsed.faults.push((key.place, message));
        }
        let repeated: HashSet<usize> = duplicates.into_iter().map(|(index, _)| index).collect();
        let kept = entries.into_iter().enumerate().filter(|(index, _)| !repeated.contains(index));
        kept.map(|(_, entry)| entry).collect()
    }

    fn place(&self, marker: &Marker) -> Place {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place {
            line: number(marker.line()).saturating_add(self.shift.lines),
            column: number(marker.col()).saturating_add(1).saturating_add(self.shift.columns),
        }
    }
}

/// A quoted scalar is a text, an unquoted one what it looks like, unless a tag says otherwise.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> RawValue {
    let core = tag.map(|tag| tag.core_suffix().unwrap_or("str"));
    match core {
        None if style == ScalarStyle::Plain => plain::resolve(text),
        Some("int" | "bool" | "null" | "float") => plain::resolve(text),
        _ => RawValue::Text(text.into()),
    }
}

/// The parser's words, with what usually lies behind them.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser has dozens, most speak for themselves"
)]
fn explained(error: &ScanError) -> String {
    let words = match error.kind() {
        ErrorKind::TabInIndentation
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation => {
            "a tab in the indentation, expected spaces".to_owned()
        }
        ErrorKind::UnknownAnchor => "there is no anchor of this name above".to_owned(),
        ErrorKind::UnclosedQuotedScalar => "a quotation mark is never closed".to_owned(),
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::ExpectedBlockMappingKey => {
            format!("{}: what belongs together must begin in the same column", error.info())
        }
        ErrorKind::MappingValueNotAllowed => format!(
            "{}: quote a value that holds `: `, and begin what belongs together in the same column",
            error.info()
        ),
        ErrorKind::UnexpectedCharacter { character } => {
            format!("a value cannot begin with `{}`: put it in quotes", character.escape_default())
        }
        _ => error.info(),
    };
    format!("not valid YAML: {words}")
}
