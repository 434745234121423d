//! What the example programs share.
#![forbid(unsafe_code)]

/// Prints what KPipe and the client have to say: warnings, or what `RUST_LOG` asks for.
pub fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// The README's programs, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
