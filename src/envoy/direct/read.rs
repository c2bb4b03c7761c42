//! What callers send, validated: an error says what was found and what was expected.

use super::super::Caller;
use super::proto::{self, OnLeaseExpired as Rule, complete_request};
use crate::clock::Micros;
use crate::idempotency::{
    Claim, Fence, Fingerprint, NotStored, OperationId, Outcome, Owner, StoredAnswer, Terms, Token,
};
use crate::rules::OnLeaseExpired;
use http::Extensions;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// Largest answer that is kept, headers and body.
pub(super) const MAX_ANSWER: usize = 1 << 20;

const MAX_NAME: usize = 255;
const MAX_FINGERPRINT: usize = 200;
const MAX_LOCATION: usize = 8 << 10;
const MAX_HEADERS: usize = 256;

const LEASE: Duration = Duration::from_secs(60);
const LEASES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
const DAY: u64 = 86_400;
const RETENTION: Duration = Duration::from_secs(DAY);
const RETENTIONS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30 * DAY));

/// How long a lease is remembered at least after it has ended, so that its fence is.
const LEASE_RETENTION: Duration = Duration::from_secs(3600);

/// Fingerprints of this API are no filter's.
const FINGERPRINT_VERSION: u32 = 0;

/// What is named: operations and leases do not share their names, with each other or the filter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Operation,
    Lease,
}

/// Who asks for what.
pub(super) struct Named<'r> {
    pub(super) kind: Kind,
    pub(super) namespace: &'r str,
    /// The field that names it, for errors.
    pub(super) field: &'static str,
    pub(super) name: &'r str,
    pub(super) owner: &'r [u8],
}

impl Named<'_> {
    /// Which operation it is, and whose attempt.
    pub(super) fn read(&self, caller: &Extensions) -> Result<(OperationId, Owner), Status> {
        let namespace = self.namespace(caller)?;
        name(self.field, self.name)?;
        let owner = self.owner.try_into().map_err(|_| {
            let found = format!("{} bytes", self.owner.len());
            invalid("owner", found, "16 random bytes, made anew for each attempt")
        })?;
        // No route is called so.
        let route_group = match self.kind {
            Kind::Operation => "\0operation",
            Kind::Lease => "\0lease",
        };
        let operation = OperationId::of(namespace, "", "", route_group, self.name.as_bytes());
        Ok((operation, Owner::new(owner)))
    }

    /// The same with the fence that a claim gave.
    pub(super) fn token(&self, caller: &Extensions, fence: u64) -> Result<Token, Status> {
        let (operation, owner) = self.read(caller)?;
        if fence == 0 {
            return Err(invalid("fence", "0", "the fence that the claim gave"));
        }
        Ok(Token { operation, owner, fence: Fence(fence) })
    }

    fn namespace<'s>(&'s self, caller: &'s Extensions) -> Result<&'s str, Status> {
        match caller.get() {
            None => Err(Status::unauthenticated("it is not known who calls")),
            Some(Caller::Unnamed) => {
                name("namespace", self.namespace)?;
                Ok(self.namespace)
            }
            Some(Caller::Certified(names)) => match names.first() {
                None => Err(Status::unauthenticated("the certificate has no URI and no DNS name")),
                Some(own) if [&**own, ""].contains(&self.namespace) => Ok(own),
                Some(_) => {
                    let text = "namespace: not that of the caller's certificate; expected none";
                    Err(Status::permission_denied(text))
                }
            },
        }
    }
}

/// What is asked with a claim of an operation.
pub(super) fn claim(asked: &proto::ClaimRequest, caller: &Extensions) -> Result<Claim, Status> {
    let (operation, owner) = asked.named().read(caller)?;
    if asked.fingerprint.len() > MAX_FINGERPRINT {
        let found = format!("{} bytes", asked.fingerprint.len());
        return Err(invalid("fingerprint", found, format!("at most {MAX_FINGERPRINT}")));
    }
    let (lease, retention) = terms(asked.lease.as_ref(), asked.retention.as_ref())?;
    let on_lease_expired = match Rule::try_from(asked.on_lease_expired) {
        Ok(Rule::Unspecified | Rule::Hold) => OnLeaseExpired::Hold,
        Ok(Rule::Takeover) => OnLeaseExpired::Takeover,
        Err(_) => {
            let found = asked.on_lease_expired;
            return Err(invalid("on_lease_expired", found, "HOLD (1) or TAKEOVER (2)"));
        }
    };
    let fingerprint = Fingerprint::new(FINGERPRINT_VERSION, &asked.fingerprint);
    let terms = Terms { lease, retention, on_lease_expired };
    Ok(Claim { operation, owner, fingerprint, terms })
}

