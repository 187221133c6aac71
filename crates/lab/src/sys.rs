//! The one system call here that the standard library does not offer.

#![expect(unsafe_code, reason = "prctl between fork and exec has no safe form")]

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

unsafe extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
}

/// `PR_SET_PDEATHSIG` of `<sys/prctl.h>`.
const SET_PARENT_DEATH_SIGNAL: c_int = 1;
/// `SIGKILL` of `<signal.h>`.
const KILL: c_ulong = 9;

/// Makes the kernel kill the command's process when the thread that starts it ends, however it ends: an emulator that
/// nobody reads from must not stay behind.
pub(crate) fn die_with_parent(command: &mut Command) {
    let before_exec = || {
        // SAFETY: prctl with two integers touches no memory and is async-signal-safe, as needed between fork and exec.
        match unsafe { prctl(SET_PARENT_DEATH_SIGNAL, KILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock; it makes one system call.
    unsafe { command.pre_exec(before_exec) };
}
