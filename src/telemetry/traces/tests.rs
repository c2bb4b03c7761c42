use super::*;
use crate::clock::ManualClock;
use crate::settings::TraceProtocol;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A tracer whose collector is not there.
fn tracer(sampling_rate: f32) -> (Tracer, Exporter, IntCounter) {
    let settings = TraceSettings {
        protocol: TraceProtocol::Http,
        endpoint: "http://127.0.0.1:1/v1/traces".parse().unwrap(),
        headers: Vec::new(),
        ca: None,
        timeout: Duration::from_secs(10),
        sampling_rate,
        service: Vec::new(),
    };
    let dropped = IntCounter::new("dropped", "dropped").unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let (tracer, exporter) = Tracer::new(settings, clock, dropped.clone()).unwrap();
    (tracer, exporter, dropped)
}

#[tokio::test]
async fn spans_that_find_no_place_or_no_collector_are_dropped_and_counted() {
    let (tracer, exporter, dropped) = tracer(1.0);
    for _ in 0..MAX_WAITING + 3 {
        tracer.end(tracer.begin(None).unwrap(), Outcome::default());
    }
    assert_eq!(dropped.get(), 3);
    let stop = CancellationToken::new();
    stop.cancel();
    exporter.run(stop).await;
    assert_eq!(dropped.get(), 3 + MAX_WAITING as u64);
}

#[test]
fn the_caller_decides_what_is_sampled_or_else_chance_does() {
    let begin = |rate, parent: Option<&str>| {
        let caller = parent.map(|parent| Caller::read(parent, None).unwrap());
        tracer(rate).0.begin(caller)
    };
    assert!(begin(1.0, Some(&PARENT.replace("-01", "-00"))).is_none());
    let begun = begin(0.0, Some(PARENT)).unwrap();
    assert_eq!(begun.parent, Some(SpanId([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7])));
    assert!(begin(0.0, None).is_none());
    assert!(begin(1.0, None).unwrap().parent.is_none());
    let half = tracer(0.5).0;
    let n_sampled = (0..10_000).filter(|_| half.begin(None).is_some()).count();
    assert!((4_500..5_500).contains(&n_sampled), "{n_sampled}");
}