/// What is asked with the acquisition of a lease.
pub(super) fn acquire(asked: &proto::AcquireRequest, caller: &Extensions) -> Result<Claim, Status> {
    let (operation, owner) = asked.named().read(caller)?;
    let lease = lease(asked.lease.as_ref())?;
    let terms = Terms {
        lease,
        retention: lease_retention(lease),
        on_lease_expired: OnLeaseExpired::Takeover,
    };
    let fingerprint = Fingerprint::new(FINGERPRINT_VERSION, "lease");
    Ok(Claim { operation, owner, fingerprint, terms })
}

/// For how long a lease is remembered.
pub(super) fn lease_retention(lease: Duration) -> Duration {
    lease * 2 + LEASE_RETENTION
}

/// How long a claim holds, and how long it is remembered.
pub(super) fn terms(
    lease: Option<&prost_types::Duration>,
    retention: Option<&prost_types::Duration>,
) -> Result<(Duration, Duration), Status> {
    let (lease, retention) = (self::lease(lease)?, self::retention(retention)?);
    if retention < lease * 2 {
        let expected = format!("at least two leases, {} s", (lease * 2).as_secs_f64());
        let found = format!("{} s", retention.as_secs_f64());
        return Err(invalid("retention", found, expected));
    }
    Ok((lease, retention))
}

pub(super) fn lease(asked: Option<&prost_types::Duration>) -> Result<Duration, Status> {
    duration("lease", asked, LEASE, LEASES)
}

pub(super) fn retention(asked: Option<&prost_types::Duration>) -> Result<Duration, Status> {
    duration("retention", asked, RETENTION, RETENTIONS)
}

fn duration(
    field: &str,
    asked: Option<&prost_types::Duration>,
    default: Duration,
    (least, most): (Duration, Duration),
) -> Result<Duration, Status> {
    let Some(mut asked) = asked.copied() else { return Ok(default) };
    // The crate negates what it is given, which the smallest number does not bear.
    asked.seconds = asked.seconds.clamp(i64::MIN / 2, i64::MAX / 2);
    let found = Duration::try_from(asked).ok();
    found.filter(|found| (least..=most).contains(found)).ok_or_else(|| {
        let expected = format!("{} s to {} s", least.as_secs(), most.as_secs());
        invalid(field, format!("{asked}"), expected)
    })
}

/// What became of an operation; `now` is the date of its answer.
pub(super) fn outcome(
    asked: Option<complete_request::Outcome>,
    now: Micros,
) -> Result<Outcome, Status> {
    match asked {
        None => Err(invalid("outcome", "none", "answer or not_stored")),
        Some(complete_request::Outcome::NotStored(told)) => {
            let location = told.location;
            let n_bytes = location.as_ref().map_or(0, Vec::len);
            if n_bytes > MAX_LOCATION {
                let expected = format!("at most {MAX_LOCATION}");
                return Err(invalid("location", format!("{n_bytes} bytes"), expected));
            }
            Ok(Outcome::NotStored(NotStored { status: status(told.status)?, location }))
        }
        Some(complete_request::Outcome::Answer(answer)) => stored(answer, now),
    }
}

fn stored(answer: proto::Answer, now: Micros) -> Result<Outcome, Status> {
    if answer.headers.len() > MAX_HEADERS {
        let found = answer.headers.len();
        return Err(invalid("headers", found, format!("at most {MAX_HEADERS}")));
    }
    let headers = answer.headers.into_iter();
    let outcome = Outcome::Stored(Arc::new(StoredAnswer {
        status: status(answer.status)?,
        headers: headers.map(|header| (header.name.into(), header.value)).collect(),
        body: answer.body,
        date: now,
    }));
    let n_bytes = outcome.n_bytes();
    if n_bytes > MAX_ANSWER {
        let expected = format!("at most {MAX_ANSWER}, or not_stored in its place");
        return Err(invalid("answer", format!("{n_bytes} bytes"), expected));
    }
    Ok(outcome)
}

fn status(found: u32) -> Result<u16, Status> {
    found.try_into().map_err(|_| invalid("status", found, "at most 65535"))
}

fn name(field: &str, text: &str) -> Result<(), Status> {
    let expected = format!("1 to {MAX_NAME} bytes without control characters");
    if text.is_empty() || text.len() > MAX_NAME {
        return Err(invalid(field, format!("{} bytes", text.len()), expected));
    }
    if text.contains(char::is_control) {
        return Err(invalid(field, "a control character", expected));
    }
    Ok(())
}

fn invalid(field: &str, found: impl Display, expected: impl Display) -> Status {
    Status::invalid_argument(format!("{field}: found {found}, expected {expected}"))
}
