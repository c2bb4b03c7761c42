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
    assert_eq!(settings.listen.http, Address { variable: "PORT", host: None, port: 8080 });
    assert_eq!(settings.listen.grpc, Address { variable: "GRPC_PORT", host: None, port: 8081 });
    assert_eq!(settings.listen.admin.host.as_deref(), Some("127.0.0.1"));
    assert_eq!(settings.listen.prometheus, None);
    assert_eq!(settings.listen.grpc_max_connection_age, Some(Duration::from_secs(86_400)));
    assert_eq!(settings.store.backend, Backend::Memory);
    assert_eq!(settings.store.warnings, Vec::<String>::new());
    assert_eq!(settings.log, Log { level: LogLevel::Info, format: LogFormat::Text });
    assert!(settings.answers.retry_after_header && settings.answers.json);
    assert!(!settings.answers.shadow_mode && !settings.policies.ready_without_domains);
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
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("GRPC_SERVER_USE_TLS", "true"),
    ]), @r"
    the settings are faulty
      CONFIG_TYPE: xDS is not built in yet; expected `FILE`
      GRPC_SERVER_USE_TLS: TLS is not built in yet; expected `false`
      DEFAULT_ALGORITHM/--default-algorithm: found `leaky_bucket`, expected `fixed_window`, `sliding_window_counter` or `token_bucket`
      DEFAULT_FAILURE_MODE/--default-failure-mode: found `shut`, expected `open`, `closed`, `local` or `error`
      PORT/--port: found `http`, expected a port from 0 to 65535
      GRPC_PORT/--grpc-port: found `65536`, expected a port from 0 to 65535
      PROMETHEUS_ADDR/--prometheus-addr: found `9090`, expected `host:port` or `:port`
      PROMETHEUS_PATH/--prometheus-path: found `metrics`, expected a path such as `/metrics`
      GRPC_MAX_CONNECTION_AGE/--grpc-max-connection-age: found `1d`, expected a duration such as `10s`, `150ms` or `1h30m`
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
}

#[test]
fn brackets_around_an_address_are_no_part_of_it() {
    let listen = read(&[], &[("HOST", "[::1]"), ("PROMETHEUS_ADDR", "[::1]:0")]).unwrap().listen;
    assert_eq!(listen.http.host.as_deref(), Some("::1"));
    let prometheus = Address { variable: "PROMETHEUS_ADDR", host: Some("::1".into()), port: 0 };
    assert_eq!(listen.prometheus, Some(prometheus));
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

#[test]
fn readiness_without_domains_can_be_forced_but_not_against_the_wish_for_one() {
    let force = ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true");
    let needs_one = ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true");
    let ready = |variables: &[_]| read(&[], variables).unwrap().policies.ready_without_domains;
    assert!(ready(&[force]));
    assert!(!ready(&[force, needs_one]));
    assert!(!ready(&[needs_one]));
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
    assert_eq!((config.servers.pool_size, config.servers.op_timeout), (10, OpTimeout::Auto));
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

#[test]
fn settings_without_a_meaning_here_are_said_to_have_none() {
    let warnings = read(&[], &[("REDIS_URL", "redis:6379"), ("REDIS_PIPELINE_WINDOW", "0")]);
    let warnings = warnings.unwrap().store.warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("REDIS_PIPELINE_WINDOW has no effect"), "{warnings:?}");
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
        ("IDEMPOTENCY_REDIS_URL", "redis://:hunter2@r"),
        ("IDEMPOTENCY_REDIS_AUTH", "hunter2"),
        ("IDEMPOTENCY_REDIS_SENTINEL_AUTH", "hunter2"),
    ];
    assert!(!format!("{:?}", read(&[], &secrets).unwrap()).contains("hunter2"));
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        let variable = arg.get_env().unwrap().to_str().unwrap();
        let is_secret =
            variable.ends_with("AUTH") || variable.contains("REDIS") && variable.ends_with("URL");
        assert_eq!(arg.is_hide_env_values_set(), is_secret, "{variable}");
    }
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
        Endpoint::Tcp(Address { variable: "IDEMPOTENCY_ADDR", host: Some(host.to_owned()), port })
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

#[test]
fn every_setting_has_a_flag_and_the_variable_of_the_same_name() {
    for arg in RawSettings::augment_args(Command::new("tidegate")).get_arguments() {
        let variable = arg.get_env().unwrap().to_str().unwrap();
        assert_eq!(flag(variable), format!("--{}", arg.get_long().unwrap()));
        assert!(arg.get_help().is_some(), "{variable} has no help");
    }
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
