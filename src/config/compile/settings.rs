//! What the documents of a domain say of it as a whole.

use super::fields::{At, Field, Fields, Sink};
use crate::algorithm::{Algorithm, Anchor};
use crate::config::nearest::{hint, nearest};
use crate::config::raw::{RawValue, shown};
use crate::config::shape::Level;
use crate::rules::{Consume, Defaults, DeniedBody, FailureMode};
use std::collections::HashSet;

/// A domain's settings, each with the place that gives it.
#[derive(Debug, Default)]
pub(super) struct Settings<'a> {
    pub(super) algorithm: Given<'a, Algorithm>,
    failure_mode: Given<'a, FailureMode>,
    burst: Given<'a, u32>,
    count_denied: Given<'a, bool>,
    version: Given<'a, &'a str>,
    hash_tag: Given<'a, Vec<&'a str>>,
    consume: Given<'a, Consume>,
    denied_body: Given<'a, &'a str>,
    denied_content_type: Given<'a, &'a str>,
}

/// A setting, if it is given, and where.
type Given<'a, T> = Option<(At<'a>, T)>;

/// The words for failure modes.
pub(super) const FAILURE_MODES: [(&str, FailureMode); 4] = [
    (FailureMode::Open.name(), FailureMode::Open),
    (FailureMode::Closed.name(), FailureMode::Closed),
    (FailureMode::Local.name(), FailureMode::Local),
    (FailureMode::Error.name(), FailureMode::Error),
];

/// The words for algorithms.
pub(super) const ALGORITHMS: [(&str, Algorithm); 5] = {
    let mut words = [("", Algorithm::TokenBucket); 5];
    let mut n = 0;
    while n < words.len() {
        #[expect(clippy::indexing_slicing, reason = "in bounds, or it would not compile")]
        {
            words[n] = (Algorithm::ALL[n].name(), Algorithm::ALL[n]);
        }
        n += 1;
    }
    words
};

/// The words for where a fixed window starts.
pub(super) const ANCHORS: [(&str, Anchor); 2] =
    [(Anchor::Epoch.name(), Anchor::Epoch), (Anchor::FirstHit.name(), Anchor::FirstHit)];

const CONSUMES: [(&str, Consume); 2] =
    [("each", Consume::Each), ("all_or_nothing", Consume::AllOrNothing)];

const PLACEHOLDERS: [&str; 3] = ["rule", "limit", "reset"];

impl<'a> Settings<'a> {
    /// Reads the settings of one document.
    pub(super) fn read(sink: &mut Sink<'a>, fields: &Fields<'a>) -> Self {
        let consume = fields.get("consume");
        let mut settings = Self {
            hash_tag: hash_tag(sink, fields.get("hash_tag")),
            consume: given(sink, consume, sink_word(&CONSUMES)),
            denied_body: given(sink, fields.get("denied_body"), Sink::text),
            denied_content_type: given(sink, fields.get("denied_content_type"), Sink::text),
            ..Self::default()
        };
        check_placeholders(sink, &settings.denied_body);
        check_media_type(sink, &mut settings.denied_content_type);
        if let Some(defaults) = fields.get("defaults")
            && let Some(fields) = sink.fields(defaults.value, Level::Defaults)
        {
            settings.read_defaults(sink, &fields);
        }
        settings
    }

    fn read_defaults(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) {
        self.algorithm = given(sink, fields.get("algorithm"), sink_word(&ALGORITHMS));
        self.failure_mode = given(sink, fields.get("failure_mode"), sink_word(&FAILURE_MODES));
        self.burst = given(sink, fields.get("burst"), Sink::burst);
        self.count_denied = given(sink, fields.get("count_denied"), Sink::flag);
        self.version = given(sink, fields.get("version"), Sink::text);
    }

    /// Adds the settings of another document of the same domain. They may not contradict.
    pub(super) fn join(&mut self, sink: &mut Sink<'a>, other: Self) {
        join(sink, "algorithm", &mut self.algorithm, other.algorithm);
        join(sink, "failure_mode", &mut self.failure_mode, other.failure_mode);
        join(sink, "burst", &mut self.burst, other.burst);
        join(sink, "count_denied", &mut self.count_denied, other.count_denied);
        join(sink, "version", &mut self.version, other.version);
        join(sink, "hash_tag", &mut self.hash_tag, other.hash_tag);
        join(sink, "consume", &mut self.consume, other.consume);
        join(sink, "denied_body", &mut self.denied_body, other.denied_body);
        join(sink, "denied_content_type", &mut self.denied_content_type, other.denied_content_type);
    }

    /// Checks what only all documents of the domain together can tell.
    pub(super) fn check(&self) -> impl Iterator<Item = Sink<'a>> + use<'a> {
        self.check_consume().into_iter().chain(self.check_content_type())
    }

