//! Names of buckets: readable, of one meaning, and out of the client's hands.

use super::super::key::escape;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn tagged(hash_tag: &[&str]) -> Domain {
    Domain { hash_tag: hash_tag.iter().map(|&key| key.into()).collect(), ..domain("shop") }
}

fn write(domain: &Domain, entries: &[Entry<'_>], kind: &str) -> (String, String) {
    let mut text = String::from("earlier");
    let range = write_key(&mut text, domain, entries.iter().copied(), kind);
    assert_eq!(range.key, 7..text.len());
    (text[range.key].to_owned(), text[range.tag].to_owned())
}

#[track_caller]
fn check(hash_tag: &[&str], pairs: &[&str], expected: &str) {
    let (key, tag) = write(&tagged(hash_tag), &entries(pairs), "token_bucket/60");
    assert_eq!(key, format!("{expected}:token_bucket/60"));
    assert_eq!(Some(&*tag), hash_slot_text(&key));
}

/// What Redis Cluster hashes: what stands in the first braces, if that is not empty.
fn hash_slot_text(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

#[test]
fn by_default_the_whole_descriptor_is_the_tag() {
    check(&[], &["a=1"], "{shop|a=1}");
    check(&[], &["a=1", "b=2"], "{shop|a=1|b=2}");
    check(&[], &["a="], "{shop|a=}");
    check(&[], &[], "{shop|}");
}

#[test]
fn a_chosen_tag_leaves_the_others_in_the_rest() {
    check(&["a"], &["a=1", "b=2"], "{shop|a=1}|0|b=2");
    check(&["a"], &["b=2", "a=1"], "{shop|a=1}|b=2|0");
    check(&["b", "a"], &["a=1", "b=2", "c=3"], "{shop|b=2|a=1}|1|0|c=3");
    check(&["a"], &["a=1"], "{shop|a=1}|0");
}

#[test]
fn a_key_that_occurs_twice_gives_its_first_value() {
    check(&["a"], &["a=1", "a=2"], "{shop|a=1}|0|a=2");
    check(&["a"], &["b=0", "a=1", "a=1"], "{shop|a=1}|b=0|0|a=1");
}

#[test]
fn a_descriptor_that_lacks_a_chosen_key_uses_the_default() {
    check(&["a", "x"], &["a=1", "b=2"], "{shop|a=1|b=2}");
}

#[test]
fn what_means_something_is_escaped_and_the_rest_stays_readable() {
    let mut text = String::new();
    escape(&mut text, "a{b}c|d=e:f%g h\t\n\0\u{7f}ä€/?&*.-_");
    assert_eq!(text, "a%7Bb%7Dc%7Cd%3De%3Af%25g%20h%09%0A%00%7Fä€/?&*.-_");
}

#[test]
fn braces_in_values_do_not_move_a_bucket() {
    for value in ["{", "}", "{}", "{a}", "a{b}c", "}{", "{{x}}", ""] {
        for hash_tag in [&[][..], &["k"]] {
            let (key, tag) =
                write(&tagged(hash_tag), &[Entry { key: "k", value }], "leaky_bucket/1");
            assert_eq!(hash_slot_text(&key), Some(&*tag));
            assert!(tag.starts_with("shop|k="), "{tag}");
            assert_eq!(key.matches(['{', '}']).count(), 2);
        }
    }
}

#[test]
fn long_parts_become_digests() {
    let limit = "x".repeat(128);
    check(&[], &[&format!("k={limit}")], &format!("{{shop|k={limit}}}"));
    let long = "x".repeat(129);
    let (key, _) = write(&tagged(&[]), &entries(&[&format!("k={long}")]), "kind");
    assert_eq!(key.len(), "{shop|k=sha256:}:kind".len() + 64);
    assert!(key.starts_with("{shop|k=sha256:"), "{key}");
    let (other, _) = write(&tagged(&[]), &entries(&[&format!("k={long}y")]), "kind");
    assert_ne!(key, other);
    let name = format!("{long}=v");
    let (key, _) = write(&tagged(&[]), &entries(&[&name]), "kind");
    assert!(key.ends_with("=v}:kind") && key.starts_with("{shop|sha256:"), "{key}");
}

#[test]
fn a_digest_cannot_be_sent_by_a_client() {
    let long = "x".repeat(129);
    let (key, tag) = write(&tagged(&[]), &entries(&[&format!("k={long}")]), "kind");
    let digest = tag.strip_prefix("shop|k=").unwrap();
    assert_ne!(write(&tagged(&[]), &[Entry { key: "k", value: digest }], "kind").0, key);
}

#[test]
fn keys_stay_short_whatever_a_request_holds() {
    let many: Vec<_> = (0..1000).map(|n| format!("key{n}=value")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for hash_tag in [&[][..], &["key0"], &["key999", "key5"]] {
        let (key, tag) = write(&tagged(hash_tag), &entries(&many), "kind");
        assert!(key.len() < 200, "{key}");
        assert!(tag.starts_with("shop|"), "{tag}");
        let (other, _) = write(&tagged(hash_tag), &entries(&many[..999]), "kind");
        assert_ne!(key, other);
    }
}

#[test]
fn clients_make_a_key_at_most_512_bytes_longer() {
    let (long, short) = ("x".repeat(128), "x".repeat(123));
    let pairs = [format!("a={long}"), format!("b={short}"), format!("c={long}"), "d=".to_owned()];
    let with_rest = |c: &str| {
        let pairs = [&*pairs[0], &*pairs[1], c, &*pairs[3]];
        write(&tagged(&["a", "b"]), &entries(&pairs), "kind").0
    };
    let longest = format!("c={}", "y".repeat(128));
    assert!(with_rest(&longest).starts_with(&format!("{{shop|a={long}|b={short}}}|0|1|c=yyy")));
    let pairs = ["a", "b", "c", "d"].map(|key| format!("{key}={long}"));
    let pairs = pairs.each_ref().map(String::as_str);
    let bare = "{shop|}:kind".len();
    for hash_tag in [&[][..], &["a", "b"], &["a"]] {
        let (key, _) = write(&tagged(hash_tag), &entries(&pairs), "kind");
        assert!(key.len() <= bare + 512, "{key}");
        assert!(key.contains("sha256:"), "{key}");
    }
}

#[test]
fn parts_joined_with_underscores_once_collided() {
    let key = |name: &str, pairs: &[&str]| write(&domain(name), &entries(pairs), "kind").0;
    assert_ne!(key("a", &["b=c_d"]), key("a_b", &["c=d"]));
    assert_ne!(key("d", &["k=v_x_y"]), key("d", &["k=v", "x=y"]));
    assert_ne!(key("d", &["k=v|x=y"]), key("d", &["k=v", "x=y"]));
}

/// Texts that are made of what keys are made of.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab0={}|:%]{0,3}",
        "(sha256:)?[a0]{0,2}",
        "(%7B|%7D|\\||=|0|1){0,2}",
        Just("x".repeat(129)),
        Just("x".repeat(400)),
    ]
}

fn hostile_entries() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), hostile()];
    prop::collection::vec((name, hostile()), 0..5)
}

