//! Puts it together: gRPC, HTTP, admin, health, start, drain, stop.

mod admin;
mod announce;
mod bind;
mod connections;
mod entries;
mod example;
mod greeting;
mod grpc;
mod health;
mod http;
mod reload;
mod stop;
mod store;

pub use bind::BindError;
pub use entries::{Entries, NoEntries};

use crate::clock::{Clock, SystemClock};
use crate::envoy::{self, InvalidHeaderName, LimitHeaders, RateLimit};
use crate::limiter::{self, Limiter, Share, StandIn, StandInOptions};
use crate::rules::{Defaults, FailureMode};
use crate::settings::{
    Answers, Backend, DefaultAlgorithm, DefaultFailureMode, Listen, OutageSettings, Policies,
    Settings, StoreSettings,
};
use crate::store::{DenyConfig, Misconfigured};
use crate::telemetry::Metrics;
use crate::telemetry::logging::LevelSwitch;
use crate::{algorithm, config};
use admin::Admin;
use bind::Listeners;
use connections::{Connections, Life, MaxAge};
use grpc::Services;
use health::Health;
use http::{Http, Scrapes};
use reload::Reload;
use std::io;
use std::sync::Arc;
use stop::Signals;
use store::{Readiness, StoreLife};

/// Why the server did not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port or socket cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A header has a name that none can have.
    #[error(transparent)]
    Header(#[from] InvalidHeaderName),
    /// A setting of the store cannot be right.
    #[error("the settings are faulty\n  {0}")]
    Store(#[from] Misconfigured),
    /// The system does not deliver signals.
    #[error("signals cannot be received: {0}")]
    Signals(io::Error),
    /// The descriptors of the build are faulty.
    #[error("gRPC reflection cannot be built: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A second signal came before the end.
    #[error("stopped at once by a second signal")]
    StoppedAtOnce,
}

/// Serves until a signal; returns when all that was under way is finished or overdue.
pub async fn serve(settings: Settings, log: LevelSwitch) -> Result<(), Error> {
    let signals = Signals::new().map_err(Error::Signals)?;
    let listeners = Listeners::bind(&settings.listen)?;
    let without_domains = settings.policies.ready_without_domains;
    let in_memory = settings.store.backend == Backend::Memory;
    let (health, health_service) = Health::new(without_domains, in_memory).await;
    let store_life = StoreLife::default();
    let parts = Parts::new(&settings, health, log, &store_life)?;
    let grpc = Services::new(Arc::clone(&parts.rate_limit), health_service)?;

    let life = Life::default();
    let options = config_options(&settings.policies);
    let changes = config::watch(options.paths.clone(), &life.tasks, life.stop.clone()).await;
    let mut reload = parts.reload(options);
    announce::listeners(&listeners, &settings.listen);
    announce::store(&settings.store, settings.answers.stop_when_over_limit);
    reload.load().await;
    announce::example(&listeners, &parts.limiter);
    store_life.watch(Readiness::new(&parts.limiter, &parts.health, &settings.store));

    parts.serve(listeners, grpc, &settings, &life);
    let (reload_asked, signals) = signals.split();
    let (stop, run) = (life.stop.clone(), reload.run(changes, reload_asked));
    life.tasks.spawn(async move { stop.run_until_cancelled(run).await });
    stop::at_signal(signals, settings.stop, &parts.health, &life).await?;
    store_life.end().await;
    Ok(())
}

/// What answers requests.
#[derive(Debug)]
struct Parts {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    limiter: Arc<Limiter>,
    rate_limit: Arc<RateLimit>,
    health: Arc<Health>,
    log: LevelSwitch,
}

impl Parts {
    fn new(
        settings: &Settings,
        health: Arc<Health>,
        log: LevelSwitch,
        store_life: &StoreLife,
    ) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let metrics = Metrics::new(settings.metric_max_series);
        let store = store_life.open(&settings.store, &clock, &metrics)?;
        let options = limiter_options(&settings.answers);
        let limiter = Limiter::new(store, Arc::clone(&metrics), options);
        let limiter = Arc::new(match settings.store.backend {
            Backend::Memory => limiter,
            Backend::Redis(_) => limiter.with_stand_in(stand_in(&settings.store, &clock)),
        });
        let options = envoy_options(&settings.answers)?;
        let rate_limit = RateLimit::new(Arc::clone(&limiter), Arc::clone(&metrics), options);
        Ok(Self { clock, metrics, limiter, rate_limit: Arc::new(rate_limit), health, log })
    }

    fn reload(&self, options: config::Options) -> Reload {
        Reload {
            options,
            limiter: Arc::clone(&self.limiter),
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            clock: Arc::clone(&self.clock),
            last: reload::Last::default(),
        }
    }

    fn serve(&self, listeners: Listeners, grpc: Services, settings: &Settings, life: &Life) {
        let Settings { listen, answers, .. } = settings;
        let scrapes = Scrapes::new(Arc::clone(&self.metrics), Arc::clone(&self.limiter));
        let http = Http {
            rate_limit: Arc::clone(&self.rate_limit),
            health: Arc::clone(&self.health),
            scrapes: scrapes.clone(),
        };
        let admin = Admin { limiter: Arc::clone(&self.limiter), log: self.log.clone() };
        let over_http = || Connections::http(life.clone());
        Connections::grpc(max_age(listen), life.clone()).serve(listeners.grpc, grpc);
        over_http().serve(listeners.http, http.router(answers.json));
        over_http().serve(listeners.admin, admin.router());
        if let Some(listener) = listeners.prometheus {
            over_http().serve(listener, scrapes.router(&listen.prometheus_path));
        }
    }
}

