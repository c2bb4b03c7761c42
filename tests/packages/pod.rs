//! Tidegate as a Deployment would run it: its environment, its volumes laid out as Kubernetes does.

use crate::manifests::{list, named, one, text};
use crate::support::redis::Redis;
use crate::support::tidegate::{PROGRAM, Tidegate};
use crate::{read, reference, succeeds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A Deployment of one container, and what it mounts.
pub struct Pod<'a> {
    manifests: &'a [Value],
    spec: &'a Value,
    container: &'a Value,
}

impl<'a> Pod<'a> {
    pub fn of(manifests: &'a [Value]) -> Self {
        let spec = &one(manifests, "Deployment")["spec"]["template"]["spec"];
        let containers = list(&spec["containers"]);
        assert_eq!(containers.len(), 1);
        Self { manifests, spec, container: &containers[0] }
    }

    pub fn environment(&self) -> BTreeMap<&'a str, &'a str> {
        let variables = list(&self.container["env"]);
        variables.iter().map(|one| (text(&one["name"]), text(&one["value"]))).collect()
    }

    /// The number of a port.
    pub fn port(&self, name: &str) -> u64 {
        let port = list(&self.container["ports"]).iter().find(|port| port["name"] == name);
        port.unwrap_or_else(|| panic!("no port {name}"))["containerPort"].as_u64().unwrap()
    }

    /// What every Deployment of Tidegate has to be.
    pub fn is_sound(&self) {
        self.is_restricted();
        self.names_settings();
        self.serves_where_it_is_asked();
        self.has_time_to_drain();
    }

    /// What the restricted profile of Kubernetes's pod security standards demands, and no more
    /// rights than that.
    fn is_restricted(&self) {
        let of_pod = &self.spec["securityContext"];
        assert_eq!(of_pod["runAsNonRoot"], true);
        assert_eq!(of_pod["runAsUser"], 65532, "the user of the image");
        assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault");
        let own = &self.container["securityContext"];
        assert_eq!(own["allowPrivilegeEscalation"], false);
        assert_eq!(own["readOnlyRootFilesystem"], true);
        assert_eq!(own["capabilities"]["drop"], serde_json::json!(["ALL"]));
        assert_eq!(self.spec["automountServiceAccountToken"], false);
        assert!(self.container["resources"]["limits"]["memory"].is_string());
    }

    fn names_settings(&self) {
        let known = reference::settings();
        for name in self.environment().keys() {
            assert!(known.contains(*name), "there is no setting {name}");
        }
    }

    fn serves_where_it_is_asked(&self) {
        assert_eq!(self.port("grpc").to_string(), default("GRPC_PORT"));
        assert_eq!(self.port("http").to_string(), default("PORT"));
        let page = read("docs/reference.md");
        for probe in ["livenessProbe", "readinessProbe"] {
            let get = &self.container[probe]["httpGet"];
            assert_eq!(get["port"], "http");
            assert!(page.contains(&format!("`{}`", text(&get["path"]))), "{get}");
        }
        assert_eq!(self.container["livenessProbe"]["httpGet"]["path"], "/livez");
        assert_eq!(self.container["readinessProbe"]["httpGet"]["path"], "/readyz");
    }

    fn has_time_to_drain(&self) {
        let set = self.environment();
        let seconds = |name: &str| -> u64 {
            let value = set.get(name).map_or_else(|| default(name), |&value| value.to_owned());
            value.strip_suffix('s').unwrap().parse().unwrap()
        };
        let (drain, stop) = (seconds("DRAIN_DELAY"), seconds("STOP_TIMEOUT"));
        let grace = self.spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(grace > drain + stop, "{grace} s for {drain} s and {stop} s");
        let probe = &self.container["readinessProbe"];
        let notices =
            ["periodSeconds", "failureThreshold"].map(|name| probe[name].as_u64().unwrap());
        assert!(notices[0] * notices[1] < drain, "{probe}");
    }

    /// Each policy that it mounts, checked as an operator would.
    pub fn has_sound_policies(&self) {
        let set = self.environment();
        let volumes = Volumes::laid_out(self, "");
        let mut command = Command::new(PROGRAM);
        command.args(["check", "--strict"]).arg(volumes.path(set["POLICIES"]));
        if let Some(policy) = set.get("IDEMPOTENCY_CONFIG") {
            command.arg(volumes.path(policy));
        }
        succeeds(&mut command);
    }

