//! Puts it together: gRPC, HTTP, admin, health, start, drain, stop.

mod admin;
mod announce;
mod bind;
mod caller;
mod connections;
mod entries;
mod example;
mod filter;
mod greeting;
mod grpc;
mod health;
mod http;
mod reload;
mod shadow;
mod slow_reader;
mod source;
mod stop;
mod store;
mod tls;

pub use bind::BindError;
pub use entries::{Entries, NoEntries};
pub use tls::TlsError;

use crate::clock::{Clock, SystemClock};
use crate::envoy::{self, DirectApi, InvalidHeaderName, LimitHeaders, RateLimit};
use crate::idempotency::Records;
use crate::limiter::{self, DenialLog, Limiter, Share, StandIn, StandInOptions};
use crate::rules::{Defaults, FailureMode};
use crate::settings::{
    Answers, Backend, DefaultAlgorithm, DefaultFailureMode, IdempotencySettings, Listen,
    OutageSettings, Policies, ReadyOnce, Settings, StoreSettings, TlsFault,
};
use crate::store::{DenyConfig, Misconfigured};
use crate::telemetry::logging::LevelSwitch;
use crate::telemetry::{Metrics, Push, Tracer};
use crate::{algorithm, config};
use admin::Admin;
use bind::{Listener, Listeners};
use connections::{Connections, Life, MaxAge};
use filter::Filter;
use grpc::Services;
use health::Health;
use http::{Http, Scrapes};
use reload::Reload;
use source::Source;
use std::io;
use std::sync::Arc;
use stop::Signals;
use store::{Readiness, StoreLife};
use tls::Tls;

