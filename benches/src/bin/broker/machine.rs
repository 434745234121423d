//! What the figures were measured on.

use std::fs;
use std::process::Command;

use rdkafka::util::get_rdkafka_version;

use crate::args::{Args, cores};
use crate::usage;

/// Name and value of each fact; what the system does not tell is left out.
pub(crate) fn facts(args: &Args) -> Vec<(&'static str, String)> {
    let mut facts = vec![("cores", cores().to_string())];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("CPU", field("/proc/cpuinfo", "model name"));
    add("memory", field("/proc/meminfo", "MemTotal").and_then(|kb| gib(&kb)));
    add("kernel", read("/proc/sys/kernel/osrelease"));
    add("load average at the end", read("/proc/loadavg"));
    add("rustc", Some(env!("BENCHES_RUSTC_VERSION").to_owned()));
    add("librdkafka", Some(get_rdkafka_version().1));
    add("malloc", Some(malloc()));
    add("Rust allocations", Some(counted().to_owned()));
    add("tokio workers", Some(args.workers.to_string()));
    facts
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn gib(kb: &str) -> Option<String> {
    let kb: f64 = kb.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kb / 1_048_576.0))
}

fn malloc() -> String {
    if usage::allocator() == "system" {
        let version = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let version = version.ok().filter(|output| output.status.success());
        let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
        return format!("the system's, {}", version.as_deref().map_or("unknown", str::trim));
    }
    format!("{}, for Rust and for librdkafka", usage::allocator())
}

fn counted() -> &'static str {
    if cfg!(feature = "count-allocations") { "counted" } else { "not counted" }
}
