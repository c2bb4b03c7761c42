use super::super::proto::RateLimitOverride;
use super::super::{json, sample};
use super::*;
use crate::clock::ManualClock;
use crate::rules::RuleSet;
use crate::store::{MemoryConfig, MemoryStore, Store};
use tonic::{Code, Status};

fn service(rules: Option<RuleSet>) -> RateLimit {
    let config = MemoryConfig { max_buckets: 1_000 };
    let store = Store::Memory(MemoryStore::new(config, Arc::new(ManualClock::default())));
    let metrics = Metrics::new(10);
    let options = limiter::Options::default();
    let limiter = Arc::new(Limiter::new(store, Arc::clone(&metrics), options));
    if let Some(rules) = rules {
        limiter.install(rules);
    }
    RateLimit::new(limiter, metrics, Options::default())
}

/// A service with a domain `shop` that limits nothing.
fn open_shop() -> RateLimit {
    service(Some(sample::rules(None, Vec::new())))
}

async fn ask(service: &RateLimit, asked: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    let answer = service.should_rate_limit(tonic::Request::new(asked)).await;
    answer.map(tonic::Response::into_inner)
}

async fn check_error(service: &RateLimit, asked: RateLimitRequest, code: Code, text: &str) {
    let status = ask(service, asked).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (code, text));
}

#[tokio::test]
async fn what_makes_no_sense_is_an_invalid_argument() {
    // Vector 102, BR-065.
    let open = open_shop();
    let nameless = RateLimitRequest { domain: String::new(), ..sample::request(&[&[]]) };
    let text = "rate limit domain must not be empty";
    check_error(&open, nameless, Code::InvalidArgument, text).await;
    let text = "rate limit descriptor list must not be empty";
    check_error(&open, sample::request(&[]), Code::InvalidArgument, text).await;
    let mut overridden = sample::request(&[&[("k", "v")]]);
    overridden.descriptors[0].limit = Some(RateLimitOverride::default());
    let text = "descriptors[0].limit.unit: found 0, expected 1 (SECOND), 2 (MINUTE), 3 (HOUR), \
                4 (DAY), 5 (MONTH), 6 (YEAR) or 7 (WEEK)";
    check_error(&open, overridden, Code::InvalidArgument, text).await;
    assert_eq!(open.metrics.service_errors.get(), 3);
}

#[tokio::test]
async fn without_rules_the_caller_is_asked_to_come_back() {
    // Vector 101.
    let closed = service(None);
    let text = "no rate limit configuration loaded";
    check_error(&closed, sample::request(&[&[]]), Code::Unavailable, text).await;
    assert_eq!(closed.metrics.service_errors.get(), 1);
}

#[test]
fn errors_of_the_store_are_counted_apart() {
    let open = open_shop();
    open.count(&Error::from(limiter::Error::Store(crate::store::StoreError::Timeout)));
    open.count(&Error::from(limiter::Error::NoPolicies));
    assert_eq!((open.metrics.redis_errors.get(), open.metrics.service_errors.get()), (1, 1));
}

#[test]
fn an_override_over_a_year_is_an_invalid_argument() {
    let status = Status::from(Error::from(limiter::Error::OverrideTooLong));
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn each_descriptor_gets_a_status_and_the_overall_code_is_always_set() {
    let open = open_shop();
    let mut asked = sample::request(&[&[("a", "b")], &[], &[("\0", "")]]);
    for domain in ["shop", "unknown"] {
        asked.domain = domain.into();
        let answer = ask(&open, asked.clone()).await.unwrap();
        assert_eq!(answer.overall_code(), super::super::proto::Code::Ok);
        assert_eq!(answer.statuses.len(), 3);
    }
    assert_eq!(open.metrics.service_errors.get(), 0);
    let counted = r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 2"#;
    assert!(open.metrics.render().contains(counted));
}

#[tokio::test]
async fn json_is_answered_by_the_same_service() {
    let open = open_shop();
    let body = br#"{"domain": "shop", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
    let http = json::answer(&open, body).await;
    assert_eq!(http.status(), 200);
    assert_eq!(http.body(), br#"{"overallCode":"OK","statuses":[{"code":"OK"}]}"#);

    let http = json::answer(&open, br#"{"domain": "shop"}"#).await;
    assert_eq!(http.status(), 400);
    assert_eq!(http.body(), b"Bad Request: rate limit descriptor list must not be empty\n");

    let refund = br#"{"domain": "shop", "descriptors": [{"isNegativeHits": true}]}"#;
    assert_eq!(json::answer(&open, refund).await.status(), 400);
    let options = Options { json_allow_refunds: true, ..Options::default() };
    let generous = RateLimit { options, ..open };
    assert_eq!(json::answer(&generous, refund).await.status(), 200);
}
