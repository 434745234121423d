//! Members that can die: processes of their own, each this very test binary again.

use std::process::{Command, Stdio};
use std::time::Duration;

use kpipe_core::kafka::Kafka;

use crate::cluster::Process;
use crate::service::{Ledger, noting};

/// Set for a child process.
const CHILD: &str = "KPIPE_TEST_CONFORMANCE_CHILD";

pub(crate) struct Child(std::process::Child);

/// What a child runs. Nothing anywhere else.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let mut arguments = arguments.split('|');
    let mut next = || arguments.next().expect("address, group, topic");
    let (address, group, topic) = (next(), next(), next());
    let kafka = Kafka::brokers(address)
        .option("session.timeout.ms", "6000")
        .option("heartbeat.interval.ms", "300");
    let consumer = noting(group, topic, &Ledger::default(), Duration::from_millis(5));
    let _running = consumer.start(kafka).await.expect("starts");
    std::future::pending::<()>().await;
}

impl Child {
    pub(super) fn start(address: &str, group: &str, topic: &str) -> Self {
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--nocapture", "brokers::apache::process::child"])
            .env(CHILD, [address, group, topic].join("|"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a child process"))
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Process for Child {
    fn die(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("gone");
    }

    fn freeze(&self) {
        self.signal("-STOP");
    }

    fn thaw(&self) {
        self.signal("-CONT");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Already gone, unless the test failed or only stopped it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
