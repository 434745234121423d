//! What it costs to make a record out of a message's borrowed parts, and to share and drop it;
//! beside it, the owned message of rdkafka, which copies each part into an allocation of its own.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use kpipe_core::rooms;
use rdkafka::Timestamp;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

/// A header's name and value.
type Pair = (&'static [u8], Option<&'static [u8]>);

const KEY: &[u8] = b"key-0042";
const HEADERS: [Pair; 4] = [
    (b"traceparent", Some(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    (b"content-type", Some(b"application/json")),
    (b"tenant", Some(b"7")),
    (b"flag", None),
];

fn creation(c: &mut Criterion) {
    let topic: Arc<str> = "payments".into();
    for (name, value, headers) in [
        ("50 B", &[b'.'; 42][..], &[][..]),
        ("50 B, 4 headers", &[b'.'; 42], &HEADERS),
        ("1 KiB", &[b'.'; 1_016], &[]),
        ("empty", &[], &[]),
    ] {
        let key = (name != "empty").then_some(KEY);
        let mut group = c.benchmark_group(format!("record/{name}"));
        group.throughput(Throughput::Elements(1));
        group.bench_function("record", |b| {
            b.iter(|| rooms::record(&topic, 7, black_box(key), black_box(Some(value)), headers));
        });
        group.bench_function("rdkafka", |b| {
            b.iter(|| detached(black_box(key), black_box(Some(value)), headers));
        });
        group.finish();
    }
}

/// What `BorrowedMessage::detach` makes.
fn detached(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Pair]) -> OwnedMessage {
    let headers = (!headers.is_empty()).then(|| {
        headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |all, (key, value)| {
            let key = std::str::from_utf8(key).unwrap_or_default();
            all.insert(Header { key, value: *value })
        })
    });
    OwnedMessage::new(
        value.map(<[u8]>::to_vec),
        key.map(<[u8]>::to_vec),
        "payments".to_owned(),
        Timestamp::NotAvailable,
        0,
        7,
        headers,
    )
}

fn sharing(c: &mut Criterion) {
    let topic: Arc<str> = "payments".into();
    let record = rooms::record(&topic, 7, Some(KEY), Some(&[b'.'; 42]), &HEADERS);
    let mut group = c.benchmark_group("record/shared");
    group.bench_function("clone and drop", |b| b.iter(|| black_box(&record).clone()));
    group.bench_function("value_bytes", |b| b.iter(|| black_box(&record).value_bytes()));
    group.bench_function("value", |b| b.iter(|| black_box(&record).value().map(<[u8]>::len)));
    group.bench_function("4 headers", |b| {
        b.iter(|| black_box(&record).headers().iter().filter(|h| h.value().is_some()).count());
    });
    group.bench_function("id", |b| b.iter(|| black_box(&record).id()));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    creation(&mut criterion);
    sharing(&mut criterion);
    criterion.final_summary();
}
