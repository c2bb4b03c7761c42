//! Metrics that are pushed, for those who do not scrape: statsd and `DogStatsD`.

use super::faults::Faults;
use super::words::{self, Read};
use super::{BOOL, Environment};
use std::time::Duration;

/// What is pushed, as it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Metrics, pushed")]
pub(super) struct RawPush {
    /// Send metrics to a statsd server, too
    #[arg(long, env = "USE_STATSD", value_name = BOOL, default_value = "false")]
    use_statsd: String,
    /// The same for one of Datadog's, over UDP and with tags
    #[arg(long, env = "USE_DOG_STATSD", value_name = BOOL, default_value = "false")]
    use_dog_statsd: String,
    /// Its host
    #[arg(long, env = "STATSD_HOST", value_name = "HOST", default_value = "localhost")]
    statsd_host: String,
    /// Its port
    #[arg(long, env = "STATSD_PORT", value_name = "PORT", default_value = "8125")]
    statsd_port: String,
    /// How a statsd server is reached: tcp or udp
    #[arg(long, env = "STATSD_PROTOCOL", value_name = "PROTOCOL", default_value = "tcp")]
    statsd_protocol: String,
    /// Tags of all that is sent: `name:value,name2:value2`
    #[arg(long, env = "EXTRA_TAGS", value_name = "PAIRS", default_value = "")]
    extra_tags: String,
    /// How often it is sent
    #[arg(long, env = "STATS_FLUSH_INTERVAL", value_name = "DURATION", default_value = "10s")]
    stats_flush_interval: String,
    /// Send nothing whatever the others say
    #[arg(long, env = "DISABLE_STATS", value_name = BOOL, default_value = "false")]
    disable_stats: String,
}

/// Where metrics are pushed to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// How they are written.
    pub dialect: Dialect,
    /// What they are sent over.
    pub transport: Transport,
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Tags of all of them, by name.
    pub tags: Vec<(String, String)>,
    /// How often.
    pub interval: Duration,
}

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Tags stand in the name, as envoyproxy/ratelimit writes them.
    Statsd,
    /// Tags stand by themselves.
    DogStatsd,
}

/// What metrics are sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

impl RawPush {
    /// Where to, if anywhere and there is no fault.
    pub(super) fn read(
        self,
        environment: &Environment<'_>,
        faults: &mut Faults,
    ) -> Option<PushSettings> {
        let mut switch = |variable, text: &str| faults.read(variable, text, words::boolean);
        let statsd = switch("USE_STATSD", &self.use_statsd);
        let dog = switch("USE_DOG_STATSD", &self.use_dog_statsd);
        let disabled = switch("DISABLE_STATS", &self.disable_stats);
        let port = faults.read("STATSD_PORT", &self.statsd_port, words::port);
        let protocol = faults.read("STATSD_PROTOCOL", &self.statsd_protocol, transport);
        let tags = faults.read("EXTRA_TAGS", &self.extra_tags, tags);
        let interval = &self.stats_flush_interval;
        let interval = faults.read("STATS_FLUSH_INTERVAL", interval, words::positive_duration);
        let mogrifiers = environment("USE_DOG_STATSD_MOGRIFIERS").unwrap_or_default();
        if !mogrifiers.is_empty() {
            faults.add_of_variable(
                "USE_DOG_STATSD_MOGRIFIERS",
                "names of metrics cannot be rewritten here: map them in the agent, or scrape /metrics \
                 and relabel",
            );
        }
        let dialect = dialect(statsd?, dog?, faults)?;
        let host = if self.statsd_host.is_empty() { "localhost".into() } else { self.statsd_host };
        let settings = PushSettings {
            dialect,
            transport: match dialect {
                Dialect::Statsd => protocol?,
                Dialect::DogStatsd => Transport::Udp,
            },
            host,
            port: port?,
            tags: tags?,
            interval: interval?,
        };
        (!disabled?).then_some(settings)
    }
}

/// What to say to whoever counts on what envoyproxy/ratelimit does by default.
pub(super) fn unasked(environment: &Environment<'_>) -> Option<String> {
    let asks = ["USE_STATSD", "USE_DOG_STATSD", "DISABLE_STATS"];
    let unasked = asks.iter().all(|name| environment(name).is_none());
    environment("STATSD_HOST").filter(|_| unasked).map(|_| {
        "STATSD_HOST is set, but nothing is pushed unless USE_STATSD asks for it (in \
         envoyproxy/ratelimit it is on by default); /metrics can be scraped"
            .to_owned()
    })
}

fn dialect(statsd: bool, dog: bool, faults: &mut Faults) -> Option<Dialect> {
    if statsd && dog {
        let text = "found `true`, and `true` for USE_STATSD: expected one of them";
        faults.add("USE_DOG_STATSD", text);
    }
    match (statsd, dog) {
        (true, false) => Some(Dialect::Statsd),
        (false, true) => Some(Dialect::DogStatsd),
        (true, true) | (false, false) => None,
    }
}

fn transport(text: &str) -> Read<Transport> {
    match text {
        "" | "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        _ => Err("`tcp` or `udp`"),
    }
}

/// Sorted, and without what has a meaning on the wire.
fn tags(text: &str) -> Read<Vec<(String, String)>> {
    let clean = |text: &str| text.trim().replace(['.', ':', '|', ',', '\n', '#'], "_");
    let pair = |part: &str| {
        let (name, value) = part.split_once(':')?;
        (!name.trim().is_empty()).then(|| (clean(name), clean(value)))
    };
    let tags = words::parts(text).map(pair).collect::<Option<Vec<_>>>();
    let mut tags = tags.ok_or("`name:value,name2:value2`")?;
    tags.sort();
    Ok(tags)
}
