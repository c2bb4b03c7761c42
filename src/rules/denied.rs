//! The body of a refusal.

use super::DeniedBody;
use std::fmt::Write;

impl DeniedBody {
    /// The body with `{rule}`, `{limit}` (hits per window) and `{reset}` (seconds) filled in; all
    /// other braces stay. No text of a client's belongs into any of them.
    pub fn render(&self, rule: &str, limit: u32, reset_seconds: u64) -> String {
        let mut body = String::with_capacity(self.template.len() + rule.len());
        let mut rest = &*self.template;
        while let Some((before, after)) = rest.split_once('{') {
            body.push_str(before);
            rest = after;
            // Writing to a string cannot fail.
            if let Some(after) = rest.strip_prefix("rule}") {
                body.push_str(rule);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("limit}") {
                _ = write!(body, "{limit}");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("reset}") {
                _ = write!(body, "{reset_seconds}");
                rest = after;
            } else {
                body.push('{');
            }
        }
        body.push_str(rest);
        body
    }
}
