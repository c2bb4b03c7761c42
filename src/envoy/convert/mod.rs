//! Between Envoy's messages and the limiter's words.

use super::proto::{
    Code as WireCode, DescriptorStatus, RateLimit, RateLimitDescriptor, RateLimitOverride,
    RateLimitRequest, Unit as WireUnit,
};
use crate::algorithm::{Charge, MAX_HITS};
use crate::limiter::{Code, Descriptor, Override, Request, Status, StatusLimit};
use crate::rules::{Entry, Unit};
use prost_types::Duration;

/// Why a request has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// So many that answering them would keep others waiting.
    #[error("descriptors: found {found}, expected at most {MAX_DESCRIPTORS}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// An override names no unit, or one that does not exist.
    #[error(
        "descriptors[{place}].limit.unit: found {found}, expected 1 (SECOND), 2 (MINUTE), \
         3 (HOUR), 4 (DAY), 5 (MONTH), 6 (YEAR) or 7 (WEEK)"
    )]
    Unit {
        /// Which descriptor, from 0.
        place: usize,
        /// Its number on the wire.
        found: i32,
    },
    /// An override's window is longer than a year.
    #[error(
        "descriptors[{place}].limit: found a window of {multiplier} x {unit}, expected at most a \
         year"
    )]
    Window {
        /// Which descriptor, from 0.
        place: usize,
        /// Its unit's word.
        unit: &'static str,
        /// How many of them.
        multiplier: u32,
    },
}

/// Most descriptors of a request. Envoy sends a handful.
const MAX_DESCRIPTORS: usize = 4096;

/// The request that a message means; it borrows every text from the message.
pub(super) fn request(message: &RateLimitRequest) -> Result<Request<'_>, Invalid> {
    let found = message.descriptors.len();
    if found > MAX_DESCRIPTORS {
        return Err(Invalid::TooMany { found });
    }
    let descriptors = message
        .descriptors
        .iter()
        .enumerate()
        .map(|(place, wire)| descriptor(place, wire, message.hits_addend))
        .collect::<Result<_, _>>()?;
    Ok(Request { domain: &message.domain, descriptors })
}

/// The status that a caller is told.
pub(super) fn status(status: &Status) -> DescriptorStatus {
    DescriptorStatus {
        code: code(status.code).into(),
        current_limit: status.limit.as_ref().map(current_limit),
        limit_remaining: status.remaining,
        duration_until_reset: status.reset_seconds.map(duration),
        quota: None,
    }
}

/// The code that a caller is told.
pub(super) fn code(code: Code) -> WireCode {
    match code {
        Code::Ok => WireCode::Ok,
        Code::OverLimit => WireCode::OverLimit,
    }
}

fn descriptor(
    place: usize,
    wire: &RateLimitDescriptor,
    request_hits: u32,
) -> Result<Descriptor<'_>, Invalid> {
    let entries = wire.entries.iter().map(|entry| Entry { key: &entry.key, value: &entry.value });
    Ok(Descriptor {
        entries: entries.collect(),
        charge: charge(wire, request_hits),
        limit_override: wire
            .limit
            .as_ref()
            .map(|limit| limit_override(place, limit))
            .transpose()?,
    })
}

/// A descriptor's own hits win, even 0; the request's field cannot tell 0 from absent.
fn charge(wire: &RateLimitDescriptor, request_hits: u32) -> Charge {
    let hits = wire.hits_addend.unwrap_or(request_hits.max(1).into()).min(MAX_HITS);
    match hits {
        _ if wire.is_negative_hits => Charge::Refund(hits),
        0 => Charge::Peek,
        _ => Charge::Take(hits),
    }
}

fn limit_override(place: usize, wire: &RateLimitOverride) -> Result<Override, Invalid> {
    let unit = unit(wire.unit).ok_or(Invalid::Unit { place, found: wire.unit })?;
    let multiplier = wire.unit_multiplier.unwrap_or_default();
    if unit.window(multiplier).is_none() {
        return Err(Invalid::Window { place, unit: unit.name(), multiplier });
    }
    Ok(Override { requests: wire.requests_per_unit, unit, unit_multiplier: multiplier })
}

/// Requests and responses number their units alike, except that requests know no name for 7.
fn unit(number: i32) -> Option<Unit> {
    Unit::ALL.into_iter().find(|&unit| i32::from(wire_unit(unit)) == number)
}

fn wire_unit(unit: Unit) -> WireUnit {
    match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    }
}

fn current_limit(limit: &StatusLimit) -> RateLimit {
    RateLimit {
        requests_per_unit: limit.requests,
        unit: wire_unit(limit.unit).into(),
        name: limit.name.as_deref().unwrap_or_default().into(),
        unit_multiplier: (limit.unit_multiplier != 1).then_some(limit.unit_multiplier),
    }
}

fn duration(seconds: u64) -> Duration {
    Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

#[cfg(test)]
mod tests;
