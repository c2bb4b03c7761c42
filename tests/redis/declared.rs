//! Scripts touch the keys that their calls declare, and no others: servers that hold scripts to that
//! refuse the rest. Redis itself does not, but its `MONITOR` shows both.

use crate::house::{House, batch, group, limit_by, patient, single};
use crate::support::redis::Redis;
use std::net::Ipv4Addr;
use tidegate::algorithm::{Algorithm, Anchor, Charge};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The words of a line of `MONITOR`: all that stand in quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some((_, from)) = rest.split_once('"') {
        let mut escaped = false;
        let end = from.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(from.len());
        words.push(from[..end].to_owned());
        rest = from.get(end + 1..).unwrap_or_default();
    }
    words
}

/// The keys that a call of a script declares.
fn declared(words: &[String]) -> &[String] {
    let n_keys: usize = words[2].parse().unwrap();
    &words[3..3 + n_keys]
}

#[test]
fn words_are_read_as_they_were_written() {
    let line = r#"+1.2 [0 lua] "SET" "a\"b" "\\" "PX" "3""#;
    assert_eq!(words(line), ["SET", r#"a\"b"#, r"\\", "PX", "3"]);
}

#[tokio::test]
async fn scripts_touch_nothing_that_they_do_not_declare() {
    let redis = Redis::start().await;
    let house = House::open(patient(single(&redis))).await;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port)).await.unwrap();
    let mut monitor = BufReader::new(stream);
    monitor.write_all(b"MONITOR\r\n").await.unwrap();
    let mut line = String::new();
    monitor.read_line(&mut line).await.unwrap();
    assert_eq!(line.trim(), "+OK");

    let all = Algorithm::ALL.into_iter().chain([Algorithm::FixedWindow(Anchor::FirstHit)]);
    let limits: Vec<_> = all.map(|algorithm| limit_by(algorithm, 3)).collect();
    let charges = [Charge::Take(1), Charge::Take(3), Charge::Peek, Charge::Refund(2)];
    for charge in charges.into_iter().chain(charges) {
        let tags: Vec<_> = (0..limits.len()).map(|n| format!("t{n}")).collect();
        let asked: Vec<_> =
            tags.iter().zip(&limits).map(|(tag, limit)| (&**tag, *limit, charge)).collect();
        for decided in [house.decide(&batch(&asked)).await, house.decide(&group(&asked)).await] {
            assert!(decided.iter().all(Result::is_ok), "{decided:?}");
        }
    }
    let _: String = redis.ask(&["ECHO", "the-end"]).await;

    let (mut keys, mut n_touched) = (Vec::new(), 0);
    loop {
        line.clear();
        monitor.read_line(&mut line).await.unwrap();
        let words = words(&line);
        match words.first().map(|word| word.to_uppercase()).as_deref() {
            Some("ECHO") => break,
            Some("EVAL" | "EVALSHA") => keys = declared(&words).to_vec(),
            Some("TIME") => {}
            Some(_) if line.contains(" lua]") => {
                assert!(keys.contains(&words[1]), "{line} declares {keys:?} only");
                n_touched += 1;
            }
            _ => {}
        }
    }
    assert!(n_touched > 50, "{n_touched} commands were seen");
}
