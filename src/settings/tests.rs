use super::servers::{Credentials, OpTimeout, RedisConfig};
use super::*;
use clap::{Args, Command, FromArgMatches};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

fn flag(variable: &str) -> String {
    name(variable).split_once('/').unwrap().1.to_owned()
}

/// Reads flags and variables as a process would, but not this process's environment.
fn read(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Faults> {
    let command = with_switches(RawSettings::augment_args(Command::new("tidegate")));
    let given = |variable: &str| variables.iter().find(|(name, _)| *name == variable);
    let names: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()))
        .filter(|name| given(name).is_some())
        .collect();
    let from_variables = names.iter().map(|name| {
        let (name, value) = given(name).unwrap();
        format!("{}={value}", flag(name))
    });
    let without_env = command.mut_args(|arg| arg.env(None::<&str>));
    let line = ["tidegate".to_owned()].into_iter().chain(from_variables);
    let line = line.chain(flags.iter().map(|flag| (*flag).to_owned()));
    let matches = without_env.try_get_matches_from(line).unwrap();
    let raw = RawSettings::from_arg_matches(&matches).unwrap();
    let environment = |name: &str| given(name).map(|(_, value)| (*value).to_owned());
    Settings::read(raw, &matches, &environment)
}

fn faults(variables: &[(&str, &str)]) -> String {
    read(&[], variables).unwrap_err().to_string()
}

#[test]
fn nothing_set_gives_the_documented_defaults() {
    let settings = read(&[], &[]).unwrap();
    assert_eq!(settings.policies.paths, [PathBuf::from("config/policies")]);
    assert_eq!((settings.listen.http.host, settings.listen.http.port), (None, 8080));
    assert_eq!((settings.listen.grpc.host, settings.listen.grpc.port), (None, 8081));
    assert_eq!(settings.listen.admin.host.as_deref(), Some("127.0.0.1"));
    assert_eq!(settings.listen.prometheus, None);
    assert_eq!(settings.listen.grpc_max_connection_age, Some(Duration::from_secs(86_400)));
    assert_eq!(settings.store.backend, Backend::Memory);
    assert_eq!(settings.store.warnings, Vec::<String>::new());
    assert_eq!(
        settings.log,
        Log { level: LogLevel::Info, format: LogFormat::Text, denied_per_second: 0 }
    );
    assert!(settings.answers.retry_after_header && settings.answers.json);
    assert!(!settings.answers.shadow_mode && settings.policies.ready_once == ReadyOnce::Domain);
}

