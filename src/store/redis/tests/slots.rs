//! Slots of keys with hostile values, against what Redis itself computes.

use super::support::redis::Redis;
use crate::rules::{Consume, Defaults, Domain, Entry, Level, write_key};
use crate::store::redis::slots::slot;
use proptest::prelude::*;
use redis::Cmd;
use std::cell::RefCell;

fn domain(hash_tag: &[&str]) -> Domain {
    Domain {
        name: "d".into(),
        root: Level::default(),
        hash_tag: hash_tag.iter().map(|&key| key.into()).collect(),
        consume: Consume::Each,
        defaults: Defaults::default(),
        denied: None,
    }
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[{}]{1,3}",
        "[a{}|=:%\0\r\n ]{0,12}",
        any::<String>(),
        "x{200}",
        Just(String::new()),
    ]
}

#[test]
fn a_key_stands_in_the_slot_of_its_tag_whatever_its_values() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(Redis::start_with(&["--cluster-enabled", "yes"]));
    let client = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
    let connection = RefCell::new(client.get_connection().unwrap());
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() };
    let domains = [domain(&[]), domain(&["k"])];
    proptest!(config, |(k in hostile(), l in hostile(), chosen in 0..2_usize)| {
        let entries = [Entry { key: "k", value: &k }, Entry { key: "l", value: &l }];
        let mut text = String::from("shop:tg:rl:");
        let range =
            write_key(&mut text, &domains[chosen], entries.into_iter(), "token_bucket/60");
        let mut command = Cmd::new();
        command.arg("CLUSTER").arg("KEYSLOT").arg(&text);
        let expected: u16 = command.query(&mut *connection.borrow_mut()).unwrap();
        prop_assert_eq!(slot(&text[range.tag]), expected);
    });
}
