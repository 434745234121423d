//! A complete service: charges payments in parallel, one of a card at a time, until it is told to
//! stop. `cargo run --example service -- localhost:9092`

use std::time::Duration;

use kpipe_core::{Consumer, Ordering, Record, kafka::Kafka};

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
    examples::log_to_stderr();
    let brokers = std::env::args().nth(1).unwrap_or_else(|| "localhost:9092".to_owned());
    let running = billing(PaymentApi).start(Kafka::brokers(brokers)).await?;
    let report = running.until(examples::shutdown_signal()).await?;
    println!("{report}");
    Ok(())
}
