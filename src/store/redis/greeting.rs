//! The first exchange on a connection: who we are, and whether the server is what we expect.

use super::config::{Address, Credentials};
use super::connect::Connector;
use super::fault::ConnectError;
use super::link::{Link, is_withheld, meaning, role_of};
use crate::store::StoreError;
use redis::{Cmd, Pipeline, ServerError, Value, cmd};

/// What a server should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// A master by itself.
    Master,
    /// A master in a cluster.
    ClusterMaster,
    /// Any node of a cluster.
    ClusterNode,
    /// A sentinel.
    Sentinel,
}

/// What we ask, in order. Later answers are read only if the earlier ones were as they should be.
#[derive(Clone, Copy, Debug)]
enum Question {
    Auth,
    Ping,
    Select,
    Name,
    Role,
    Cluster,
}

/// How we are called in `CLIENT LIST`.
const NAME: &str = "tidegate";

/// Greets a server.
pub(super) async fn exchange(
    connector: &Connector,
    link: &Link,
    address: &Address,
    credentials: Option<&Credentials>,
    expects: Expects,
) -> Result<(), ConnectError> {
    let questions = questions(connector, credentials, expects);
    let mut commands = Pipeline::with_capacity(questions.len());
    for (_, command) in &questions {
        commands.add_command(command.clone());
    }
    let mut connection = link.connection();
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await;
    let answers = answers.map_err(|error| connector.broken(address, &error))?;
    let greeting = Greeting { connector, address, expects };
    questions.iter().zip(&answers).try_for_each(|((question, _), answer)| {
        if let Value::ServerError(error) = answer {
            greeting.refused(*question, error)
        } else {
            greeting.answered(*question, answer)
        }
    })
}

fn questions(
    connector: &Connector,
    credentials: Option<&Credentials>,
    expects: Expects,
) -> Vec<(Question, Cmd)> {
    let mut questions = Vec::with_capacity(6);
    questions.extend(credentials.map(|credentials| (Question::Auth, auth(credentials))));
    questions.push((Question::Ping, cmd("PING")));
    if connector.database != 0 && expects == Expects::Master {
        questions.push((Question::Select, cmd("SELECT").arg(connector.database).take()));
    }
    questions.push((Question::Name, cmd("CLIENT").arg("SETNAME").arg(NAME).take()));
    questions.push((Question::Role, cmd("ROLE")));
    match expects {
        Expects::Master => questions.push((Question::Cluster, cmd("INFO").arg("cluster").take())),
        Expects::ClusterMaster | Expects::ClusterNode => {
            questions.push((Question::Cluster, cmd("CLUSTER").arg("MYID").take()));
        }
        Expects::Sentinel => {}
    }
    questions
}

/// Says who we are.
pub(super) fn auth(credentials: &Credentials) -> Cmd {
    let mut auth = cmd("AUTH");
    if let Some(user) = &credentials.user {
        auth.arg(&**user);
    }
    auth.arg(&*credentials.password).take()
}

/// What answers are held against.
struct Greeting<'g> {
    connector: &'g Connector,
    address: &'g Address,
    expects: Expects,
}

impl Greeting<'_> {
    fn answered(&self, question: Question, answer: &Value) -> Result<(), ConnectError> {
        match question {
            Question::Role => self.role(role_of(answer).unwrap_or_default()),
            Question::Cluster if self.expects == Expects::Master && is_clustered(answer) => {
                Err(self.wrong_type("is a node of a cluster, expected `cluster`"))
            }
            Question::Cluster
            | Question::Auth
            | Question::Ping
            | Question::Select
            | Question::Name => Ok(()),
        }
    }

    fn role(&self, role: &str) -> Result<(), ConnectError> {
        match (self.expects, role) {
            (Expects::Sentinel, "sentinel") | (Expects::ClusterNode, "master" | "slave") => Ok(()),
            (Expects::Sentinel, _) => Err(self.wrong_type("is no sentinel")),
            (_, "sentinel") => Err(self.wrong_type("is a sentinel, expected `sentinel`")),
            (_, "slave") => Err(self.outage(StoreError::ReadOnly, "is a replica, not a master")),
            _ => Ok(()),
        }
    }

    fn refused(&self, question: Question, error: &ServerError) -> Result<(), ConnectError> {
        let code = error.code();
        match question {
            Question::Name => Ok(()),
            Question::Role | Question::Cluster | Question::Ping if is_withheld(error) => Ok(()),
            Question::Auth => {
                Err(self.setting(&self.connector.auth_variable, "refuses this user or password"))
            }
            _ if code == "NOAUTH" => {
                Err(self.setting(&self.connector.auth_variable, "wants a password"))
            }
            Question::Select => {
                Err(self.setting(&self.connector.setting("URL"), "has no such database"))
            }
            Question::Cluster if self.expects != Expects::Master && code == "ERR" => {
                Err(self.wrong_type("is not a node of a cluster"))
            }
            Question::Ping | Question::Role | Question::Cluster => {
                Err(self.outage(meaning(error), meaning(error)))
            }
        }
    }

    fn wrong_type(&self, what: &str) -> ConnectError {
        let setting = self.connector.setting("TYPE");
        let what = format_args!("{} {what}", self.address);
        ConnectError::setting(setting, StoreError::Unreachable, what)
    }

    fn setting(&self, setting: &str, what: &str) -> ConnectError {
        let what = format_args!("{} {what}", self.address);
        ConnectError::setting(setting, StoreError::NotAllowed, what)
    }

    fn outage(&self, error: StoreError, what: impl std::fmt::Display) -> ConnectError {
        ConnectError::outage(self.address, error, what)
    }
}

fn is_clustered(info: &Value) -> bool {
    super::link::text(info).is_some_and(|info| info.contains("cluster_enabled:1"))
}
