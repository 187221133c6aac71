//! Compiles the fast path, which is C so that the very same source also goes into a BPF program.
//!
//! Any C compiler will do; rustc needs one anyway, as its linker, and `scripts/setup.sh` brings it.

fn main() {
    println!("cargo::rerun-if-changed=hot");
    cc::Build::new()
        .file("hot/native.c")
        .std("c11")
        // A few nanoseconds a call also where the rest is built for debugging: the simulator calls it at every event.
        .opt_level(2)
        .extra_warnings(true)
        .compile("vtopo_hot");
}
