//! What it costs to find the rule of a request and to name its bucket, with few rules and with
//! many: the figures of both must be close.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tidegate::rules::{Consume, Defaults, Domain, Entry, Level, Node, RuleId, write_key};

const FEW: u32 = 10;
const MANY: u32 = 100_000;

/// How the nodes of a level differ, and a value that reaches one of them.
#[derive(Clone, Copy)]
enum Shape {
    Values,
    Prefixes,
    Suffixes,
    Middles,
    Keys,
}

fn node(shape: Shape, n: u32) -> Node {
    let (key, value) = match shape {
        Shape::Values => ("user".into(), format!("user-{n}")),
        Shape::Prefixes => ("path".into(), format!("/tenants/{n}/*")),
        Shape::Suffixes => ("host".into(), format!("*.shop-{n}.example.com")),
        Shape::Middles => ("agent".into(), format!("*bot-{n}/*")),
        Shape::Keys => (format!("key-{n}"), "value".to_owned()),
    };
    let rule = Some(RuleId(n));
    Node { key: key.into(), value: Some(value.into()), rule, ..Node::default() }
}

/// An entry that the node in the middle of the file answers.
fn entry(shape: Shape, n_rules: u32) -> (String, String) {
    let n = n_rules / 2;
    match shape {
        Shape::Values => ("user".to_owned(), format!("user-{n}")),
        Shape::Prefixes => ("path".to_owned(), format!("/tenants/{n}/orders")),
        Shape::Suffixes => ("host".to_owned(), format!("www.shop-{n}.example.com")),
        Shape::Middles => ("agent".to_owned(), format!("Mozilla/5.0 bot-{n}/1.0")),
        Shape::Keys => (format!("key-{n}"), "value".to_owned()),
    }
}

fn domain(nodes: impl Iterator<Item = Node>) -> Domain {
    let defaults = Defaults::default();
    Domain {
        name: "shop".into(),
        root: Level::new(nodes.collect()),
        hash_tag: Box::default(),
        consume: Consume::default(),
        defaults,
        denied: None,
    }
}

fn decide(text: &mut String, domain: &Domain, entries: &[Entry<'_>]) {
    let Some(matched) = domain.find(entries) else { return };
    let counted = matched
        .nodes
        .iter()
        .zip(entries)
        .map(|(node, entry)| Entry { key: entry.key, value: node.bucket_value(entry.value) });
    text.clear();
    black_box(write_key(text, domain, counted, "fixed_window/epoch/60"));
}

fn one_level(c: &mut Criterion) {
    let shapes = [
        ("values", Shape::Values),
        ("prefixes", Shape::Prefixes),
        ("suffixes", Shape::Suffixes),
        ("middles", Shape::Middles),
        ("keys", Shape::Keys),
    ];
    for (name, shape) in shapes {
        let mut group = c.benchmark_group(name);
        for n_rules in [FEW, MANY] {
            let domain = domain((0..n_rules).map(|n| node(shape, n)));
            let (key, value) = entry(shape, n_rules);
            let entries = [Entry { key: &key, value: &value }];
            group.bench_with_input(BenchmarkId::new("find", n_rules), &entries, |b, entries| {
                b.iter(|| black_box(domain.find(black_box(entries)).is_some()));
            });
            let mut text = String::new();
            group.bench_with_input(
                BenchmarkId::new("find and key", n_rules),
                &entries,
                |b, entries| b.iter(|| decide(&mut text, &domain, black_box(entries))),
            );
        }
        group.finish();
    }
}

fn three_levels(c: &mut Criterion) {
    let below = |node: Node, below: Node| Node { children: Level::new(vec![below]), ..node };
    let level = |key: &str| Node { key: key.into(), rule: Some(RuleId(0)), ..Node::default() };
    let tree = (0..MANY).map(|n| {
        let methods = below(level("method"), level("ip"));
        below(node(Shape::Prefixes, n), methods)
    });
    let domain = domain(tree);
    let entries = [
        Entry { key: "path", value: "/tenants/777/orders" },
        Entry { key: "method", value: "GET" },
        Entry { key: "ip", value: "198.51.100.1" },
    ];
    let mut text = String::new();
    c.bench_function("three levels/find and key/100000", |b| {
        b.iter(|| decide(&mut text, &domain, black_box(&entries)));
    });
}

fn hostile(c: &mut Criterion) {
    let stars = "a*".repeat(1_000);
    let pattern =
        Node { key: "path".into(), value: Some(format!("*{stars}b*").into()), ..Node::default() };
    let domain = domain(std::iter::once(pattern));
    for n_bytes in [1_000, 10_000] {
        let value = "a".repeat(n_bytes);
        let entries = [Entry { key: "path", value: &value }];
        c.bench_with_input(BenchmarkId::new("hostile value", n_bytes), &entries, |b, entries| {
            b.iter(|| black_box(domain.find(black_box(entries)).is_some()));
        });
    }
}

criterion_group!(benches, one_level, three_levels, hostile);
criterion_main!(benches);
