//! What a retry gets, and that the service ran once.

use crate::scene::{POLICY, Scene};

#[tokio::test]
async fn a_retry_gets_the_same_answer_and_does_not_run() {
    let scene = Scene::start(POLICY).await;
    let headers = [
        ("x-answer-content-type", "application/json"),
        ("x-answer-location", "/pay/7"),
        ("x-answer-etag", "\"7\""),
        ("x-answer-set-cookie", "session=secret"),
        ("x-answer-x-internal", "1"),
    ];
    let first = scene.post_with("/pay", "k-1", &headers, "{}").await;
    assert_eq!((first.status, first.body.as_str()), (201, "{\"run\":1}"));
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_eq!(first.header("set-cookie"), "session=secret");

    let retry = scene.post_with("/pay", "k-1", &headers, "{}").await;
    assert_eq!((retry.status, &retry.body), (201, &first.body));
    assert_eq!(retry.header("idempotent-replayed"), "true");
    for name in ["content-type", "location", "etag", "content-length"] {
        assert_eq!(retry.header(name), first.header(name), "{name}");
    }
    assert_eq!(
        (retry.header("set-cookie"), retry.header("x-internal")),
        (String::new(), String::new())
    );
    assert_eq!(scene.service.n_ran(), 1);
    let ran = &scene.service.ran()[0].headers;
    assert_eq!(ran["x-idempotency-attempt"], "first");
    assert!(ran["x-idempotency-fence"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(ran["x-idempotency-operation"].len(), 52);
}
