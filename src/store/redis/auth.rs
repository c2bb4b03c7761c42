//! Who we are to Redis, and how that changes while the process runs.

use super::config::{Credentials, RedisServers};
use super::fault::Misconfigured;
use super::fleet::Fleet;
use super::greeting;
use arc_swap::ArcSwapOption;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who we are.
#[derive(Debug)]
pub(super) struct Auth {
    /// The variable that says so.
    pub(super) variable: String,
    pub(super) current: Arc<ArcSwapOption<Credentials>>,
    /// Where it may change.
    pub(super) file: Option<PathBuf>,
}

/// The file is read that often.
const POLL: Duration = Duration::from_secs(2);

/// How long a server may take to let us in anew.
const PATIENCE: Duration = Duration::from_secs(1);

impl Auth {
    /// Reads who we are; the file must be there from the start.
    pub(super) fn read(servers: &RedisServers) -> Result<Self, Misconfigured> {
        let Some(file) = &servers.auth_file else {
            return Ok(Self {
                variable: format!("{}_AUTH", servers.variables),
                current: Arc::new(ArcSwapOption::from_pointee(servers.auth.clone())),
                file: None,
            });
        };
        let variable = format!("{}_AUTH_FILE", servers.variables);
        let text = std::fs::read_to_string(file).map_err(|error| {
            Misconfigured::new(&variable, format_args!("{}: {error}", file.display()))
        })?;
        let current = Arc::new(ArcSwapOption::from_pointee(Credentials::parse(&text)));
        Ok(Self { variable, current, file: Some(file.clone()) })
    }
}

/// Reads the file again and again, for ever; when it has changed, every open connection is told.
pub(super) async fn follow(fleet: Arc<Fleet>, file: PathBuf) {
    loop {
        tokio::time::sleep(POLL).await;
        // While a Secret is swapped the file may be missing: what we have stays valid.
        let Ok(text) = tokio::fs::read_to_string(&file).await else { continue };
        let Some(found) = Credentials::parse(&text) else { continue };
        let known = fleet.connector.auth.load_full();
        if known.as_deref() != Some(&found) {
            fleet.connector.auth.store(Some(Arc::new(found.clone())));
            tracing::info!(setting = %fleet.connector.auth_variable, "credentials have changed");
            log_in(&fleet, &found).await;
        }
    }
}

async fn log_in(fleet: &Fleet, credentials: &Credentials) {
    for node in fleet.nodes() {
        for link in node.state.all_links() {
            if let Err(error) = link.ask_one(greeting::auth(credentials), PATIENCE).await {
                let setting = &fleet.connector.auth_variable;
                tracing::warn!(
                    node = %node.state.address, %setting, reason = %error,
                    "the new credentials are not accepted; the connection keeps the old ones"
                );
            }
        }
    }
}
