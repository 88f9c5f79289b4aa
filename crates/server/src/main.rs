//! The program `slidegate`.

use std::process::ExitCode;

// glibc's allocator keeps the memory of closed connections, and more with every wave of them.
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    slidegate_server::cli::run()
}