    fn check_consume(&self) -> Option<Sink<'a>> {
        let (at, Consume::AllOrNothing) = self.consume? else { return None };
        if !self.hash_tag().is_empty() {
            return None;
        }
        let mut sink = Sink::new(at.file);
        sink.error(
            at.place,
            "`consume: all_or_nothing` needs a `hash_tag`: without one no two descriptors \
             share a tag, so none would be decided together",
        );
        Some(sink)
    }

    fn check_content_type(&self) -> Option<Sink<'a>> {
        let (at, _) = self.denied_content_type.filter(|_| self.denied_body.is_none())?;
        let mut sink = Sink::new(at.file);
        sink.warn(at.place, "`denied_content_type` has no effect without a `denied_body`");
        Some(sink)
    }

    /// The defaults of its rules: the process's, with its own laid over them.
    pub(super) fn defaults(&self, process: &Defaults) -> Defaults {
        let version =
            self.version.and_then(|(_, version)| (!version.is_empty()).then_some(version));
        Defaults {
            algorithm: self.algorithm.map_or(process.algorithm, |(_, it)| it),
            failure_mode: self.failure_mode.map_or(process.failure_mode, |(_, it)| it),
            burst: self.burst.map(|(_, it)| it).or(process.burst),
            count_denied: self.count_denied.map(|(_, it)| it).or(process.count_denied),
            version: version.map(Into::into).or_else(|| process.version.clone()),
        }
    }

    /// The keys that form the hash tag.
    pub(super) fn hash_tag(&self) -> &[&'a str] {
        self.hash_tag.as_ref().map_or(&[], |(_, keys)| keys)
    }

    /// The same, each with the place that names them.
    pub(super) fn hash_tag_at(&self) -> impl Iterator<Item = (At<'a>, &'a str)> {
        let given = self.hash_tag.iter();
        given.flat_map(|(at, keys)| keys.iter().map(|key| (*at, *key)))
    }

    /// What a refusal does to other limits of the same tag.
    pub(super) fn consume(&self) -> Consume {
        self.consume.map(|(_, consume)| consume).unwrap_or_default()
    }

    /// Body of a refusal.
    pub(super) fn denied(&self) -> Option<DeniedBody> {
        let (_, template) = self.denied_body?;
        let content_type = self.denied_content_type.map(|(_, content_type)| content_type.into());
        Some(DeniedBody { template: template.into(), content_type })
    }
}

fn given<'a, T>(
    sink: &mut Sink<'a>,
    field: Option<Field<'a>>,
    read: impl FnOnce(&mut Sink<'a>, Option<Field<'a>>) -> Option<T>,
) -> Given<'a, T> {
    let value = read(sink, field)?;
    Some((sink.at(field?.key_place), value))
}

fn sink_word<'a, T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl FnOnce(&mut Sink<'a>, Option<Field<'a>>) -> Option<T> {
    |sink, field| sink.word(field, words)
}

fn join<'a, T: PartialEq>(
    sink: &mut Sink<'a>,
    name: &str,
    ours: &mut Given<'a, T>,
    theirs: Given<'a, T>,
) {
    match (ours, theirs) {
        (_, None) => {}
        (ours @ None, theirs) => *ours = theirs,
        (Some((first, ours)), Some((second, theirs))) => {
            if *ours != theirs {
                let first = sink.words_for(*first);
                let message = format!(
                    "`{name}` of this domain is given differently at {first}: a domain's settings \
                     hold for all its files"
                );
                sink.error(second.place, message);
            }
        }
    }
}

fn hash_tag<'a>(sink: &mut Sink<'a>, field: Option<Field<'a>>) -> Given<'a, Vec<&'a str>> {
    let field = field?;
    let mut keys = Vec::new();
    let mut seen = HashSet::new();
    for item in sink.list(Some(field)) {
        let is_float = matches!(item.value, RawValue::Float(_));
        let Some(key) = item.literal().filter(|key| !key.is_empty() && !is_float) else {
            let message =
                format!("`hash_tag` holds {}, expected descriptor keys", item.described());
            sink.error(item.place, message);
            continue;
        };
        if seen.insert(key) {
            keys.push(key);
        } else {
            sink.error(item.place, format!("`hash_tag` names `{}` twice", shown(key)));
        }
    }
    Some((sink.at(field.key_place), keys))
}

/// A body may be JSON, so only a lower-case word in braces is taken for a placeholder.
fn check_placeholders(sink: &mut Sink<'_>, body: &Given<'_, &str>) {
    let Some((at, body)) = body else { return };
    for part in body.split('{').skip(1) {
        let Some((word, _)) = part.split_once('}') else { continue };
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        if is_word(word) && !PLACEHOLDERS.contains(&word) {
            let hint = hint(nearest(word, PLACEHOLDERS.into_iter()));
            let message = format!(
                "`denied_body` holds `{{{word}}}`, expected {{rule}}, {{limit}} or {{reset}}{hint}"
            );
            sink.error(at.place, message);
        }
    }
}

fn check_media_type<'a>(sink: &mut Sink<'a>, content_type: &mut Given<'a, &'a str>) {
    let Some((at, text)) = *content_type else { return };
    let visible = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if text.is_empty() || !visible || !text.contains('/') {
        let message = format!(
            "`denied_content_type` is `{}`, expected a media type such as `application/json`",
            shown(text)
        );
        sink.error(at.place, message);
        *content_type = None;
    }
}
