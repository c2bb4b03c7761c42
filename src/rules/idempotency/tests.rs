use super::*;

fn matches(methods: &[&str], path: Option<&str>, route_name: Option<&str>) -> Matches {
    Matches {
        methods: methods.iter().map(|method| (*method).into()).collect(),
        path: path.map(Into::into),
        route_name: route_name.map(Into::into),
    }
}

fn check(matches: &Matches, method: &str, path: &str, route_name: &str, expected: bool) {
    let found = matches.match_it(Target { method, path, route_name });
    assert_eq!(found, expected, "{method} {path} on `{route_name}` for {matches:?}");
}

#[test]
fn a_route_matches_by_all_that_it_names() {
    let payments = matches(&["POST", "PATCH"], Some("/v1/payments*"), None);
    check(&payments, "POST", "/v1/payments", "", true);
    check(&payments, "PATCH", "/v1/payments/7", "whatever", true);
    check(&payments, "GET", "/v1/payments", "", false);
    check(&payments, "post", "/v1/payments", "", false);
    check(&payments, "POST", "/v2/payments", "", false);
    let by_name = matches(&["POST"], None, Some("orders-*"));
    check(&by_name, "POST", "/anything", "orders-eu", true);
    check(&by_name, "POST", "/anything", "", false);
}

#[test]
fn statuses_are_stored_unless_another_try_might_change_them() {
    let mut rule = ResponseRule {
        stored: StatusSet::default(),
        server_error: ServerError::Release,
        max_body: 0,
        headers: [].into(),
    };
    for status in 200..500 {
        let released = match status {
            401 | 403 | 407 | 408 | 421 | 425 | 429 => true,
            200..=399 | 400..=418 | 422 | 424 | 428 | 431 | 451 => false,
            _ => true,
        };
        let expected = if released { Storing::Release } else { Storing::Store };
        assert_eq!(rule.meaning(status), expected, "{status}");
    }
    for (server_error, expected) in [
        (ServerError::Release, Storing::Release),
        (ServerError::Store, Storing::Store),
        (ServerError::Hold, Storing::Hold),
    ] {
        rule.server_error = server_error;
        for status in [500, 503, 504, 599] {
            assert_eq!(rule.meaning(status), expected, "{status}");
        }
        assert_eq!(rule.meaning(429), Storing::Release);
    }
}

#[test]
fn a_status_set_holds_what_was_put_in() {
    let mut set = StatusSet::none();
    for status in [199, 200, 263, 264, 499, 500] {
        set.insert(status);
    }
    let found: Vec<u16> = (0..700).filter(|status| set.contains(*status)).collect();
    assert_eq!(found, [200, 263, 264, 499]);
}
