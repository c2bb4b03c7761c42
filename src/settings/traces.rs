//! Traces: whether requests are traced, and where spans are sent to.

use super::BOOL;
use super::faults::Faults;
use super::secret::Secret;
use super::words::{self, Read};
use http::{HeaderName, HeaderValue, Uri};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Traces as they are asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(super) struct RawTraces {
    /// Send a span for each sampled request to an OpenTelemetry collector
    #[arg(long, env = "TRACING_ENABLED", value_name = BOOL, default_value = "false")]
    tracing_enabled: String,
    /// How it is reached: http or grpc, both with protobuf
    #[arg(
        long,
        env = "TRACING_EXPORTER_PROTOCOL",
        value_name = "PROTOCOL",
        default_value = "http"
    )]
    tracing_exporter_protocol: String,
    /// Share of requests that are traced if their caller does not say
    #[arg(long, env = "TRACING_SAMPLING_RATE", value_name = "SHARE", default_value = "1")]
    tracing_sampling_rate: String,
    /// `service.name` of every span
    #[arg(long, env = "TRACING_SERVICE_NAME", value_name = "NAME", default_value = "RateLimit")]
    tracing_service_name: String,
    /// `service.namespace`
    #[arg(long, env = "TRACING_SERVICE_NAMESPACE", value_name = "NAME", default_value = "")]
    tracing_service_namespace: String,
    /// `service.instance.id`; if unset, one made up at the start
    #[arg(long, env = "TRACING_SERVICE_INSTANCE_ID", value_name = "NAME", default_value = "")]
    tracing_service_instance_id: String,
    /// Where the collector is; if unset, `http://localhost:4318`, for grpc `http://localhost:4317`
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", default_value = "")]
    otel_exporter_otlp_endpoint: String,
    /// The same for traces alone, with the whole path
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        value_name = "URL",
        default_value = ""
    )]
    otel_exporter_otlp_traces_endpoint: String,
    /// Headers of what is sent: `name=value,name2=value2`, with `%20` and the like
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_HEADERS",
        value_name = "PAIRS",
        default_value = "",
        hide_env_values = true
    )]
    otel_exporter_otlp_headers: Secret,
    /// The same for traces alone
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        value_name = "PAIRS",
        default_value = "",
        hide_env_values = true
    )]
    otel_exporter_otlp_traces_headers: Secret,
    /// How many milliseconds the collector may take
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_TIMEOUT",
        value_name = "MILLISECONDS",
        default_value = "10000"
    )]
    otel_exporter_otlp_timeout: String,
    /// Authorities in PEM that are trusted besides the system's, for `https`
    #[arg(long, env = "OTEL_EXPORTER_OTLP_CERTIFICATE", value_name = "PATH", default_value = "")]
    otel_exporter_otlp_certificate: String,
}

/// Where spans are sent to, and of which requests.
#[derive(Clone, PartialEq)]
pub struct TraceSettings {
    /// How the collector is spoken to.
    pub protocol: TraceProtocol,
    /// Where spans are put: scheme, host and path.
    pub endpoint: Uri,
    /// Headers of what is sent.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Authorities that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// How long sending may take.
    pub timeout: Duration,
    /// Share of requests that are traced if their caller does not say, from 0 to 1.
    pub sampling_rate: f32,
    /// `service.name`, `service.namespace` and `service.instance.id`, so far as they are set.
    pub service: Vec<(&'static str, String)>,
}

/// How an OpenTelemetry collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// HTTP/1.1.
    Http,
    /// gRPC.
    Grpc,
}

/// Where a collector takes traces over HTTP.
const HTTP_PATH: &str = "/v1/traces";

/// Where it takes them over gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

impl fmt::Debug for TraceSettings {
    /// The values of headers may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSettings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl RawTraces {
    /// Where to, if requests are traced and there is no fault.
    pub(super) fn read(self, faults: &mut Faults) -> Option<TraceSettings> {
        let enabled = faults.read("TRACING_ENABLED", &self.tracing_enabled, words::boolean);
        let protocol = &self.tracing_exporter_protocol;
        let protocol = faults.read("TRACING_EXPORTER_PROTOCOL", protocol, protocol_of);
        let rate = faults.read("TRACING_SAMPLING_RATE", &self.tracing_sampling_rate, words::ratio);
        let timeout = &self.otel_exporter_otlp_timeout;
        let timeout = faults.read("OTEL_EXPORTER_OTLP_TIMEOUT", timeout, words::positive);
        let headers = self.headers(faults);
        let protocol = protocol?;
        let endpoint = self.endpoint(protocol, faults);
        let settings = TraceSettings {
            protocol,
            endpoint: endpoint?,
            headers: headers?,
            ca: words::path(&self.otel_exporter_otlp_certificate),
            timeout: Duration::from_millis(timeout?.try_into().unwrap_or(u64::MAX)),
            sampling_rate: rate?,
            service: self.service(),
        };
        enabled?.then_some(settings)
    }

    fn service(self) -> Vec<(&'static str, String)> {
        let name = self.tracing_service_name;
        let name = if name.is_empty() { "RateLimit".to_owned() } else { name };
        [
            ("service.name", name),
            ("service.namespace", self.tracing_service_namespace),
            ("service.instance.id", self.tracing_service_instance_id),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
    }

    fn endpoint(&self, protocol: TraceProtocol, faults: &mut Faults) -> Option<Uri> {
        let (all, traces) =
            (&self.otel_exporter_otlp_endpoint, &self.otel_exporter_otlp_traces_endpoint);
        let (default, path) = match protocol {
            TraceProtocol::Http => ("http://localhost:4318", HTTP_PATH),
            TraceProtocol::Grpc => ("http://localhost:4317", GRPC_PATH),
        };
        if traces.is_empty() {
            let base = if all.is_empty() { default } else { all };
            let joined = |text: &str| url(&format!("{}{path}", text.trim_end_matches('/')));
            return faults.read("OTEL_EXPORTER_OTLP_ENDPOINT", base, joined);
        }
        let whole = |text: &str| match protocol {
            TraceProtocol::Http => url(text),
            TraceProtocol::Grpc => url(&format!("{}{path}", text.trim_end_matches('/'))),
        };
        faults.read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", traces, whole)
    }

    /// A fault does not show them: their values may be secrets.
    fn headers(&self, faults: &mut Faults) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let (variable, text) = match &*self.otel_exporter_otlp_traces_headers.0 {
            "" => ("OTEL_EXPORTER_OTLP_HEADERS", &*self.otel_exporter_otlp_headers.0),
            text => ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", text),
        };
        let headers = headers(text);
        if headers.is_none() {
            faults.add(variable, "found something else than `name=value,name2=value2`");
        }
        headers
    }
}

fn protocol_of(text: &str) -> Read<TraceProtocol> {
    match text {
        "" | "http" => Ok(TraceProtocol::Http),
        "grpc" => Ok(TraceProtocol::Grpc),
        _ => Err("`http` or `grpc`"),
    }
}

fn url(text: &str) -> Read<Uri> {
    let uri: Option<Uri> = text.parse().ok();
    let whole =
        |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    uri.filter(whole).ok_or("a URL such as `http://collector:4318`")
}

fn headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let mut value = HeaderValue::from_bytes(&unescaped(value.trim())?).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
    };
    words::parts(text).map(pair).collect()
}

/// With the bytes that `%20` and the like stand for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    Some(bytes)
}
