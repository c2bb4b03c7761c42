use super::*;
use crate::rules::idempotency::FingerprintRule;

fn rule(body: BodyRule) -> FingerprintRule {
    FingerprintRule { body, headers: ["content-type".into()].into(), max_request_body: 1 << 20 }
}

/// The fingerprint of a request of that content type.
fn of(body: BodyRule, path: &str, content_type: &str, text: &[u8]) -> Fingerprint {
    let headers = [("content-type".to_owned(), content_type.as_bytes().to_vec())];
    let content = Content { method: "POST", path: path.as_bytes(), headers: &headers };
    Begun::of(&content, &rule(body)).with_body(text)
}

fn json(text: &[u8]) -> Fingerprint {
    of(BodyRule::JsonCanonical, "/pay", "application/json", text)
}

fn check(text: &str, expected: Option<&str>) {
    let found = json::canonical(text.as_bytes()).map(|found| String::from_utf8(found).unwrap());
    assert_eq!(found.as_deref(), expected, "{text}");
}

#[test]
fn every_part_that_counts_makes_another_request() {
    let one = of(BodyRule::Raw, "/pay?a=1", "text/plain", b"x");
    for other in [
        of(BodyRule::Raw, "/pay?a=2", "text/plain", b"x"),
        of(BodyRule::Raw, "/pay", "text/plain", b"x"),
        of(BodyRule::Raw, "/pays?a=1", "text/plain", b"x"),
        of(BodyRule::Raw, "/pay?a=1", "text/html", b"x"),
        of(BodyRule::Raw, "/pay?a=1", "text/plain", b"y"),
        of(BodyRule::Raw, "/pay?a=1", "text/plain", b""),
    ] {
        assert_ne!(one, other);
    }
    assert_eq!(one, of(BodyRule::Raw, "/pay?a=1", "Text/Plain; charset=utf-8", b"x"));
    assert!(one.text().starts_with("1:"));
    assert_eq!(one.text().len(), 66);
}

#[test]
fn headers_that_are_not_named_do_not_count() {
    let content = |headers| Content { method: "POST", path: b"/", headers };
    let begun = |headers| Begun::of(&content(headers), &rule(BodyRule::Raw)).with_body(b"");
    let trace = [("traceparent".to_owned(), b"00-1".to_vec())];
    assert_eq!(begun(&trace), begun(&[]));
}

#[test]
fn a_header_that_is_missing_is_not_an_empty_one() {
    let named =
        FingerprintRule { headers: ["x-a".into(), "x-b".into()].into(), ..rule(BodyRule::Raw) };
    let of = |lines: &[(&str, &str)]| {
        let headers: Vec<_> = lines
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let content = Content { method: "POST", path: b"/", headers: &headers };
        Begun::of(&content, &named).with_body(b"")
    };
    assert_ne!(of(&[]), of(&[("x-a", "")]));
    assert_ne!(of(&[("x-a", "1")]), of(&[("x-b", "1")]));
    assert_ne!(of(&[("x-a", "1"), ("x-a", "2")]), of(&[("x-a", "12")]));
}

#[test]
fn hosts_are_told_apart_if_they_are_named() {
    let named = FingerprintRule { headers: ["host".into()].into(), ..rule(BodyRule::Raw) };
    let at = |host: &str, rule| {
        let headers = [(":authority".to_owned(), host.into())];
        let content = Content { method: "POST", path: b"/", headers: &headers };
        Begun::of(&content, rule).with_body(b"")
    };
    assert_ne!(at("a.example", &named), at("b.example", &named));
    assert_eq!(at("a.example", &rule(BodyRule::Raw)), at("b.example", &rule(BodyRule::Raw)));
}

#[test]
fn json_is_compared_by_what_it_means() {
    let one = json(br#"{"a": 1, "b": [1.0, "\u00e9"], "c": null}"#);
    assert_eq!(one, json("{\"c\":null,\"b\":[1,\"é\"],\"a\":1e0}".as_bytes()));
    assert_ne!(one, json(br#"{"a": 2, "b": [1.0, "\u00e9"], "c": null}"#));
    assert_ne!(json(br#"{"a":1}"#), of(BodyRule::Raw, "/pay", "application/json", br#"{"a":1}"#));
}

#[test]
fn what_has_no_one_meaning_is_compared_byte_by_byte() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1e400}"#,
        r#"{"a":9007199254740993}"#,
        r#"{"a":0.10000000000000000001}"#,
        r#"{"a":"\ud800"}"#,
        "{",
        "",
    ] {
        let raw = of(BodyRule::Raw, "/pay", "application/json", text.as_bytes());
        assert_eq!(json(text.as_bytes()), raw, "{text}");
        assert_ne!(json(text.as_bytes()), json(format!("{text} ").as_bytes()), "{text}");
    }
    let plain = |text| of(BodyRule::JsonCanonical, "/pay", "text/plain", text);
    assert_ne!(plain(b"1"), plain(b" 1"), "only JSON is read as JSON");
}

#[test]
fn the_examples_of_rfc_8785_come_out_as_it_writes_them() {
    check(
        r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#,
        None,
    );
    check(
        r#"{"numbers": [1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#,
        Some(
            "{\"literals\":[null,true,false],\"numbers\":[1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}",
        ),
    );
    check(
        r#"{"\u20ac":"Euro","\r":"CR","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smile","\u0080":"Ctl","\u00f6":"o"}"#,
        Some(
            "{\"\\r\":\"CR\",\"1\":\"One\",\"\u{80}\":\"Ctl\",\"ö\":\"o\",\"€\":\"Euro\",\
             \"😀\":\"Smile\",\"\u{fb33}\":\"Dalet\"}",
        ),
    );
}

#[test]
fn numbers_are_written_as_ecmascript_does() {
    for (text, expected) in [
        ("0", Some("0")),
        ("-0", Some("0")),
        ("-0.0e5", Some("0")),
        ("1.0", Some("1")),
        ("100e-2", Some("1")),
        ("-1.5", Some("-1.5")),
        ("123456789012345680000", Some("123456789012345680000")),
        ("1e20", Some("100000000000000000000")),
        ("1e21", Some("1e+21")),
        ("1.5e300", Some("1.5e+300")),
        ("0.000001", Some("0.000001")),
        ("0.0000001", Some("1e-7")),
        ("1.25e-7", Some("1.25e-7")),
        ("9007199254740992", Some("9007199254740992")),
        ("9007199254740993", None),
        ("5e-324", Some("5e-324")),
        ("1e-400", None),
        ("1e400", None),
        ("1e9999999", None),
        ("01", None),
        ("1.", None),
        (".5", None),
        ("+1", None),
        ("1e", None),
        ("--1", None),
        ("-", None),
    ] {
        assert_eq!(number::canonical(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn what_is_no_json_has_no_canonical_form() {
    for text in [
        "",
        "{",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "tru",
        "\"a",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "1 2",
        "nullx",
        "\u{feff}1",
        "[1]]",
    ] {
        check(text, None);
    }
    assert_eq!(json::canonical(b"\"\xff\""), None);
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    check(&deep(128), Some(&deep(128)));
    check(&deep(129), None);
    check(&deep(100_000), None);
}
