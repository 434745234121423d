//! The Apache Kafka that the arms read from: one that runs already, or one of our own.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio, exit, id};
use std::{env, fs, thread};

use crate::Fallible;
use futures::future;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// A broker to use; one that was started here ends with it.
#[derive(Debug)]
pub struct Cluster {
    address: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    directory: PathBuf,
}

impl Cluster {
    /// Uses the broker at `address`, or starts one.
    pub fn reach(address: Option<&str>) -> Fallible<Self> {
        if let Some(address) = address {
            return Ok(Self { address: address.to_owned(), own: None });
        }
        let own = Own { directory: env::temp_dir().join(format!("kpipe-broker-bench-{}", id())) };
        own.stop_on_signal()?;
        let output = own.script("start").stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!(
                "scripts/kafka start: {}; --bootstrap HOST:PORT uses a broker that runs already",
                output.status
            )
            .into());
        }
        let output = String::from_utf8(output.stdout)?;
        let address = output.lines().last().ok_or("scripts/kafka start printed no address")?;
        Ok(Self { address: address.trim().to_owned(), own: Some(own) })
    }

    /// Its `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the broker was started here.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

impl Own {
    /// An interrupted program would leave its broker behind.
    fn stop_on_signal(&self) -> Fallible<()> {
        let own = Self { directory: self.directory.clone() };
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        thread::spawn(move || {
            runtime.block_on(future::select(pin!(interrupt.recv()), pin!(terminate.recv())));
            drop(own);
            exit(130);
        });
        Ok(())
    }

    fn script(&self, command: &str) -> Command {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka");
        let mut script = Command::new(path);
        script.arg(command).env("KPIPE_KAFKA_DIR", &self.directory).stdin(Stdio::null());
        script
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.directory.exists() {
            return;
        }
        let stopped = self.script("stop").stdout(Stdio::null()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!("scripts/kafka stop failed in {}", self.directory.display());
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("{} stays: {error}", self.directory.display());
        }
    }
}
