//! Nothing: Cargo.toml names the crate whose C sources bench/transaction/run builds.