proptest! {
    #[test]
    fn different_identities_have_different_keys(
        identities in prop::collection::vec(
            ("[d|{}=%]{1,2}", hostile_entries(), "[k/]{1,2}"), 2..25),
        hash_tag in prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("0")], 0..3),
    ) {
        let mut seen = HashMap::new();
        for (name, pairs, kind) in &identities {
            let domain = Domain { name: name.as_str().into(), ..tagged(&hash_tag) };
            let entries: Vec<_> = pairs.iter().map(|(key, value)| Entry { key, value }).collect();
            let (key, tag) = write(&domain, &entries, kind);
            prop_assert_eq!(hash_slot_text(&key), Some(&*tag));
            prop_assert_eq!(key.matches(['{', '}']).count(), 2);
            prop_assert!(key.bytes().all(|byte| byte > b' ' && byte != 0x7f));
            let identity = (name, pairs, kind);
            if let Some(other) = seen.insert(key, identity) {
                prop_assert_eq!(other, identity);
            }
        }
    }

    #[test]
    fn the_tag_depends_on_chosen_values_only(
        pairs in hostile_entries(), more in hostile_entries(), tag_value in hostile(),
    ) {
        let domain = tagged(&["user"]);
        let tag = |pairs: &[(String, String)]| {
            let user = Entry { key: "user", value: &tag_value };
            let rest = pairs.iter().map(|(key, value)| Entry { key, value });
            write(&domain, &std::iter::once(user).chain(rest).collect::<Vec<_>>(), "kind").1
        };
        prop_assert_eq!(tag(&pairs), tag(&more));
    }
}