/// Why the server did not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port or socket cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS files are faulty.
    #[error("the settings are faulty\n  {0}")]
    Tls(#[from] TlsError),
    /// A header has a name that none can have.
    #[error(transparent)]
    Header(#[from] InvalidHeaderName),
    /// A setting of the store cannot be right.
    #[error("the settings are faulty\n  {0}")]
    Store(#[from] Misconfigured),
    /// TLS to the xDS server or to the collector of traces cannot be right.
    #[error("the settings are faulty\n  {0}")]
    ClientTls(#[from] TlsFault),
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
    let filter = settings.idempotency.as_ref();
    let mut listeners = Listeners::bind(&settings.listen, filter.map(|filter| &filter.address))?;
    let without_domains = settings.policies.ready_once != ReadyOnce::Domain;
    let in_memory = settings.store.backend == Backend::Memory;
    let (health, health_service) = Health::new(without_domains, in_memory).await;
    let store_life = StoreLife::default();
    let parts = Parts::new(&settings, health, log, &store_life)?;
    let grpc = Services::new(Arc::clone(&parts.rate_limit), health_service)?;

    let life = Life::default();
    let tls = match &settings.grpc_tls {
        Some(files) => Some(Tls::start(files, tls::HTTP2, &parts.metrics, &life).await?),
        None => None,
    };
    let source = Source::open(&settings.policies, &parts.metrics, &life).await?;
    let mut reload = parts.reload(&settings.policies);
    announce::listeners(&listeners, &settings);
    settings.traces.as_ref().inspect(|traces| announce::traces(traces));
    if let Some(push) = &settings.push {
        announce::push(push);
        let push = Push::new(push, Arc::clone(&parts.metrics));
        store_life.run(|stop| push.run(stop));
    }
    announce::store(&settings.store, settings.answers.stop_when_over_limit);
    announce::modes(&settings);
    if let Some(filter) = filter {
        parts.start_filter(filter, listeners.filter.take(), &settings.listen, &life).await?;
    }
    match &source {
        Source::Files(_) => reload.load().await,
        Source::Xds(_) if settings.policies.ready_once == ReadyOnce::Started => {
            parts.health.installed(false).await;
        }
        Source::Xds(_) => {}
    }
    announce::example(&listeners, &parts.limiter, tls.is_some());
    store_life.watch(Readiness::new(&parts.limiter, &parts.health, &settings.store));

    parts.serve(listeners, (grpc, tls), &settings, &life);
    let (reload_asked, signals) = signals.split();
    let (stop, run) = (life.stop.clone(), reload.run(source, reload_asked));
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
    /// Operations, if there is an idempotency filter.
    records: Option<Arc<Records>>,
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
        let denial_log = DenialLog::new(settings.log.denied_per_second);
        let limiter =
            Limiter::new(store, Arc::clone(&metrics), options).with_denial_log(denial_log);
        let limiter = Arc::new(match settings.store.backend {
            Backend::Memory => limiter,
            Backend::Redis(_) => limiter.with_stand_in(stand_in(&settings.store, &clock)),
        });
        let options = envoy_options(&settings.answers)?;
        let mut rate_limit = RateLimit::new(Arc::clone(&limiter), Arc::clone(&metrics), options);
        if let Some(traces) = settings.traces.clone() {
            let dropped = metrics.dropped_spans.clone();
            let (tracer, exporter) = Tracer::new(traces, Arc::clone(&clock), dropped)?;
            store_life.run(|stop| exporter.run(stop));
            rate_limit = rate_limit.with_tracer(tracer);
        }
        let wanted = settings.idempotency.as_ref();
        let records = wanted
            .map(|_| store_life.open_records(&settings.store.records, &clock, &metrics))
            .transpose()?;
        let rate_limit = Arc::new(rate_limit);
        Ok(Self { clock, metrics, limiter, rate_limit, records, health, log })
    }

    /// Serves the idempotency filter and the direct API on their own port.
    async fn start_filter(
        &self,
        settings: &IdempotencySettings,
        listener: Option<Listener>,
        listen: &Listen,
        life: &Life,
    ) -> Result<(), Error> {
        let (Some(records), Some(listener)) = (&self.records, listener) else { return Ok(()) };
        let mut service = None;
        if let Some(config) = settings.config.clone() {
            let Self { clock, metrics, health, .. } = self;
            let (records, max) = (Arc::clone(records), settings.max_in_flight);
            let filter = Filter::new(config, max, records, clock, metrics, health, life);
            service = Some(filter.service(life).only_for(settings.envoy.as_deref()));
            filter.start(life).await.map_err(Error::Signals)?;
        }
        let api =
            settings.api.then(|| DirectApi::new(Arc::clone(records), Arc::clone(&self.clock)));
        let tls = match &settings.tls {
            Some(files) => Some(Tls::start(files, tls::HTTP2, &self.metrics, life).await?),
            None => None,
        };
        let router = filter::router(service, api.as_ref(), settings.knows_callers())?;
        // A call lasts as long as a request: cut off, nobody would know whether that ran.
        let max_age = max_age(listen).map(|age| MaxAge { grace: None, ..age });
        Connections::grpc(max_age, life.clone())
            .over(tls)
            .introducing(settings.knows_callers())
            .serve(listener, router);
        Ok(())
    }

    fn reload(&self, policies: &Policies) -> Reload {
        Reload {
            options: config_options(policies),
            xds: policies.xds.as_ref().map(|xds| xds.server.clone()),
            limiter: Arc::clone(&self.limiter),
            metrics: Arc::clone(&self.metrics),
            health: Arc::clone(&self.health),
            clock: Arc::clone(&self.clock),
            last: reload::Last::default(),
        }
    }

    fn serve(
        &self,
        listeners: Listeners,
        (grpc, tls): (Services, Option<Tls>),
        settings: &Settings,
        life: &Life,
    ) {
        let Settings { listen, answers, .. } = settings;
        let (metrics, limiter) = (Arc::clone(&self.metrics), Arc::clone(&self.limiter));
        let scrapes = Scrapes::new(metrics, limiter, self.records.clone());
        let http = Http {
            rate_limit: Arc::clone(&self.rate_limit),
            health: Arc::clone(&self.health),
            scrapes: scrapes.clone(),
        };
        let admin =
            Admin { limiter: Arc::clone(&self.limiter), log: self.log.clone(), life: life.clone() };
        let over_http = || Connections::http(life.clone());
        Connections::grpc(max_age(listen), life.clone()).over(tls).serve(listeners.grpc, grpc);
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
    Some(MaxAge { age, grace: Some(listen.grpc_max_connection_age_grace) })
}