    /// Runs it on this machine, with this Redis and its password; ports are free ones.
    pub async fn start(&self, redis: &Redis, password: &str) -> Running {
        let volumes = Volumes::laid_out(self, password);
        let address = redis.address();
        let mut settings = self.environment();
        assert!(settings.insert("REDIS_URL", &address).is_some());
        if settings.contains_key("IDEMPOTENCY_ADDR") {
            settings.insert("IDEMPOTENCY_ADDR", "127.0.0.1:0");
        }
        // On a busy machine no failure mode shall answer instead of Redis.
        settings.insert("REDIS_OP_TIMEOUT", "5s");
        let settings: Vec<_> =
            settings.into_iter().map(|(name, value)| (name, volumes.within(value))).collect();
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let tidegate = Tidegate::run(Path::new(PROGRAM), TempDir::new().unwrap(), &settings).await;
        tidegate.ready().await;
        Running { tidegate, volumes }
    }
}

/// A pod that runs.
pub struct Running {
    pub tidegate: Tidegate,
    pub volumes: Volumes,
}

/// The volumes of a pod, in a folder of this machine.
pub struct Volumes {
    root: TempDir,
    mounts: Vec<PathBuf>,
}

impl Volumes {
    fn laid_out(pod: &Pod<'_>, password: &str) -> Self {
        let root = TempDir::new().unwrap();
        let mut mounts = Vec::new();
        for mount in list(&pod.container["volumeMounts"]) {
            assert!(mount["subPath"].is_null(), "{mount}: it would never change");
            let volumes = list(&pod.spec["volumes"]);
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let path = PathBuf::from(text(&mount["mountPath"]));
            let folder = root.path().join(path.strip_prefix("/").unwrap());
            fs::create_dir_all(&folder).unwrap();
            lay_out(&folder, "first", &files(pod, volume, password));
            mounts.push(path);
        }
        Self { root, mounts }
    }

    /// Where a path of the pod is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.strip_prefix('/').unwrap())
    }

    /// A setting, with the paths in it as they are here.
    fn within(&self, value: &str) -> String {
        let mounted = self.mounts.iter().any(|mount| Path::new(value).starts_with(mount));
        if mounted { self.path(value).display().to_string() } else { value.to_owned() }
    }

    /// Replaces the files of a `ConfigMap`, as Kubernetes does.
    pub fn change(&self, mount: &str, files: &[(String, String)]) {
        lay_out(&self.path(mount), "second", files);
    }
}

/// What a volume holds. A Secret is not in the manifests: one of a password is made.
fn files(pod: &Pod<'_>, volume: &Value, password: &str) -> Vec<(String, String)> {
    if let Some(name) = volume["configMap"]["name"].as_str() {
        let data = named(pod.manifests, "ConfigMap", name)["data"].as_object().unwrap();
        return data.iter().map(|(name, value)| (name.clone(), text(value).to_owned())).collect();
    }
    assert!(volume["secret"]["secretName"].is_string(), "{volume}");
    vec![("auth".to_owned(), password.to_owned())]
}

/// Files behind a link `..data` to a folder, which is swapped as a whole.
fn lay_out(folder: &Path, version: &str, files: &[(String, String)]) {
    let data = format!("..{version}");
    fs::create_dir(folder.join(&data)).unwrap();
    for (name, content) in files {
        fs::write(folder.join(&data).join(name), content).unwrap();
        let link = folder.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), link).unwrap();
        }
    }
    symlink(&data, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

/// A setting's default.
fn default(name: &str) -> String {
    let printed = succeeds(Command::new(PROGRAM).arg("settings").env_clear());
    let line = printed.lines().find_map(|line| {
        let (origin, setting) = line.split_once(char::is_whitespace)?;
        let value = setting.trim().strip_prefix(name)?.strip_prefix('=')?;
        (origin == "default").then(|| value.to_owned())
    });
    line.unwrap_or_else(|| panic!("no {name} in {printed}"))
}
