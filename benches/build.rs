//! Tells the benches which compiler made them: a figure without it says little.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC for build scripts");
    let version = Command::new(rustc).arg("--version").output();
    let version = version.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    println!(
        "cargo::rustc-env=BENCHES_RUSTC_VERSION={}",
        version.as_deref().map_or("unknown", str::trim)
    );
}
