//! What a trace is told of a call: where it comes from and what became of it, in words of the
//! policies and never in the caller's.

use super::Error;
use crate::envoy::metadata::decided_by_word;
use crate::limiter::{Code, Response, Status};
use crate::telemetry::{Caller, Outcome};
use tonic::metadata::MetadataMap;

/// The span that a call comes from, if it says so.
pub(super) fn caller(metadata: &MetadataMap) -> Option<Caller> {
    let text = |name| metadata.get(name)?.to_str().ok();
    Caller::read(text("traceparent")?, text("tracestate"))
}

/// What became of a call for that domain.
pub(super) fn outcome(decided: &Result<Response, Error>, domain: &str) -> Outcome {
    match decided {
        Ok(response) => of_response(response, domain),
        Err(error) => Outcome {
            grpc_status: tonic::Status::from(error.clone()).code().into(),
            error: Some(error.to_string()),
            ..Outcome::default()
        },
    }
}

fn of_response(response: &Response, domain: &str) -> Outcome {
    let Response { code, statuses, policies } = response;
    let rule = |status: &Status| {
        let rule = response.rule(status);
        rule.map(|rule| rule.path.to_string()).unwrap_or_default()
    };
    Outcome {
        domain: policies.rules.domains.get(domain).map(|domain| domain.name.to_string()),
        code: Some(word(*code)),
        rules: statuses.iter().map(rule).collect(),
        statuses: statuses.iter().map(|status| word(status.code)).collect(),
        decided_by: statuses.iter().map(|status| decided_by_word(status.decided_by)).collect(),
        ..Outcome::default()
    }
}

fn word(code: Code) -> &'static str {
    crate::envoy::convert::code(code).as_str_name()
}
