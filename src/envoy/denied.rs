//! The body of a refusal.

use super::headers::header;
use super::proto::RateLimitResponse;
use super::respond::Decided;
use crate::limiter::Status;

/// Fills in the body that the domain's policies give to refusals, if they give one.
pub(super) fn add_body(response: &mut RateLimitResponse, domain: &str, decided: Decided<'_>) {
    let body = decided.rules.domains.get(domain).and_then(|domain| domain.denied.as_ref());
    let Some((body, status)) = body.zip(decided.refusing()) else { return };
    let reset = status.reset_seconds.unwrap_or_default();
    let is_json = body.content_type.as_deref().is_some_and(is_json);
    let rule = rule_name(decided, status);
    let rule = if is_json { escaped(rule) } else { rule.to_owned() };
    let text = body.render(&rule, requests(status), reset);
    response.raw_body = text.into_bytes();
    if let Some(content_type) = &body.content_type {
        response.response_headers_to_add.push(header("content-type", content_type.to_string()));
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// As it stands between the quotes of a JSON text.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

/// The limit's name, else the rule's path; a request's own limit has neither.
fn rule_name<'a>(decided: Decided<'a>, status: &'a Status) -> &'a str {
    let name = status.limit.as_ref().and_then(|limit| limit.name.as_deref());
    let path = || status.rule.and_then(|id| decided.rules.rule(id)).map(|rule| rule.path.as_ref());
    name.or_else(path).unwrap_or("override")
}

fn requests(status: &Status) -> u32 {
    status.limit.as_ref().map_or(0, |limit| limit.requests)
}

#[cfg(test)]
mod tests {
    use crate::envoy::respond::response;
    use crate::envoy::sample::*;
    use crate::envoy::{Options, proto::HeaderValue};
    use crate::limiter::{Code, Status};
    use crate::rules::{DeniedBody, RuleSet, Unit};

    fn shop(template: &str, content_type: Option<&str>) -> RuleSet {
        let content_type = content_type.map(Into::into);
        let denied = DeniedBody { template: template.into(), content_type };
        rules(Some(denied), vec![rule("shop.path", 3)])
    }

    fn body(template: &str, code: Code, status: Status) -> String {
        let decided = super::Decided { code, statuses: &[status], rules: &shop(template, None) };
        let response = response(&request(&[&[]]), decided, &Options::default());
        String::from_utf8(response.raw_body).unwrap()
    }

    fn refusal(name: &str) -> Status {
        by_rule(0, refused(limit(10, Unit::Minute, name), 58))
    }

    #[test]
    fn places_are_filled_in_once() {
        let template = r#"{"rule":"{rule}","limit":{limit},"reset":{reset},"x":"{other}"}{"#;
        assert_eq!(
            body(template, Code::OverLimit, refusal("{limit}")),
            r#"{"rule":"{limit}","limit":10,"reset":58,"x":"{other}"}{"#
        );
    }

    #[test]
    fn a_nameless_limit_is_called_by_its_rules_path() {
        assert_eq!(body("{rule}", Code::OverLimit, refusal("")), "shop.path");
    }

    #[test]
    fn a_limit_of_the_request_itself_is_called_override() {
        let status = refused(limit(10, Unit::Minute, ""), 58);
        assert_eq!(body("{rule}", Code::OverLimit, status), "override");
    }

    #[test]
    fn what_may_pass_has_no_body() {
        assert_eq!(body("no", Code::Ok, refusal("")), "");
    }

    #[test]
    fn a_rules_name_cannot_break_out_of_json() {
        for (content_type, expected) in [
            ("application/json; charset=utf-8", r#"{"rule":"a\"b\\"}"#),
            ("application/problem+json", r#"{"rule":"a\"b\\"}"#),
            ("text/plain", r#"{"rule":"a"b\"}"#),
        ] {
            let rules = shop(r#"{"rule":"{rule}"}"#, Some(content_type));
            let statuses = [refusal(r#"a"b\"#)];
            let decided =
                super::Decided { code: Code::OverLimit, statuses: &statuses, rules: &rules };
            let response = response(&request(&[&[]]), decided, &Options::default());
            assert_eq!(String::from_utf8(response.raw_body).unwrap(), expected);
        }
    }

    #[test]
    fn a_content_type_goes_along_as_a_header() {
        let rules = shop("{}", Some("application/json"));
        let statuses = [refusal("")];
        let decided = super::Decided { code: Code::OverLimit, statuses: &statuses, rules: &rules };
        let off = Options { retry_after_header: false, ..Options::default() };
        let response = response(&request(&[&[]]), decided, &off);
        let expected = HeaderValue {
            key: "content-type".into(),
            value: "application/json".into(),
            raw_value: Vec::new(),
        };
        assert_eq!(response.response_headers_to_add, [expected]);
        assert_eq!(response.raw_body, b"{}");
    }
}
