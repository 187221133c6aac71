//! The two system calls that the standard library does not offer.

#![expect(unsafe_code, reason = "mount and reboot have no safe form in std")]

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::io;

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn reboot(command: c_int) -> c_int;
}

/// `RB_POWER_OFF` of `<sys/reboot.h>`.
const POWER_OFF: c_int = 0x4321_fedc;

/// Mounts a file system without a device behind it.
pub(crate) fn mount_pseudo(kind: &str, target: &str) -> io::Result<()> {
    let (kind, target) = (CString::new(kind)?, CString::new(target)?);
    // SAFETY: both pointers are NUL-terminated strings that live until the call returns; the file systems mounted here
    // take no data, so a null pointer is what the kernel expects.
    let result = unsafe {
        mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Turns the machine off. Returns only when the kernel refuses, for example because this is not process 1 of a guest.
pub(crate) fn power_off() {
    // SAFETY: the call takes an integer and touches no memory of ours.
    unsafe { reboot(POWER_OFF) };
}
