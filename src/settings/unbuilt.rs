//! What envoyproxy/ratelimit can do and this version cannot, where silence would be dangerous.

use super::Environment;
use super::faults::Faults;
use super::words;

/// A setting that asks for it is a fault, or a line where the server does its work without.
pub(super) fn read(environment: &Environment<'_>, faults: &mut Faults) -> Vec<String> {
    refuse_xds(environment, faults);
    let statsd = pushes(environment, "USE_STATSD", faults);
    let dog = pushes(environment, "USE_DOG_STATSD", faults);
    let unasked = environment("STATSD_HOST").filter(|_| environment("USE_STATSD").is_none());
    let unasked = unasked.map(|_| {
        "STATSD_HOST is set, but nothing is pushed unless USE_STATSD asks for it (in \
         envoyproxy/ratelimit it is on by default); /metrics can be scraped"
            .to_owned()
    });
    let tracing = environment("TRACING_ENABLED").and_then(|value| {
        let wanted = faults.read_variable("TRACING_ENABLED", &value, words::boolean)?;
        wanted.then(|| "TRACING_ENABLED: traces are not built in yet; none is sent".to_owned())
    });
    statsd.into_iter().chain(dog).chain(unasked).chain(tracing).collect()
}

fn refuse_xds(environment: &Environment<'_>, faults: &mut Faults) {
    match environment("CONFIG_TYPE").unwrap_or_default().as_str() {
        "" | "FILE" => {}
        "GRPC_XDS_SOTW" => {
            faults.add_of_variable("CONFIG_TYPE", "xDS is not built in yet; expected `FILE`");
        }
        found => {
            let found = found.escape_debug();
            faults.add_of_variable("CONFIG_TYPE", format!("found `{found}`, expected `FILE`"));
        }
    }
}

fn pushes(environment: &Environment<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    let wanted = faults.read_variable(name, &environment(name)?, words::boolean)?;
    wanted.then(|| format!("{name}: pushing metrics is not built in yet; scrape /metrics"))
}
