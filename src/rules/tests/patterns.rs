//! Which texts a pattern matches, checked against the simplest matcher there is.

use super::super::pattern::{NOWHERE, Patterns, matches};
use proptest::prelude::*;

/// Tries every length for every star.
fn model(pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return text.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    if first == '*' {
        return text.char_indices().any(|(at, _)| model(rest, &text[at..])) || model(rest, "");
    }
    text.strip_prefix(first).is_some_and(|text| model(rest, text))
}

fn lowest(patterns: &[impl AsRef<str>], text: &str) -> Option<usize> {
    let mut index = Patterns::default();
    for (place, pattern) in patterns.iter().enumerate() {
        index.insert(place, pattern.as_ref());
    }
    index.finish();
    let found = index.lowest(text, NOWHERE, &|place| place);
    (found != NOWHERE).then_some(found)
}

#[track_caller]
fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    for text in yes {
        assert!(matches(pattern, text), "{pattern} should match {text}");
        assert_eq!(lowest(&[pattern], text), Some(0), "{pattern} should match {text}");
    }
    for text in no {
        assert!(!matches(pattern, text), "{pattern} should not match {text}");
        assert_eq!(lowest(&[pattern], text), None, "{pattern} should not match {text}");
    }
}

#[test]
fn stars_stand_for_zero_or_more_characters() {
    check("foo*", &["foo", "foo1", "foo2"], &["bar", "fo", "xfoo", ""]);
    check("bar*b", &["barab", "bar123b", "barb"], &["bara", "xbarb", "bar"]);
    check("foo*bar*baz", &["foo123bar456baz", "foobarbaz"], &["foo123baz", "bar456baz"]);
    check("/api*v1", &["/api/v1", "/api-beta-v1", "/apiXYZv1"], &["/api/v2"]);
    check("svc*ep*rpc", &["svcAepBrpc", "svcXXXepYYYrpc", "svceprpc"], &["svcABCrpc", "svcrpcep"]);
    check("*", &["", "a", "*", "ä"], &[]);
    check("**", &["", "a"], &[]);
    check("*.example.com", &["a.example.com", ".example.com"], &["example.com"]);
    check("*a*a*", &["aa", "xaxax"], &["a", "xax"]);
}

#[test]
fn prefix_and_suffix_do_not_overlap() {
    check("ab*ba", &["abba", "abxba"], &["aba"]);
    check("aa*aa", &["aaaa"], &["aaa", "aa"]);
    check("a*aa*a", &["aaaa"], &["aaa"]);
}

#[test]
fn lengths_that_fall_inside_a_character_match_nothing() {
    assert_eq!(lowest(&["a*", "aaa*", "*b", "*bbb"], "ää"), None);
    assert_eq!(lowest(&["ä*", "*ö"], "äxö"), Some(0));
    check("ä*ö", &["äö", "ä€ö"], &["ä", "ö", "a"]);
}

#[test]
fn a_hostile_value_takes_linear_time() {
    let pieces = "a*".repeat(2_000);
    let text = format!("{}b", "a".repeat(10_000));
    check(&format!("*{pieces}c*"), &[], &[&text]);
    check(&format!("*{pieces}b"), &[&text], &[]);
}

#[test]
fn many_patterns_that_differ_in_the_middle_are_told_apart() {
    let patterns: Vec<_> = (0..500).map(|n| format!("*bot-{n}/*")).collect();
    assert_eq!(lowest(&patterns, "Mozilla/5.0 bot-499/1.0"), Some(499));
    assert_eq!(lowest(&patterns, "bot-30/ bot-7/"), Some(7));
    assert_eq!(lowest(&patterns, "bot-500/"), None);
}

proptest! {
    #[test]
    fn many_middles_are_searched_at_once_with_the_same_outcome(
        patterns in prop::collection::vec("a?\\*[abä]{0,3}\\*([ab]{1,2}\\*){0,2}b?", 40..80),
        text in "[abä*]{0,10}",
    ) {
        let first = patterns.iter().position(|pattern| model(pattern, &text));
        prop_assert_eq!(lowest(&patterns, &text), first);
    }

    #[test]
    fn the_index_finds_the_first_pattern_that_matches(
        patterns in prop::collection::vec("[abä]{0,2}(\\*[abä]{0,2}){1,3}", 1..12),
        text in "[abä*]{0,8}",
    ) {
        let first = patterns.iter().position(|pattern| model(pattern, &text));
        prop_assert_eq!(lowest(&patterns, &text), first);
        for pattern in &patterns {
            prop_assert_eq!(matches(pattern, &text), model(pattern, &text));
        }
    }
}
