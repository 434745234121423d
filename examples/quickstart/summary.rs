//! What is printed at the end.

use std::time::Duration;

use kpipe_core::Report;

use crate::events::Tally;

pub(crate) fn print(tally: &Tally, report: &Report, took: Duration) {
    let found = tally.found();
    println!("\nnetwork  events  strongest");
    for (name, network) in &found.networks {
        let strongest = match &network.strongest {
            Some((magnitude, place)) => format!("{magnitude:.1}  {place}"),
            None => "-".to_owned(),
        };
        println!("{name:<7}  {:>6}  {strongest}", network.events);
    }
    println!("\n{} were no earthquakes and were passed over", found.filtered);
    for (partition, next) in &report.committed {
        println!("committed {partition} up to offset {next}");
    }
    let one_at_a_time = found.work.as_secs_f64();
    println!(
        "{} handlers ran at once at most; {:.1} s of work in {:.1} s: {:.1}x one at a time",
        found.most_at_once,
        one_at_a_time,
        took.as_secs_f64(),
        one_at_a_time / took.as_secs_f64().max(0.001),
    );
    println!("{report}");
}
