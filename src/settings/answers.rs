//! How requests are decided and answered.

use super::BOOL;
use super::faults::Faults;
use super::words;

/// Answers as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Answers")]
pub(super) struct RawAnswers {
    /// Decide and count, but let every request pass
    #[arg(long, env = "SHADOW_MODE", value_name = BOOL, default_value = "false")]
    shadow_mode: String,
    /// Refuse a request only if all of its limits do
    #[arg(long, env = "QUOTA_MODE", value_name = BOOL, default_value = "false")]
    quota_mode: String,
    /// A refused request takes nothing from its other limits, whatever their domain says
    #[arg(long, env = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", value_name = BOOL, default_value = "false")]
    stop_cache_key_increment_when_overlimit: String,
    /// Share of a limit from which hits count as near it in metrics
    #[arg(long, env = "NEAR_LIMIT_RATIO", value_name = "RATIO", default_value = "0.8")]
    near_limit_ratio: String,
    /// Add headers that tell clients about their limit
    #[arg(long, env = "LIMIT_RESPONSE_HEADERS_ENABLED", value_name = BOOL, default_value = "false")]
    limit_response_headers_enabled: String,
    /// Header of the limit
    #[arg(
        long,
        env = "LIMIT_LIMIT_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Limit"
    )]
    limit_limit_header: String,
    /// Header of what remains of it
    #[arg(
        long,
        env = "LIMIT_REMAINING_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Remaining"
    )]
    limit_remaining_header: String,
    /// Header of the seconds until it is as if unused
    #[arg(
        long,
        env = "LIMIT_RESET_HEADER",
        value_name = "NAME",
        default_value = "RateLimit-Reset"
    )]
    limit_reset_header: String,
    /// Add `retry-after` to refusals
    #[arg(long, env = "RETRY_AFTER_HEADER_ENABLED", value_name = BOOL, default_value = "true")]
    retry_after_header_enabled: String,
    /// Say in dynamic metadata which rules decided
    #[arg(long, env = "RESPONSE_DYNAMIC_METADATA", value_name = BOOL, default_value = "false")]
    response_dynamic_metadata: String,
    /// Answer rate-limit requests as JSON on the HTTP port, too
    #[arg(long, env = "JSON_ENABLED", value_name = BOOL, default_value = "true")]
    json_enabled: String,
    /// Let JSON requests give hits back
    #[arg(long, env = "JSON_ALLOW_REFUNDS", value_name = BOOL, default_value = "false")]
    json_allow_refunds: String,
}

/// How requests are decided and answered.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Answers {
    /// Decide and count, but let pass.
    pub shadow_mode: bool,
    /// Refuse only if every limit does.
    pub quota_mode: bool,
    /// The whole request is one group.
    pub stop_when_over_limit: bool,
    /// From which share of a limit hits count as near it.
    pub near_limit_ratio: f32,
    /// Headers that tell clients about their limit.
    pub limit_headers: Option<LimitHeaderNames>,
    /// `retry-after` on refusals.
    pub retry_after_header: bool,
    /// Say in dynamic metadata which rules decided.
    pub dynamic_metadata: bool,
    /// `/json`
    pub json: bool,
    /// Refunds there.
    pub json_allow_refunds: bool,
}

/// Names of headers, valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHeaderNames {
    /// Of the limit.
    pub limit: String,
    /// Of what remains of it.
    pub remaining: String,
    /// Of the seconds until it is as if unused.
    pub reset: String,
}

impl RawAnswers {
    pub(super) fn read(self, faults: &mut Faults) -> Option<Answers> {
        let mut switch = |variable, text: &str| faults.read(variable, text, words::boolean);
        let shadow = switch("SHADOW_MODE", &self.shadow_mode);
        let quota = switch("QUOTA_MODE", &self.quota_mode);
        let stop = switch(
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
            &self.stop_cache_key_increment_when_overlimit,
        );
        let retry = switch("RETRY_AFTER_HEADER_ENABLED", &self.retry_after_header_enabled);
        let metadata = switch("RESPONSE_DYNAMIC_METADATA", &self.response_dynamic_metadata);
        let json = switch("JSON_ENABLED", &self.json_enabled);
        let refunds = switch("JSON_ALLOW_REFUNDS", &self.json_allow_refunds);
        let ratio = faults.read("NEAR_LIMIT_RATIO", &self.near_limit_ratio, words::ratio);
        let headers = self.limit_headers(faults);
        Some(Answers {
            shadow_mode: shadow?,
            quota_mode: quota?,
            stop_when_over_limit: stop?,
            near_limit_ratio: ratio?,
            limit_headers: headers?,
            retry_after_header: retry?,
            dynamic_metadata: metadata?,
            json: json?,
            json_allow_refunds: refunds?,
        })
    }

    /// `Some(None)`: not asked for.
    fn limit_headers(&self, faults: &mut Faults) -> Option<Option<LimitHeaderNames>> {
        let enabled = &self.limit_response_headers_enabled;
        let enabled = faults.read("LIMIT_RESPONSE_HEADERS_ENABLED", enabled, words::boolean);
        let mut name = |variable, text: &str, default: &'static str| {
            let text = if text.is_empty() { default } else { text };
            faults.read(variable, text, words::header_name)
        };
        let limit = name("LIMIT_LIMIT_HEADER", &self.limit_limit_header, "RateLimit-Limit");
        let remaining =
            name("LIMIT_REMAINING_HEADER", &self.limit_remaining_header, "RateLimit-Remaining");
        let reset = name("LIMIT_RESET_HEADER", &self.limit_reset_header, "RateLimit-Reset");
        let names = LimitHeaderNames { limit: limit?, remaining: remaining?, reset: reset? };
        Some(enabled?.then_some(names))
    }
}
