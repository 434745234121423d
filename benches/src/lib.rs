//! Benchmarks of KPipe.
