use super::samples::Kind;
use super::*;
use crate::rules::Labels;
use crate::settings::{Dialect, Transport};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UdpSocket};

fn settings(transport: Transport, port: u16) -> PushSettings {
    PushSettings {
        dialect: Dialect::Statsd,
        transport,
        host: "127.0.0.1".to_owned(),
        port,
        tags: Vec::new(),
        interval: Duration::from_secs(10),
    }
}

fn labels(levels: &[&str]) -> Labels {
    Labels::new("shop", levels.iter().copied())
}

fn lines(push: &mut Push) -> Vec<String> {
    let samples = samples::of(&push.metrics);
    let packets = push.packets(&samples);
    push.told.extend(packets.iter().flat_map(|packet| packet.told.clone()));
    let text: String = packets.iter().map(|packet| &*packet.lines).collect();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn counts_go_out_once_under_the_names_of_the_reference() {
    let metrics = Metrics::new(10);
    let mut push = Push::new(&settings(Transport::Tcp, 1), Arc::clone(&metrics));
    assert_eq!(lines(&mut push), [""; 0]);
    let one = metrics.rule_series(&labels(&["user_10.0.0.1"]));
    let deep = metrics.rule_series(&labels(&["a", "b_x:y", "c", "d"]));
    one.total_hits.inc_by(5);
    one.over_limit.inc_by(2);
    deep.within_limit.inc();
    metrics.service_errors.inc();
    metrics.config_load_success.inc();
    assert_eq!(
        lines(&mut push),
        [
            "ratelimit.service.rate_limit.shop.user_10_0_0_1.total_hits:5|c",
            "ratelimit.service.rate_limit.shop.user_10_0_0_1.over_limit:2|c",
            "ratelimit.service.rate_limit.shop.a.b_x_y.c.d.within_limit:1|c",
            "ratelimit.service.call.should_rate_limit.service_error:1|c",
            "ratelimit.service.config_load_success:1|c",
        ]
    );
    assert_eq!(lines(&mut push), [""; 0]);
    one.total_hits.inc_by(3);
    assert_eq!(
        lines(&mut push),
        ["ratelimit.service.rate_limit.shop.user_10_0_0_1.total_hits:3|c"]
    );
}

#[test]
fn times_are_those_of_their_buckets() {
    let metrics = Metrics::new(10);
    let mut push = Push::new(&settings(Transport::Tcp, 1), Arc::clone(&metrics));
    for micros in [40, 200, 200, 30_000_000] {
        metrics.request_answered(Duration::from_micros(micros));
    }
    let name = "ratelimit_server.ShouldRateLimit";
    assert_eq!(
        lines(&mut push),
        [
            format!("{name}.total_requests:4|c"),
            format!("{name}.response_time:0.05|ms"),
            format!("{name}.response_time:0.25|ms|@0.5"),
            format!("{name}.response_time:20000|ms"),
        ]
    );
    assert_eq!(lines(&mut push), [""; 0]);
}

#[test]
fn tags_stand_where_each_dialect_wants_them() {
    let tags = [("env", "prod"), ("zone", "a")].map(|(name, value)| (name.into(), value.into()));
    let sample = Sample { name: "hits".into(), kind: Kind::Counter { total: 9 } };
    let line = |dialect, tags: &[_]| Writer::new(dialect, tags).line(&sample, 2);
    assert_eq!(line(Dialect::Statsd, &tags), "hits.__env=prod.__zone=a:2|c\n");
    assert_eq!(line(Dialect::DogStatsd, &tags), "hits:2|c|#env:prod,zone:a\n");
    assert_eq!(line(Dialect::DogStatsd, &[]), "hits:2|c\n");
}

#[test]
fn a_label_cannot_make_a_line_of_its_own() {
    let metrics = Metrics::new(10);
    let mut push = Push::new(&settings(Transport::Tcp, 1), Arc::clone(&metrics));
    metrics.request_series(&labels(&["path_a\nb:1|c"])).total_hits.inc();
    assert_eq!(lines(&mut push), ["ratelimit.service.rate_limit.shop.path_a_b_1_c.total_hits:1|c"]);
}

#[tokio::test]
async fn what_could_not_be_sent_is_part_of_the_next_push() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let metrics = Metrics::new(10);
    let mut push = Push::new(&settings(Transport::Tcp, address.port()), Arc::clone(&metrics));
    metrics.config_load_error.inc();
    push.push().await;
    assert!(push.failing);
    metrics.config_load_error.inc();
    let listener = TcpListener::bind(address).await.unwrap();
    let (accepted, ()) = tokio::join!(listener.accept(), push.push());
    assert!(!push.failing);
    let mut stream = accepted.unwrap().0;
    drop(push);
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "ratelimit.service.config_load_error:2|c\n");
}

#[tokio::test]
async fn datagrams_are_small_and_complete() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let metrics = Metrics::new(1000);
    let series: Vec<_> =
        (0..200).map(|n| metrics.rule_series(&labels(&[&format!("user_{n:03}")]))).collect();
    for series in &series {
        series.total_hits.inc();
    }
    let mut push = Push::new(&settings(Transport::Udp, port), metrics);
    push.push().await;
    let (mut buffer, mut n_lines, mut n_packets) = (vec![0; 65536], 0, 0);
    while n_lines < series.len() {
        let n = server.recv(&mut buffer).await.unwrap();
        assert!(n <= 1432, "{n}");
        n_lines += buffer[..n].split(|byte| *byte == b'\n').count() - 1;
        n_packets += 1;
    }
    assert!(n_packets > 5, "{n_packets}");
}

#[tokio::test]
async fn the_stop_pushes_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let metrics = Metrics::new(10);
    let push = Push::new(&settings(Transport::Tcp, port), Arc::clone(&metrics));
    metrics.config_load_error.inc();
    let stop = CancellationToken::new();
    stop.cancel();
    push.run(stop).await;
    let mut text = String::new();
    listener.accept().await.unwrap().0.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "ratelimit.service.config_load_error:1|c\n");
}
