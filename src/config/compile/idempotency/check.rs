//! What the parts of a route mean for each other.

use super::super::fields::Sink;
use super::parts::Parts;
use crate::config::raw::Place;
use crate::rules::OnLeaseExpired;
use crate::rules::idempotency::{Anonymous, StoreFailure};

impl Parts {
    /// Checks what one key alone cannot tell; `route` is where it begins.
    pub(super) fn check(&self, sink: &mut Sink<'_>, route: Place) {
        self.check_times(sink, route);
        self.check_failure(sink);
        self.check_scope(sink, route);
    }

    fn check_times(&self, sink: &mut Sink<'_>, route: Place) {
        let place = |given: Option<Place>, other: Option<Place>| given.or(other).unwrap_or(route);
        let lease = self.lease.as_ref().map(|(place, _)| *place);
        let retention = self.retention.as_ref().map(|(place, _)| *place);
        if self.retention() < self.lease() * 2 {
            let message = format!(
                "a retention of {:?} is too short for a lease of {:?}, expected at least twice as \
                 long: what was claimed must not be forgotten before its lease ends",
                self.retention(),
                self.lease()
            );
            sink.error(place(retention, lease), message);
        }
        let execution = self.max_execution.as_ref().map(|(place, _)| *place);
        if self.max_execution() < self.lease() {
            let message = format!(
                "`max_execution` of {:?} is shorter than the lease of {:?}",
                self.max_execution(),
                self.lease()
            );
            sink.error(place(execution, lease), message);
        }
    }

    fn check_failure(&self, sink: &mut Sink<'_>) {
        let holds = self.on_lease_expired.is_none_or(|(_, it)| it == OnLeaseExpired::Hold);
        if let Some((place, StoreFailure::Open)) = self.store_failure
            && holds
        {
            let message = "`store_failure: open` lets a request run twice, which \
                           `on_lease_expired: hold` promises not to; say `takeover` if the upstream \
                           refuses stale fences";
            sink.error(place, message);
        }
    }

    fn check_scope(&self, sink: &mut Sink<'_>, route: Place) {
        let has_principal = self.principal_is_faulty
            || self.principal.as_ref().is_some_and(|(_, it)| !it.is_empty());
        let anonymous = self.anonymous.map(|(_, it)| it).unwrap_or_default();
        if !has_principal && anonymous == Anonymous::Reject {
            let place = self.principal.as_ref().map_or(route, |(place, _)| *place);
            let message = "every caller would be refused: under `scope`, list under `principal` how \
                           callers are known, or say `anonymous: shared`";
            sink.error(place, message);
        }
    }
}
