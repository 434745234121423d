//! The Markdown table: medians, how far the runs lie apart, and ratios of arms round by round.

use std::fmt::Write;

use benches::workload::KEYS;

use crate::args::Args;
use crate::machine;
use crate::report::Row;

/// Renders the rows, one group for each arm in the order of the arms; rounds in their order.
pub(crate) fn render(args: &Args, arms: &[Vec<Row>]) -> String {
    let mut out = String::new();
    let what = match (args.work_us, args.pend_once) {
        (0, false) => "handlers ready at their first poll".to_owned(),
        (0, true) => "handlers that are pending once".to_owned(),
        (us, _) => format!("handlers that wait {us} us"),
    };
    let _ = writeln!(
        out,
        "{} records over {} partitions, {KEYS} keys, {what}, at most {} in flight; {} round(s), \
         medians (least to most).\n",
        args.records, args.partitions, args.max_in_flight, args.reps
    );
    for (name, value) in machine::facts(args) {
        let _ = writeln!(out, "- {name}: {value}");
    }
    if !args.set.is_empty() {
        let set: Vec<_> = args.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(out, "- client options: {}", set.join(", "));
    }
    out.push('\n');
    runs(&mut out, args, arms);
    if arms.len() > 1 {
        ratios(&mut out, arms);
    }
    out
}

fn runs(out: &mut String, args: &Args, arms: &[Vec<Row>]) {
    let names = [
        "arm",
        "records/s",
        "of bound",
        "steady s",
        "total s",
        "CPU us/record",
        "RSS peak MiB",
        "allocs/record",
        "alloc B/record",
        "handled twice",
        "order breaks",
        "key overlaps",
        "peak in flight",
        "handler us",
        "committed",
    ];
    line(out, names);
    line(out, names.map(|name| if name == "arm" { "---" } else { "---:" }));
    for rows in arms {
        let Some(first) = rows.first() else { continue };
        let records = args.records as f64;
        let of = |value: fn(&Row) -> Option<f64>| -> Option<Spread> {
            Spread::of(rows.iter().map(value).collect::<Option<Vec<_>>>()?)
        };
        let median = |value: Option<Spread>, digits| text(value.map(|value| value.median), digits);
        let worst = |value: fn(&Row) -> Option<u64>| {
            let values: Option<Vec<u64>> = rows.iter().map(value).collect();
            values.and_then(|values| values.into_iter().max()).map_or("?".into(), |v| v.to_string())
        };
        let of_bound = |row: &Row| bound(args, row).map(|bound| 100.0 * row.per_s / bound);
        let bound = Spread::of(rows.iter().filter_map(of_bound).collect());
        let committed = match rows.iter().map(|row| row.committed_sum).min() {
            Some(sum) if sum == args.records as i64 => "all".to_owned(),
            least => format!("least {}", least.unwrap_or_default()),
        };
        let cells = [
            first.arm.to_string(),
            of(|row| Some(row.per_s)).map_or("?".into(), |per_s| per_s.text(0)),
            bound.map_or("".into(), |bound| format!("{:.0}%", bound.median)),
            median(of(|row| Some(row.steady_s)), 2),
            median(of(|row| Some(row.total_s)), 2),
            text(of(|row| Some(row.cpu_s)).map(|cpu| cpu.median * 1e6 / records), 2),
            median(of(|row| row.rss_peak_kb.map(|kb| kb as f64 / 1_024.0)), 0),
            median(of(|row| row.allocs_per_record), 2),
            median(of(|row| row.alloc_bytes_per_record), 0),
            worst(|row| row.duplicates),
            worst(|row| row.order_breaks),
            worst(|row| row.key_overlaps),
            worst(|row| row.peak_in_flight),
            median(of(|row| row.work_us_actual_mean), 1),
            committed,
        ];
        line(out, cells.each_ref().map(String::as_str));
    }
    out.push_str(
        "\nCounts are the worst of the runs; `?` was not measured. The bound is what the arm lets \
         run at once over the mean time of a handler.\n",
    );
}

/// Records a second that the arm could reach at most, where handlers wait.
fn bound(args: &Args, row: &Row) -> Option<f64> {
    let mean_us = row.work_us_actual_mean.filter(|_| row.work_us > 0)?;
    Some(row.arm.concurrency(row.max_in_flight, args.partitions) as f64 / mean_us * 1e6)
}

fn ratios(out: &mut String, arms: &[Vec<Row>]) {
    out.push_str("\nRecords a second of the row's arm over the column's, in the same round:\n\n");
    let name = |rows: &Vec<Row>| rows.first().map(|row| row.arm.to_string()).unwrap_or_default();
    let mut head = vec![String::new()];
    head.extend(arms.iter().map(name));
    row(out, &head);
    row(out, &vec!["---".to_owned(); head.len()]);
    for rows in arms {
        let mut cells = vec![name(rows)];
        for others in arms {
            let ratios = rows.iter().zip(others).map(|(row, other)| row.per_s / other.per_s);
            let same = std::ptr::eq(rows, others);
            let ratio = Spread::of(ratios.collect()).filter(|_| !same);
            cells.push(ratio.map_or(String::new(), |ratio| ratio.text(2)));
        }
        row(out, &cells);
    }
}

/// Median, least and most of some figures.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// `None` of nothing.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, least, most })
    }

    fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.least, self.most)
    }
}

fn text(value: Option<f64>, digits: usize) -> String {
    value.map_or("?".into(), |value| format!("{value:.digits$}"))
}

fn line<const N: usize>(out: &mut String, cells: [&str; N]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread.text(1), "2.0 (1.0 to 3.0)");
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert!(Spread::of(Vec::new()).is_none());
    }
}
