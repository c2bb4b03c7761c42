//! A child process that ends with its test, and whose output is shown if the test fails.

use super::eventually;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{fs, thread};
use tempfile::NamedTempFile;

/// The variable by which `tests/run` knows what it has to end.
const RUN_MARK: &str = "TIDEGATE_TEST_RUN";

/// A running program.
pub struct Process {
    name: &'static str,
    child: Child,
    log: NamedTempFile,
}

impl Process {
    /// Starts a program with nothing but the environment that the command names.
    pub fn start(name: &'static str, command: &mut Command) -> Self {
        let log = NamedTempFile::new().unwrap();
        if let Some(mark) = std::env::var_os(RUN_MARK) {
            command.env(RUN_MARK, mark);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.reopen().unwrap())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name, child, log }
    }

    /// All that it has printed so far, without colours.
    pub fn log(&self) -> String {
        let printed = fs::read(self.log.path()).unwrap();
        without_colours(&String::from_utf8_lossy(&printed))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end, whatever it is.
    pub fn wait(&mut self) {
        self.child.wait().ok();
    }

    /// Waits for its end.
    pub async fn end(&mut self) -> ExitStatus {
        let name = self.name;
        eventually(&format!("the end of {name}"), async || self.ended()).await
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        let command = format!("kill -s {name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(status.success(), "`{command}` failed");
    }

    /// Memory that it has in use, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!(
                "---- log of {} ----\n{}---- end of {} ----",
                self.name,
                self.log(),
                self.name
            );
        }
    }
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}