/// How policies are read under these settings.
pub fn config_options(policies: &Policies) -> config::Options {
    config::Options {
        paths: policies.paths.clone(),
        defaults: Defaults {
            algorithm: match policies.default_algorithm {
                DefaultAlgorithm::FixedWindow => {
                    algorithm::Algorithm::FixedWindow(algorithm::Anchor::Epoch)
                }
                DefaultAlgorithm::SlidingWindowCounter => {
                    algorithm::Algorithm::SlidingWindowCounter
                }
                DefaultAlgorithm::TokenBucket => algorithm::Algorithm::TokenBucket,
            },
            failure_mode: match policies.default_failure_mode {
                DefaultFailureMode::Open => FailureMode::Open,
                DefaultFailureMode::Closed => FailureMode::Closed,
                DefaultFailureMode::Local => FailureMode::Local,
                DefaultFailureMode::Error => FailureMode::Error,
            },
            burst: None,
            count_denied: None,
            version: None,
        },
        merge_domains: policies.merge_domains,
        ignore_dot_files: policies.ignore_dot_files,
    }
}

fn limiter_options(answers: &Answers) -> limiter::Options {
    limiter::Options {
        shadow_mode: answers.shadow_mode,
        quota_mode: answers.quota_mode,
        near_limit_ratio: answers.near_limit_ratio,
        stop_when_over_limit: answers.stop_when_over_limit,
    }
}

fn stand_in(store: &StoreSettings, clock: &Arc<dyn Clock>) -> StandIn {
    let OutageSettings { local_fallback_share: (parts, of), deny_cache_max, deny_cache_entries } =
        store.outage;
    let options = StandInOptions {
        local_share: Share::new(parts, of).unwrap_or_default(),
        max_buckets: store.memory_max_buckets,
        deny: DenyConfig { max: deny_cache_max.into(), entries: deny_cache_entries },
    };
    StandIn::new(options, Arc::clone(clock))
}

fn envoy_options(answers: &Answers) -> Result<envoy::Options, InvalidHeaderName> {
    let names = answers.limit_headers.as_ref();
    Ok(envoy::Options {
        limit_headers: names
            .map(|names| LimitHeaders::new(&names.limit, &names.remaining, &names.reset))
            .transpose()?,
        retry_after_header: answers.retry_after_header,
        dynamic_metadata: answers.dynamic_metadata,
        json_allow_refunds: answers.json_allow_refunds,
    })
}

fn max_age(listen: &Listen) -> Option<MaxAge> {
    let age = listen.grpc_max_connection_age?;
    Some(MaxAge { age, grace: listen.grpc_max_connection_age_grace })
}
