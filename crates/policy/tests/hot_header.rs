//! The fast path's header is taken by those who include it: a BPF program and any C compiler.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// What bpftool writes into every vmlinux.h, as far as the header uses it.
const VMLINUX: &str = "\
#define __VMLINUX_H__
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef _Bool bool;
enum { false = 0, true = 1 };
";

/// Every function, so that none is left out as unused.
const CALLS: &str = "\
#include \"dispatch.h\"
uint64_t calls(uint64_t a, uint64_t b, uint64_t c, uint32_t m, uint32_t n);
uint64_t calls(uint64_t a, uint64_t b, uint64_t c, uint32_t m, uint32_t n)
{
	return vtopo_charge(a, b, m) ^ vtopo_wake_vtime(a, b, c) ^ vtopo_move_vtime(a, b, c) ^ vtopo_slice(a, m, n) ^
	       vtopo_preempts(a, b, c) ^ vtopo_patience(m, n) ^ vtopo_seat(m, n, a, m) ^ vtopo_may_steal(m, a, n);
}
";

/// As functions of their own, each of which must fit BPF by itself.
const SYMBOLS: &str = "\
#define VTOPO_FN
#include \"dispatch.h\"
";

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"];

#[test]
fn clang_compiles_it_for_bpf() {
    if !runs("clang") {
        println!("skipped: clang is not installed");
        return;
    }
    for (words, source) in [
        ("vmlinux.h before it", format!("{VMLINUX}{CALLS}")),
        (
            "vmlinux.h of a small kernel",
            format!("{}{CALLS}", without_kernel_names()),
        ),
        ("vmlinux.h, as symbols", format!("{VMLINUX}{SYMBOLS}")),
        ("without vmlinux.h", CALLS.to_owned()),
    ] {
        let target = ["-target", "bpf", "-ffreestanding", "-O2"];
        compile("clang", &target, &source).unwrap_or_else(|error| panic!("{words}: {error}"));
    }
    // Were it not asked for errors, all of the above would pass.
    assert!(compile("clang", &["-target", "bpf", "-O2"], "uint64_t f(void);").is_err());
}

#[test]
fn a_c_compiler_has_nothing_to_complain_of() {
    if !runs("cc") {
        println!("skipped: no C compiler is called cc");
        return;
    }
    for standard in ["-std=c11", "-std=gnu17"] {
        for source in [
            CALLS,
            &CALLS.replace("#include", "#define VTOPO_FN static inline\n#include"),
        ] {
            compile("cc", &[standard, "-O1"], source)
                .unwrap_or_else(|error| panic!("{standard}: {error}"));
        }
    }
}

/// A vmlinux.h whose kernel never used the standard's names.
fn without_kernel_names() -> String {
    let kept = VMLINUX
        .lines()
        .filter(|line| !line.contains("int32_t") && !line.contains("int64_t"));
    kept.map(|line| format!("{line}\n")).collect()
}

fn runs(compiler: &str) -> bool {
    let version = Command::new(compiler).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Compiles text to nowhere; the error is what the compiler said.
fn compile(compiler: &str, options: &[&str], source: &str) -> Result<(), String> {
    let mut child = Command::new(compiler)
        .args(options)
        .args(WARNINGS)
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/hot")])
        .args(["-x", "c", "-c", "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin
        .write_all(source.as_bytes())
        .map_err(|error| error.to_string())?;
    drop(stdin);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