#[test]
fn every_fault_is_reported_with_its_variable_value_and_what_was_expected() {
    insta::assert_snapshot!(faults(&[
        ("PORT", "http"),
        ("GRPC_PORT", "65536"),
        ("SHADOW_MODE", "yes"),
        ("QUOTA_MODE", ""),
        ("GRPC_MAX_CONNECTION_AGE", "1d"),
        ("PROMETHEUS_ADDR", "9090"),
        ("PROMETHEUS_PATH", "metrics"),
        ("NEAR_LIMIT_RATIO", "80"),
        ("LIMIT_RESET_HEADER", "no spaces"),
        ("MEMORY_MAX_BUCKETS", "0"),
        ("METRIC_MAX_SERIES", "-1"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("DEFAULT_ALGORITHM", "leaky_bucket"),
        ("DEFAULT_FAILURE_MODE", "shut"),
        ("DRAIN_DELAY", "5"),
        ("CONFIG_TYPE", "XDS"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("LOCAL_CACHE_SIZE_IN_BYTES", "1MB"),
    ]), @r"
    the settings are faulty
      LOCAL_CACHE_SIZE_IN_BYTES: found `1MB`, expected a whole number of at least 0
      CONFIG_TYPE/--config-type: found `XDS`, expected `FILE` or `GRPC_XDS_SOTW`
      DEFAULT_ALGORITHM/--default-algorithm: found `leaky_bucket`, expected `fixed_window`, `sliding_window_counter` or `token_bucket`
      DEFAULT_FAILURE_MODE/--default-failure-mode: found `shut`, expected `open`, `closed`, `local` or `error`
      PORT/--port: found `http`, expected a port from 0 to 65535
      GRPC_PORT/--grpc-port: found `65536`, expected a port from 0 to 65535
      PROMETHEUS_ADDR/--prometheus-addr: found `9090`, expected `host:port` or `:port`
      PROMETHEUS_PATH/--prometheus-path: found `metrics`, expected a path such as `/metrics`
      GRPC_MAX_CONNECTION_AGE/--grpc-max-connection-age: found `1d`, expected a duration such as `10s`, `150ms` or `1h30m`
      GRPC_SERVER_TLS_CERT/--grpc-server-tls-cert: unset, and GRPC_SERVER_USE_TLS/--grpc-server-use-tls needs it
      GRPC_SERVER_TLS_KEY/--grpc-server-tls-key: unset, and GRPC_SERVER_USE_TLS/--grpc-server-use-tls needs it
      MEMORY_MAX_BUCKETS/--memory-max-buckets: found `0`, expected a whole number of at least 1
      SHADOW_MODE/--shadow-mode: found `yes`, expected `true` or `false`
      QUOTA_MODE/--quota-mode: set, but empty, expected `true` or `false`
      NEAR_LIMIT_RATIO/--near-limit-ratio: found `80`, expected a number from 0 to 1
      LIMIT_RESET_HEADER/--limit-reset-header: found `no spaces`, expected a header name (letters, digits and !#$%&'*+-.^_`|~)
      METRIC_MAX_SERIES/--metric-max-series: found `-1`, expected a whole number of at least 0
      LOG_LEVEL/--log-level: found `loud`, expected `trace`, `debug`, `info`, `warn` or `error`
      LOG_FORMAT/--log-format: found `xml`, expected `text` or `json`
      DRAIN_DELAY/--drain-delay: found `5`, expected a duration such as `10s`, `150ms` or `1h30m`
    ");
}

#[test]
fn an_empty_text_is_its_default_and_an_empty_number_a_fault() {
    let empty = ["HOST", "DEBUG_HOST", "LOG_LEVEL", "LOG_FORMAT", "POLICIES", "LIMIT_LIMIT_HEADER"];
    let settings = read(&[], &empty.map(|name| (name, ""))).unwrap();
    assert_eq!(settings, read(&[], &[]).unwrap());
    for name in ["PORT", "SHADOW_MODE", "GRPC_MAX_CONNECTION_AGE", "NEAR_LIMIT_RATIO"] {
        assert!(faults(&[(name, "")]).contains(&format!("{name}/--")), "{name}");
    }
}

#[test]
fn a_switch_stands_alone_or_with_a_value() {
    assert!(read(&["--shadow-mode"], &[]).unwrap().answers.shadow_mode);
    assert!(read(&["--shadow-mode=T"], &[]).unwrap().answers.shadow_mode);
    assert!(!read(&["--json-enabled=false"], &[]).unwrap().answers.json);
}

#[test]
fn log_levels_are_the_words_of_the_reference_in_any_letter_case() {
    for (word, level) in [
        ("TRACE", LogLevel::Trace),
        ("debug", LogLevel::Debug),
        ("Info", LogLevel::Info),
        ("WARN", LogLevel::Warn),
        ("warning", LogLevel::Warn),
        ("error", LogLevel::Error),
        ("FATAL", LogLevel::Error),
        ("panic", LogLevel::Error),
    ] {
        assert_eq!(read(&[], &[("LOG_LEVEL", word)]).unwrap().log.level, level, "{word}");
    }
}

#[test]
fn policies_win_over_the_folder_that_envoyproxy_ratelimit_names() {
    let paths = |variables: &[(&str, &str)]| read(&[], variables).unwrap().policies.paths;
    let path = PathBuf::from;
    assert_eq!(paths(&[("RUNTIME_ROOT", "/data")]), [path("/data/config")]);
    assert_eq!(
        paths(&[("RUNTIME_SUBDIRECTORY", "ratelimit")]),
        [path("/srv/runtime_data/current/ratelimit/config")]
    );
    assert_eq!(
        paths(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "a"),
            ("RUNTIME_APPDIRECTORY", "")
        ]),
        [path("/data/a")]
    );
    assert_eq!(
        paths(&[("POLICIES", "x.yaml, y"), ("RUNTIME_ROOT", "/data")]),
        [path("x.yaml"), path("y")]
    );
    assert_eq!(paths(&[("POLICIES", ""), ("RUNTIME_ROOT", "/data")]), [path("/data/config")]);
}

#[test]
fn brackets_around_an_address_are_no_part_of_it() {
    let listen = read(&[], &[("HOST", "[::1]"), ("PROMETHEUS_ADDR", "[::1]:0")]).unwrap().listen;
    assert_eq!(listen.http.host.as_deref(), Some("::1"));
    let prometheus = listen.prometheus.unwrap();
    assert_eq!((prometheus.host.as_deref(), prometheus.port), (Some("::1"), 0));
}

#[test]
fn metrics_have_their_own_port_if_either_setting_asks_for_it() {
    let port = |variables: &[(&str, &str)]| {
        read(&[], variables).unwrap().listen.prometheus.map(|address| address.port)
    };
    assert_eq!(port(&[("USE_PROMETHEUS", "true")]), Some(9090));
    assert_eq!(port(&[("PROMETHEUS_ADDR", ":9102")]), Some(9102));
    assert_eq!(port(&[("USE_PROMETHEUS", "false")]), None);
}

fn redis(variables: &[(&str, &str)]) -> RedisConfig {
    match read(&[], variables).unwrap().store.backend {
        Backend::Redis(config) => *config,
        Backend::Memory => panic!("memory"),
    }
}

#[test]
fn a_trace_of_redis_without_its_address_is_not_answered_with_memory_in_silence() {
    for variable in
        ["REDIS_URL", "REDIS_AUTH", "REDIS_TLS", "REDIS_PERSECOND", "REDIS_PIPELINE_WINDOW"]
    {
        let text = faults(&[(variable, "")]);
        let expected = format!("REDIS_URL/--redis-url: unset, and {variable} asks for Redis");
        assert!(text.contains(&expected), "{text}");
    }
    assert!(faults(&[("BACKEND_TYPE", "redis")]).contains("BACKEND_TYPE=redis asks for Redis"));
    assert!(faults(&[("BACKEND_TYPE", "memcache")]).contains("memcache"));
    assert!(faults(&[("BACKEND_TYPE", "Memory")]).contains("expected `memory`"));
}

#[test]
fn an_address_is_all_that_redis_needs() {
    let config = redis(&[("REDIS_URL", "redis:6379")]);
    assert_eq!(config.servers.topology.to_string(), "single at redis:6379");
    assert_eq!((config.servers.pool_size, config.servers.op_timeout), (2, OpTimeout::Auto));
    assert_eq!((config.servers.auth, config.servers.tls, config.per_second), (None, None, None));
    assert_eq!((config.coalesce, config.max_in_flight), (true, 65_536));
    assert_eq!(config.expiry_jitter, Duration::from_secs(300));
}

#[test]
fn every_setting_of_redis_arrives() {
    let config = redis(&[
        ("REDIS_URL", "m,a:1,b:2"),
        ("REDIS_TYPE", "SENTINEL"),
        ("REDIS_AUTH", "me:pw"),
        ("REDIS_AUTH_FILE", "/auth"),
        ("REDIS_SENTINEL_AUTH", "other"),
        ("REDIS_TLS", "true"),
        ("REDIS_TLS_CACERT", "/ca"),
        ("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "true"),
        ("REDIS_POOL_SIZE", "3"),
        ("REDIS_TIMEOUT", "2s"),
        ("REDIS_OP_TIMEOUT", "40ms"),
        ("REDIS_COALESCE", "false"),
        ("CACHE_KEY_PREFIX", "p:"),
        ("EXPIRATION_JITTER_MAX_SECONDS", "0"),
        ("MAX_IN_FLIGHT", "7"),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_URL", "c:3,d:4"),
        ("REDIS_PERSECOND_TYPE", "cluster"),
        ("REDIS_PERSECOND_POOL_SIZE", "5"),
    ]);
    let RedisConfig { servers, per_second, coalesce, max_in_flight, key_prefix, .. } = config;
    assert_eq!(servers.topology.to_string(), "master `m` of sentinels at a:1, b:2");
    assert_eq!(servers.auth, Credentials::parse("me:pw"));
    assert_eq!(servers.auth_file, Some("/auth".into()));
    assert_eq!(servers.sentinel_auth, Credentials::parse("other"));
    let tls = servers.tls.unwrap();
    assert_eq!((tls.ca, tls.skip_hostname_verification), (Some("/ca".into()), true));
    assert_eq!((servers.pool_size, servers.connect_timeout), (3, Duration::from_secs(2)));
    assert_eq!(servers.op_timeout, OpTimeout::Fixed(Duration::from_millis(40)));
    assert_eq!((coalesce, max_in_flight, &*key_prefix), (false, 7, "p:"));
    assert_eq!(config.expiry_jitter, Duration::ZERO);
    let second = per_second.unwrap();
    assert_eq!((second.variables, second.pool_size), ("REDIS_PERSECOND", 5));
    assert_eq!(second.topology.to_string(), "cluster at c:3, d:4");
    assert_eq!(second.tls, None, "each has its own switch");
}

#[test]
fn the_password_of_a_setting_wins_over_that_of_the_url() {
    let url = ("REDIS_URL", "rediss://me:one@redis");
    assert_eq!(redis(&[url]).servers.auth, Credentials::parse("me:one"));
    assert!(redis(&[url]).servers.tls.is_some());
    let both = redis(&[url, ("REDIS_AUTH", "two")]);
    assert_eq!(both.servers.auth, Credentials::parse("two"));
}

#[test]
fn what_redis_cannot_be_reached_with_is_named_and_no_secret_shown() {
    insta::assert_snapshot!(faults(&[
        ("REDIS_URL", "redis://me:hunter2@redis:port"),
        ("REDIS_TYPE", "ring"),
        ("REDIS_POOL_SIZE", "0"),
        ("REDIS_TIMEOUT", "0s"),
        ("REDIS_OP_TIMEOUT", "soon"),
        ("REDIS_TLS", "maybe"),
        ("REDIS_POOL_ON_EMPTY_BEHAVIOR", "create"),
        ("REDIS_PERSECOND", "true"),
        ("CACHE_KEY_PREFIX", "{a}"),
        ("KEY_FORMAT", "hashed"),
        ("EXPIRATION_JITTER_MAX_SECONDS", "5s"),
        ("MAX_IN_FLIGHT", "0"),
    ]), @r"
    the settings are faulty
      REDIS_POOL_ON_EMPTY_BEHAVIOR: found `create`, expected `WAIT`
      REDIS_TYPE/--redis-type: found `ring`, expected `single`, `sentinel` or `cluster`
      REDIS_TLS/--redis-tls: found `maybe`, expected `true` or `false`
      REDIS_POOL_SIZE/--redis-pool-size: found `0`, expected a whole number of at least 1
      REDIS_TIMEOUT/--redis-timeout: found `0s`, expected a duration longer than 0
      REDIS_OP_TIMEOUT/--redis-op-timeout: found `soon`, expected `auto` or a duration such as `50ms`
      REDIS_PERSECOND_URL/--redis-persecond-url: unset, and REDIS_PERSECOND/--redis-persecond needs it
      MAX_IN_FLIGHT/--max-in-flight: found `0`, expected a whole number of at least 1
      CACHE_KEY_PREFIX/--cache-key-prefix: found `{a}`, expected no brace, which would choose the hash slot
      EXPIRATION_JITTER_MAX_SECONDS/--expiration-jitter-max-seconds: found `5s`, expected a whole number of seconds
      KEY_SECRET_FILE/--key-secret-file: unset, expected a file: KEY_FORMAT=hashed needs one
    ");
    let text = faults(&[("REDIS_URL", "redis://me:hunter2@redis:port")]);
    assert!(text.contains("redis://*****@redis:port") && !text.contains("hunter2"), "{text}");
}

#[test]
fn a_secret_for_keys_is_read_from_its_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let path = file.path().to_str().unwrap();
    let url = ("REDIS_URL", "redis:6379");
    let hashed = [url, ("KEY_FORMAT", "hashed"), ("KEY_SECRET_FILE", path)];
    let secret = redis(&hashed).key_secret.unwrap();
    assert_eq!(secret.0.as_ref(), b"hunter2");
    std::fs::write(file.path(), "\n").unwrap();
    assert!(faults(&hashed).contains("is empty"));
    assert_eq!(redis(&[url]).key_secret, None);
}

/// The warnings that these variables make, beside an address of Redis.
fn warnings(variables: &[(&str, &str)]) -> Vec<String> {
    let all = [&[("REDIS_URL", "redis:6379")], variables].concat();
    read(&[], &all).unwrap().warnings
}

#[test]
fn variables_without_a_meaning_here_are_said_to_have_none() {
    for (variable, value) in [
        ("REDIS_PIPELINE_WINDOW", "150us"),
        ("REDIS_PIPELINE_LIMIT", "8"),
        ("REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT"),
        ("REDIS_STARTUP_MAX_ELAPSED_TIME", "0"),
        ("LOCAL_CACHE_SIZE_IN_BYTES", "0x100"),
        ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
        ("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "T"),
        ("MEMCACHE_HOST_PORT", "memcached:11211"),
        ("GRPC_SERVER_TLS_CA_CERT", "/ca"),
        ("STATSD_HOST", "statsd"),
    ] {
        let warnings = warnings(&[(variable, value)]);
        assert!(warnings.len() == 1 && warnings[0].starts_with(variable), "{warnings:?}");
    }
}

#[test]
fn a_wish_that_comes_true_anyway_is_not_warned_of() {
    for (variable, value) in [
        ("USE_STATSD", "false"),
        ("RUNTIME_WATCH_ROOT", "true"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false"),
        ("PROMETHEUS_MAPPER_YAML", ""),
        ("MEMCACHE_TLS", "false"),
        ("TRACING_ENABLED", "false"),
    ] {
        assert_eq!(warnings(&[(variable, value)]), Vec::<String>::new(), "{variable}");
    }
    let both = [("STATSD_HOST", "statsd"), ("USE_STATSD", "false")];
    assert_eq!(warnings(&both), Vec::<String>::new());
}

/// What no variable of a kind can be, by the kind that help shows.
fn impossible(value_name: &str) -> &'static [&'static str] {
    match value_name {
        BOOL => &["", "yes", "2", "tRUE", " true"],
        "NUMBER" | "BYTES" => &["", "many", "-1", "1.5", "10s", "1 000"],
        "MILLISECONDS" => &["many", "-1", "1.5", "10s"],
        "PORT" => &["", "http", "-1", "65536", "80/tcp"],
        "DURATION" => &["", "soon", "10", "-1s", "1d", "5 s", "10sec"],
        "RATIO" | "SHARE" => &["", "half", "80", "80%", "-0.5"],
        "LEVEL" | "FORMAT" | "TYPE" | "STORE" | "ALGORITHM" | "MODE" | "PROTOCOL" => &["nonsense"],
        "PAIRS" => &["half"],
        "URL" => &["no url"],
        // Any text; an empty one is its default.
        "ADDRESS" | "AUTH" | "SENTINEL_AUTH" | "FILE" | "FOLDER" | "HOST" | "NAME" | "PATH"
        | "TEXT" => &[],
        other => panic!("what can `{other}` not be?"),
    }
}

#[test]
fn every_variable_refuses_what_it_cannot_be_by_its_name() {
    let mut n_tried = 0;
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        let variable = arg.get_env().unwrap().to_str().unwrap();
        for value in impossible(&arg.get_value_names().unwrap()[0]) {
            // An empty one means `auto`.
            if value.is_empty() && variable.ends_with("OP_TIMEOUT") {
                continue;
            }
            let redis = [
                ("REDIS_URL", "a:1"),
                ("REDIS_PERSECOND", "true"),
                ("REDIS_PERSECOND_URL", "b:2"),
                ("IDEMPOTENCY_REDIS_URL", "c:3"),
            ];
            let text = faults(&[&[(variable, *value)], redis.as_slice()].concat());
            assert!(text.contains(&format!("\n  {variable}/--")), "{variable}={value:?}: {text}");
            n_tried += 1;
        }
    }
    assert!(n_tried > 200, "{n_tried}");
}

#[test]
fn a_variable_without_effect_still_refuses_what_it_cannot_be() {
    for (variable, values) in [
        ("RUNTIME_WATCH_ROOT", ["", "no", "root"]),
        ("LOCAL_CACHE_SIZE_IN_BYTES", ["", "1MB", "-1"]),
        ("REDIS_PIPELINE_WINDOW", ["", "150", "150 us"]),
        ("REDIS_PIPELINE_LIMIT", ["", "8s", "none"]),
        ("REDIS_CLUSTER_PIPELINE_PARALLELISM", ["", "-1", "all"]),
        ("REDIS_POOL_ON_EMPTY_BEHAVIOR", ["CREATE", "create", "ERROR"]),
        ("REDIS_STARTUP_INITIAL_INTERVAL", ["", "1", "1sec"]),
        ("REDIS_PERSECOND_PIPELINE_WINDOW", ["", "150", "150 us"]),
        ("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", ["", "ms", "2"]),
        ("MEMCACHE_SRV_REFRESH", ["", "10", "often"]),
        ("MEMCACHE_MAX_IDLE_CONNS", ["", "2.0", "few"]),
        ("MEMCACHE_TLS", ["", "yes", "maybe"]),
    ] {
        for value in values {
            let text = faults(&[("REDIS_URL", "redis:6379"), (variable, value)]);
            assert!(text.contains(&format!("\n  {variable}: ")), "{variable}={value:?}: {text}");
        }
    }
}

#[test]
fn settings_of_redis_are_read_although_memory_is_chosen() {
    let text = faults(&[("BACKEND_TYPE", "memory"), ("REDIS_POOL_SIZE", "many")]);
    assert!(text.contains("REDIS_POOL_SIZE/--"), "{text}");
    let text = faults(&[("REDIS_URL", "redis:6379"), ("REDIS_PERSECOND_TIMEOUT", "10")]);
    assert!(text.contains("REDIS_PERSECOND_TIMEOUT/--"), "{text}");
}

#[test]
fn two_listeners_of_one_port_are_named_both() {
    for (variables, expected) in [
        (
            [("GRPC_PORT", "8080"), ("GRPC_HOST", "")],
            Some(
                "GRPC_PORT/--grpc-port: found 8080, which is PORT/--port, too; expected another port",
            ),
        ),
        (
            [("HOST", "127.0.0.1"), ("DEBUG_PORT", "8080")],
            Some(
                "DEBUG_PORT/--debug-port: found 8080, which is PORT/--port, too; expected another port",
            ),
        ),
        (
            [("PROMETHEUS_ADDR", "10.0.0.1:8081"), ("GRPC_HOST", "")],
            Some(
                "PROMETHEUS_ADDR/--prometheus-addr: found 8081, which is GRPC_PORT/--grpc-port, too; expected another port",
            ),
        ),
        ([("HOST", "10.0.0.1"), ("DEBUG_PORT", "8080")], None),
        ([("GRPC_UDS", "/run/grpc.sock"), ("GRPC_PORT", "8080")], None),
        ([("GRPC_PORT", "0"), ("PORT", "0")], None),
    ] {
        let found = read(&[], &variables).err().map(|faults| faults.to_string());
        let expected = expected.map(|text| format!("the settings are faulty\n  {text}"));
        assert_eq!(found, expected, "{variables:?}");
    }
}

#[test]
fn tls_takes_the_clients_authority_under_both_names() {
    let tls = |variables: &[(&str, &str)]| {
        let files = [
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
            ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ];
        read(&[], &[&files, variables].concat()).unwrap().grpc_tls.unwrap()
    };
    assert_eq!((tls(&[]).cert.path, tls(&[]).client_ca), ("/certs/tls.crt".into(), None));
    let ours = ("GRPC_CLIENT_TLS_CACERT", "/a");
    let gateways = ("GRPC_SERVER_TLS_CA_CERT", "/b");
    assert_eq!(tls(&[gateways]).client_ca.unwrap().path, PathBuf::from("/b"));
    assert_eq!(tls(&[gateways, ours]).client_ca.unwrap().path, PathBuf::from("/a"));
    let san = ("GRPC_CLIENT_TLS_SAN", "envoy");
    assert_eq!(tls(&[ours, san]).client_san.unwrap().1, "envoy");
    assert!(faults(&[("GRPC_SERVER_USE_TLS", "true"), san]).contains("GRPC_CLIENT_TLS_SAN/--"));
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let command = with_switches(RawSettings::augment_args(Command::new("tidegate")));
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    let line = [
        "tidegate",
        "--redis-url=redis://me:hunter2@redis:1",
        "--redis-auth=hunter2",
        "--port",
        "9",
    ];
    let shown: Vec<String> = effective(&command.get_matches_from(line))
        .into_iter()
        .map(|setting| setting.to_string())
        .filter(|line| line.starts_with("flag") || line.contains("GRPC_PORT"))
        .collect();
    assert_eq!(
        shown,
        [
            "flag         PORT=9",
            "default      GRPC_PORT=8081",
            "flag         REDIS_URL=redis://*****@redis:1",
            "flag         REDIS_AUTH=*****",
        ]
    );
}

#[test]
fn no_setting_shows_a_secret() {
    let secrets = [
        ("REDIS_URL", "redis://:hunter2@r"),
        ("REDIS_AUTH", "hunter2"),
        ("REDIS_SENTINEL_AUTH", "hunter2"),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_URL", "redis://:hunter2@r"),
        ("REDIS_PERSECOND_AUTH", "hunter2"),
        ("REDIS_PERSECOND_SENTINEL_AUTH", "hunter2"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "authorization:hunter2"),
        ("TRACING_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=hunter2"),
        ("IDEMPOTENCY_REDIS_URL", "redis://:hunter2@r"),
        ("IDEMPOTENCY_REDIS_AUTH", "hunter2"),
        ("IDEMPOTENCY_REDIS_SENTINEL_AUTH", "hunter2"),
    ];
    assert!(!format!("{:?}", read(&[], &secrets).unwrap()).contains("hunter2"));
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        let variable = arg.get_env().unwrap().to_str().unwrap();
        let is_secret = variable.ends_with("AUTH")
            || variable.ends_with("HEADERS")
            || variable.contains("REDIS") && variable.ends_with("URL");
        assert_eq!(arg.is_hide_env_values_set(), is_secret, "{variable}");
    }
}

/// What Envoy Gateway sets for its rate-limit server.
const ENVOY_GATEWAY: [(&str, &str); 9] = [
    ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
    ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
    ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
    ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
    ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
    ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
    ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
    ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", ""),
];

#[test]
fn an_xds_server_is_reached_as_envoy_gateway_says() {
    let policies = read(&[], &ENVOY_GATEWAY).unwrap().policies;
    let xds = policies.xds.unwrap();
    assert_eq!(
        (xds.server.to_string().as_str(), &*xds.node_id),
        ("envoy-gateway:18001", "envoy-ratelimit")
    );
    let identity = Some(("/certs/tls.crt".into(), "/certs/tls.key".into()));
    assert_eq!(
        xds.tls,
        Some(XdsTls { ca: Some("/certs/ca.crt".into()), identity, server_name: None })
    );
    assert_eq!(xds.max_message, 4 << 20);
    let (unreachable, broken) = (Duration::from_secs(3), Duration::from_secs(10));
    let max = Duration::from_secs(60);
    assert_eq!(xds.retry, XdsRetry { unreachable, broken, max, jitter: 0.5 });
    assert_eq!(policies.ready_once, ReadyOnce::Started);
    assert_eq!(read(&[], &[]).unwrap().policies.xds, None);
}

#[test]
fn what_readiness_waits_for_depends_on_two_switches_and_the_source() {
    let ready = |variables: &[_]| {
        let over_xds = [&ENVOY_GATEWAY[..1], variables].concat();
        [over_xds.as_slice(), variables].map(|set| read(&[], set).unwrap().policies.ready_once)
    };
    let forced = ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true");
    let needs_one = ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true");
    assert_eq!(ready(&[]), [ReadyOnce::Loaded, ReadyOnce::Domain]);
    assert_eq!(ready(&[forced]), [ReadyOnce::Started, ReadyOnce::Loaded]);
    assert_eq!(ready(&[needs_one]), [ReadyOnce::Domain; 2]);
    assert_eq!(ready(&[forced, needs_one]), [ReadyOnce::Domain; 2]);
}

#[test]
fn the_address_of_an_xds_server_is_one_that_grpc_takes() {
    let server = |url| {
        let variables = [ENVOY_GATEWAY[0], ("CONFIG_GRPC_XDS_SERVER_URL", url)];
        Some(read(&[], &variables).ok()?.policies.xds?.server.to_string())
    };
    for (url, expected) in [
        ("", Some("localhost:18000")),
        ("control:18000", Some("control:18000")),
        ("dns:///control:18000", Some("control:18000")),
        ("control", Some("control:443")),
        ("[::1]:18000", Some("[::1]:18000")),
        ("http://control:18000", None),
        ("unix:///run/xds.sock", None),
        ("control:x", None),
        (":18000", None),
    ] {
        assert_eq!(server(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn faults_of_the_xds_settings_name_their_variable_and_no_secret() {
    insta::assert_snapshot!(faults(&[
        ENVOY_GATEWAY[0],
        ("CONFIG_GRPC_XDS_SERVER_URL", "http://x"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "zone"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "hunter2"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "key.pem"),
        ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "0"),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", ""),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60"),
        ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "2"),
        ("XDS_CLIENT_BACKOFF_JITTER", "maybe"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "4MB"),
    ]), @r"
    the settings are faulty
      CONFIG_GRPC_XDS_SERVER_URL/--config-grpc-xds-server-url: found `http://x`, expected `host:port`
      CONFIG_GRPC_XDS_CLIENT_TLS_CERT/--config-grpc-xds-client-tls-cert: unset, and CONFIG_GRPC_XDS_CLIENT_TLS_KEY/--config-grpc-xds-client-tls-key needs it
      CONFIG_GRPC_XDS_NODE_METADATA/--config-grpc-xds-node-metadata: found `zone`, expected `key=value,key2=value2`
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS/--config-grpc-xds-client-additional-headers: found something else than `name:value,name2:value2`
      CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL/--config-grpc-xds-server-connect-retry-interval: found `0`, expected a duration longer than 0
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL/--xds-client-backoff-initial-interval: set, but empty, expected a duration such as `10s`, `150ms` or `1h30m`
      XDS_CLIENT_BACKOFF_MAX_INTERVAL/--xds-client-backoff-max-interval: found `60`, expected a duration such as `10s`, `150ms` or `1h30m`
      XDS_CLIENT_BACKOFF_RANDOM_FACTOR/--xds-client-backoff-random-factor: found `2`, expected a number from 0 to 1
      XDS_CLIENT_BACKOFF_JITTER/--xds-client-backoff-jitter: found `maybe`, expected `true` or `false`
      XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES/--xds-client-max-msg-size-in-bytes: found `4MB`, expected a whole number of at least 0
    ");
}

#[test]
fn metrics_are_pushed_only_if_that_is_asked_for() {
    let push = |variables: &[_]| read(&[], variables).unwrap().push;
    assert_eq!(push(&[("STATSD_HOST", "statsd")]), None);
    assert_eq!(push(&[("USE_STATSD", "true"), ("DISABLE_STATS", "true")]), None);
    let tags = ("EXTRA_TAGS", "zone:eu-west.1, app:a:b");
    let statsd = push(&[("USE_STATSD", "true"), ("STATSD_HOST", "statsd"), tags]).unwrap();
    assert_eq!((statsd.dialect, statsd.transport), (Dialect::Statsd, Transport::Tcp));
    assert_eq!((&*statsd.host, statsd.port), ("statsd", 8125));
    let pairs = [("app", "a_b"), ("zone", "eu-west_1")];
    assert_eq!(statsd.tags, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let dog = push(&[("USE_DOG_STATSD", "true"), ("STATS_FLUSH_INTERVAL", "2s")]).unwrap();
    assert_eq!((dog.dialect, dog.transport), (Dialect::DogStatsd, Transport::Udp));
    assert_eq!(dog.interval, Duration::from_secs(2));
}

#[test]
fn faults_of_what_is_pushed_name_their_variable() {
    insta::assert_snapshot!(faults(&[
        ("USE_STATSD", "true"),
        ("USE_DOG_STATSD", "true"),
        ("STATSD_PORT", "statsd"),
        ("STATSD_PROTOCOL", "unix"),
        ("EXTRA_TAGS", "zone"),
        ("STATS_FLUSH_INTERVAL", "10"),
        ("DISABLE_STATS", ""),
        ("USE_DOG_STATSD_MOGRIFIERS", "A,B"),
    ]), @r"
    the settings are faulty
      DISABLE_STATS/--disable-stats: set, but empty, expected `true` or `false`
      STATSD_PORT/--statsd-port: found `statsd`, expected a port from 0 to 65535
      STATSD_PROTOCOL/--statsd-protocol: found `unix`, expected `tcp` or `udp`
      EXTRA_TAGS/--extra-tags: found `zone`, expected `name:value,name2:value2`
      STATS_FLUSH_INTERVAL/--stats-flush-interval: found `10`, expected a duration such as `10s`, `150ms` or `1h30m`
      USE_DOG_STATSD_MOGRIFIERS: names of metrics cannot be rewritten here: map them in the agent, or scrape /metrics and relabel
      USE_DOG_STATSD/--use-dog-statsd: found `true`, and `true` for USE_STATSD: expected one of them
    ");
}

#[test]
fn traces_go_where_opentelemetry_says() {
    let traces = |variables: &[_]| read(&[], &[&[("TRACING_ENABLED", "true")], variables].concat());
    let endpoint =
        |variables: &[_]| traces(variables).unwrap().traces.unwrap().endpoint.to_string();
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let grpc = ("TRACING_EXPORTER_PROTOCOL", "grpc");
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:9/take");
    assert_eq!(endpoint(&[]), "http://localhost:4318/v1/traces");
    assert_eq!(endpoint(&[all]), "http://collector:4318/base/v1/traces");
    assert_eq!(endpoint(&[all, own]), "https://traces:9/take");
    assert_eq!(endpoint(&[grpc]), format!("http://localhost:4317{path}"));
    let bare = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    assert_eq!(endpoint(&[grpc, bare]), format!("http://collector:4317{path}"));
    assert_eq!(read(&[], &[all]).unwrap().traces, None);
    let settings = traces(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, d=e=f")]).unwrap().traces;
    let headers = settings.unwrap().headers;
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(headers, [("a", b"b c".as_slice()), ("d", b"e=f".as_slice())]);
}

#[test]
fn faults_of_traces_name_their_variable_and_no_secret() {
    let text = faults(&[
        ("TRACING_ENABLED", "on"),
        ("TRACING_EXPORTER_PROTOCOL", "udp"),
        ("TRACING_SAMPLING_RATE", "1.5"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
    ]);
    for variable in [
        "TRACING_ENABLED/--",
        "TRACING_EXPORTER_PROTOCOL/--",
        "TRACING_SAMPLING_RATE/--",
        "OTEL_EXPORTER_OTLP_HEADERS/--",
        "OTEL_EXPORTER_OTLP_TIMEOUT/--",
    ] {
        assert!(text.contains(variable), "{variable}: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    let text = faults(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]);
    assert!(text.contains("expected a URL"), "{text}");
}

#[test]
fn what_kubernetes_injects_for_a_service_called_redis_asks_for_nothing() {
    let injected = [
        "REDIS_PORT",
        "REDIS_PORT_6379_TCP",
        "REDIS_PORT_6379_TCP_ADDR",
        "REDIS_SERVICE_HOST",
        "REDIS_SERVICE_PORT",
    ];
    let store = read(&[], &injected.map(|name| (name, "tcp://10.0.0.1:6379"))).unwrap().store;
    assert_eq!((store.backend, store.warnings.len()), (Backend::Memory, 0));
}

#[test]
fn memory_chosen_by_default_under_kubernetes_or_beside_a_url_warns() {
    let n_warnings = |variables: &[_]| read(&[], variables).unwrap().store.warnings.len();
    assert_eq!(n_warnings(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]), 1);
    assert_eq!(n_warnings(&[("BACKEND_TYPE", "memory"), ("REDIS_URL", "redis:6379")]), 1);
    assert_eq!(
        n_warnings(&[("BACKEND_TYPE", "memory"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
        0
    );
}

#[test]
fn the_idempotency_filter_is_there_if_its_policy_is_named() {
    assert_eq!(read(&[], &[]).unwrap().idempotency, None);
    let filter = |address| {
        let variables = [("IDEMPOTENCY_CONFIG", "a.yaml"), ("IDEMPOTENCY_ADDR", address)];
        read(&[], &variables).map(|settings| settings.idempotency.unwrap().address)
    };
    let tcp = |host: &str, port| {
        let variable = "IDEMPOTENCY_ADDR";
        let host = Some(host.to_owned());
        Endpoint::Tcp(Address { host_variable: variable, variable, host, port })
    };
    assert_eq!(filter("127.0.0.1:8082"), Ok(tcp("127.0.0.1", 8082)));
    assert_eq!(filter("[::1]:1"), Ok(tcp("::1", 1)));
    assert_eq!(filter("localhost:1"), Ok(tcp("localhost", 1)));
    assert_eq!(filter("/run/tidegate.sock"), Ok(Endpoint::Unix("/run/tidegate.sock".into())));
    for wrong in ["", "8082", "::1:1", "host"] {
        assert!(filter(wrong).unwrap_err().to_string().contains("IDEMPOTENCY_ADDR/"), "{wrong}");
    }
}

#[test]
fn the_idempotency_filter_is_reached_from_elsewhere_only_if_somebody_says_so() {
    let with = |address, insecure| {
        read(
            &[],
            &[
                ("IDEMPOTENCY_CONFIG", "a.yaml"),
                ("IDEMPOTENCY_ADDR", address),
                ("IDEMPOTENCY_INSECURE", insecure),
            ],
        )
    };
    for open in [":8082", "0.0.0.0:8082", "[::]:8082", "10.0.0.1:8082", "tidegate:8082"] {
        let faults = with(open, "false").unwrap_err().to_string();
        assert!(faults.contains("IDEMPOTENCY_INSECURE=true"), "{faults}");
        assert!(with(open, "true").is_ok(), "{open}");
    }
    let unused = read(&[], &[("IDEMPOTENCY_ADDR", "0.0.0.0:8082")]);
    assert!(unused.is_ok(), "nothing listens without a policy or the direct API");
    let api = [("IDEMPOTENCY_ADDR", "0.0.0.0:8082"), ("IDEMPOTENCY_API", "true")];
    assert!(faults(&api).contains("IDEMPOTENCY_INSECURE=true"));
    let api = read(&[], &api[1..]).unwrap().idempotency.unwrap();
    assert_eq!((api.api, api.config), (true, None));
}

/// The filter for others than this machine, over TLS.
const FILTER_OVER_TLS: [(&str, &str); 5] = [
    ("IDEMPOTENCY_CONFIG", "a.yaml"),
    ("IDEMPOTENCY_ADDR", ":8082"),
    ("IDEMPOTENCY_SERVER_USE_TLS", "true"),
    ("IDEMPOTENCY_SERVER_TLS_CERT", "c.pem"),
    ("IDEMPOTENCY_SERVER_TLS_KEY", "k.pem"),
];
const FILTERS_CA: (&str, &str) = ("IDEMPOTENCY_CLIENT_TLS_CACERT", "ca.pem");
const FILTERS_SAN: (&str, &str) = ("IDEMPOTENCY_CLIENT_TLS_SAN", "spiffe://mesh/envoy");

#[test]
fn the_idempotency_filter_is_reached_from_elsewhere_by_those_with_a_certificate() {
    assert!(faults(&FILTER_OVER_TLS).contains("expected a loopback address"), "TLS for anybody");
    let guarded = [&FILTER_OVER_TLS[..], &[FILTERS_CA, FILTERS_SAN]].concat();
    let settings = read(&[], &guarded).unwrap();
    let filter = settings.idempotency.unwrap();
    assert!(filter.knows_callers());
    assert_eq!(filter.envoy.as_deref(), Some("spiffe://mesh/envoy"));
    let tls = filter.tls.unwrap();
    assert_eq!((tls.cert.path.to_str(), tls.client_san), (Some("c.pem"), None));
    assert_eq!(settings.grpc_tls, None, "each port has its own");
    assert_eq!(settings.warnings, [""; 0]);
    let without_files = faults(&guarded[..3]);
    for variable in ["IDEMPOTENCY_SERVER_TLS_CERT/", "IDEMPOTENCY_SERVER_TLS_KEY/"] {
        assert!(without_files.contains(variable), "{without_files}");
    }
    let nobody_asked = faults(&[&FILTER_OVER_TLS[..], &[FILTERS_SAN]].concat());
    assert!(nobody_asked.contains("without IDEMPOTENCY_CLIENT_TLS_CACERT/"), "{nobody_asked}");
}

#[test]
fn what_may_be_believed_of_certificates_and_is_not_so_is_said() {
    let warnings = |variables: &[(&str, &str)]| read(&[], variables).unwrap().warnings.join("\n");
    let api = ("IDEMPOTENCY_API", "true");
    let text = warnings(&[&FILTER_OVER_TLS[..], &[FILTERS_CA, api]].concat());
    assert!(text.contains("can also use the filter"), "{text}");
    let text = warnings(&[&FILTER_OVER_TLS[2..], &[FILTERS_CA, FILTERS_SAN, api]].concat());
    assert!(text.contains("IDEMPOTENCY_CLIENT_TLS_SAN has no effect"), "{text}");
    let text = warnings(&[FILTER_OVER_TLS[0], FILTERS_CA]);
    assert!(text.contains("IDEMPOTENCY_SERVER_USE_TLS=true turns TLS on"), "{text}");
    assert_eq!(warnings(&[&FILTER_OVER_TLS[2..], &[FILTERS_CA, api]].concat()), "");
}

#[test]
fn every_setting_has_a_flag_and_the_variable_of_the_same_name() {
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        let variable = arg.get_env().unwrap().to_str().unwrap();
        assert_eq!(flag(variable), format!("--{}", arg.get_long().unwrap()));
        assert!(arg.get_help().is_some(), "{variable} has no help");
    }
}

/// The variables without effect, as the reference page lists them.
fn ignored_table() -> String {
    let row =
        |ignored: &ignored::Ignored| format!("| `{}` | {} |\n", ignored.name, ignored.instead);
    ignored::IGNORED.iter().map(row).collect()
}

#[test]
fn the_reference_page_lists_every_variable_without_effect() {
    let page = include_str!("../../docs/reference.md");
    let table = ignored_table();
    assert!(page.contains(&table), "docs/reference.md should hold:\n{table}");
}

/// The rows of the reference page, by heading.
fn table() -> String {
    let mut table = String::new();
    let mut heading = None;
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let title = heading.unwrap();
            write!(table, "\n### {title}\n\n| variable | default | meaning |\n|---|---|---|\n")
                .unwrap();
        }
        let default = arg.get_default_values().first().unwrap().to_str().unwrap();
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let variable = arg.get_env().unwrap().to_str().unwrap();
        writeln!(table, "| `{variable}` | {default} | {} |", arg.get_help().unwrap()).unwrap();
    }
    table
}

#[test]
fn the_reference_page_lists_every_setting() {
    let page = include_str!("../../docs/reference.md");
    assert!(page.contains(&table()), "docs/reference.md should hold:\n{}", table());
}

fn records(variables: &[(&str, &str)]) -> RecordBackend {
    read(&[], variables).unwrap().store.records.backend
}

#[test]
fn records_live_where_buckets_do_unless_they_have_a_redis_of_their_own() {
    assert_eq!(records(&[]), RecordBackend::Memory);
    let own = ("IDEMPOTENCY_REDIS_URL", "own:1");
    let shared = [("REDIS_URL", "redis:6379"), ("CACHE_KEY_PREFIX", "p:"), ("MAX_IN_FLIGHT", "7")];
    for (variables, expected) in [
        ([&shared[..], &[]].concat(), ("REDIS", "single at redis:6379", "p:", 7)),
        ([&shared[..], &[own]].concat(), ("IDEMPOTENCY_REDIS", "single at own:1", "p:", 7)),
        (vec![own], ("IDEMPOTENCY_REDIS", "single at own:1", "", 65_536)),
    ] {
        let RecordBackend::Redis(found) = records(&variables) else { panic!("{variables:?}") };
        let topology = found.servers.topology.to_string();
        let found = (found.servers.variables, &*topology, &*found.key_prefix, found.max_in_flight);
        assert_eq!(found, expected);
    }
}

#[test]
fn faults_of_records_are_reported_with_their_variables() {
    let text = faults(&[
        ("IDEMPOTENCY_REDIS_URL", "nowhere"),
        ("IDEMPOTENCY_STORE_TIMEOUT", "0"),
        ("IDEMPOTENCY_ALLOW_EVICTION", "maybe"),
        ("IDEMPOTENCY_MEMORY_MAX_RECORDS", "0"),
        ("IDEMPOTENCY_MEMORY_MAX_BYTES", "some"),
    ]);
    for variable in
        ["REDIS_URL", "STORE_TIMEOUT", "ALLOW_EVICTION", "MEMORY_MAX_RECORDS", "MEMORY_MAX_BYTES"]
    {
        assert!(text.contains(&format!("IDEMPOTENCY_{variable}/")), "{variable}: {text}");
    }
}
