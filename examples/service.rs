//! A complete service: charges payments in parallel, one of a card at a time, until it is told to
//! stop. `cargo run --example service -- localhost:9092`
//!
//! The file stands alone. It needs `kpipe-core`, `tokio` (features `macros`, `rt-multi-thread`, `signal`,
//! `time`), `tracing` and `tracing-subscriber`.

use std::future::pending;
use std::time::Duration;

use kpipe_core::{Consumer, Monitor, Ordering, Record, kafka::Kafka};

#[derive(Clone)]
struct PaymentApi;

impl PaymentApi {
    async fn charge(&self, _card: Option<&[u8]>, _amount: Option<&[u8]>) -> std::io::Result<()> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }
}

fn billing(payments: PaymentApi) -> Consumer {
    Consumer::new("billing")
        .topic("payments", move |record: Record| {
            let payments = payments.clone();
            async move { Ok(payments.charge(record.key(), record.value()).await?) }
        })
        .ordering(Ordering::Key)
        .max_in_flight(1_000)
}

#[tokio::main]
async fn main() -> Result<(), kpipe_core::Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let brokers = std::env::args().nth(1).unwrap_or_else(|| "localhost:9092".to_owned());
    let running = billing(PaymentApi).start(Kafka::brokers(brokers)).await?;
    tokio::spawn(log_statistics(running.monitor()));
    let report = running.until(shutdown_signal()).await?;
    println!("{report}");
    Ok(())
}

async fn log_statistics(monitor: Monitor) {
    while !monitor.has_ended() {
        let stats = monitor.stats();
        let (passed, in_flight, failed) = (stats.passed, stats.in_flight, stats.failed);
        tracing::info!(passed, in_flight, failed, full = stats.full, lag = stats.lag());
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Ready when the process is asked to end: Ctrl-C, or SIGTERM where there is such a thing.
async fn shutdown_signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminate() => {}
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => _ = terminate.recv().await,
        Err(_) => pending().await,
    }
}

#[cfg(not(unix))]
async fn terminate() {
    pending().await
}
