//! Compiles the guest's init into a static program that `lab` carries inside itself.
//!
//! The bare compiler does it, because cargo cannot yet build a dependency as a static binary for another target on the
//! stable toolchain, and the musl target is not installed everywhere. glibc's static library comes with the C
//! development package of Debian and Ubuntu. Where it is missing, or on another machine than x86-64 Linux, the library
//! still compiles: `init.bin` is empty then, `init.why` says why, and booting a guest reports it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let source = Path::new("../guest-init/src");
    println!("cargo::rerun-if-changed={}", source.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let (binary, why) = (out.join("init.bin"), out.join("init.why"));
    let reason = compile(&source.join("main.rs"), &binary).err();
    if let Some(reason) = &reason {
        println!(
            "cargo::warning=no guest init: {}",
            reason.replace('\n', " ")
        );
        fs::write(&binary, []).expect("OUT_DIR is writable");
    }
    fs::write(&why, reason.unwrap_or_default()).expect("OUT_DIR is writable");
}

fn compile(source: &Path, binary: &Path) -> Result<(), String> {
    let target = env::var("TARGET").expect("cargo sets it");
    if !(target.starts_with("x86_64-") && target.contains("linux")) {
        return Err(format!(
            "guests are x86-64 Linux and this build is for {target}"
        ));
    }
    let output = Command::new(env::var_os("RUSTC").expect("cargo sets it"))
        .args([
            "--crate-name",
            "init",
            "--edition",
            "2024",
            "--target",
            &target,
        ])
        .args(["-C", "target-feature=+crt-static", "-C", "opt-level=s"])
        .args(["-C", "panic=abort", "-C", "strip=symbols"])
        .arg(source)
        .arg("-o")
        .arg(binary)
        .output()
        .map_err(|error| format!("the compiler does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("linking with"),
        "the init does not compile:\n{stderr}"
    );
    let missing = stderr.lines().find(|line| line.contains("cannot find"));
    Err(format!(
        "the init could not be linked statically; install the static part of the C library (Debian: libc6-dev, \
         Fedora: glibc-static) and build again: {}",
        missing.unwrap_or_default().trim()
    ))
}
