//! The guest operating system in the words of VMware and of Proxmox VE.

/// Proxmox VE's `ostype` values (qemu-server's `QemuServer.pm`).
const PROXMOX: [&str; 13] = [
    "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24",
    "l26", "solaris",
];

/// Parts of an id in anybody's words (lower case), Proxmox VE's type, VMware's id. The first row that fits counts.
/// VMware's ids: the `guestOSDescriptor` list of the vSphere API; libosinfo's are URLs such as
/// `http://microsoft.com/win/2k22`.
const FAMILIES: [(&[&str], &str, &str); 10] = [
    (&["win/11", "windows11", "win11"], "win11", "windows11-64"),
    (
        &["win/2k25", "windows2022srvnext"],
        "win11",
        "windows2022srvNext-64",
    ),
    (
        &["win/2k22", "windows2019srvnext"],
        "win11",
        "windows2019srvNext-64",
    ),
    (
        &["win/2k19", "windows2019srv"],
        "win10",
        "windows2019srv-64",
    ),
    (
        &["win/10", "win/2k16", "windows9", "win10"],
        "win10",
        "windows9-64",
    ),
    (
        &["win/8", "win/2k12", "windows8", "win8"],
        "win8",
        "windows8-64",
    ),
    (
        &["win/7", "win/2k8r2", "windows7", "win7"],
        "win7",
        "windows7-64",
    ),
    (&["solaris"], "solaris", "solaris11-64"),
    (&["l24", "other24xlinux"], "l24", "other24xlinux-64"),
    (
        &[
            "l26", "linux", "ubuntu", "debian", "centos", "rhel", "fedora", "sles", "suse",
            "photon", "coreos", "amazon",
        ],
        "l26",
        "other6xlinux-64",
    ),
];

/// VMware's id for a guest named in any format's words; `None` when nothing fits.
pub(super) fn to_vmware(os: &str) -> Option<&str> {
    let foreign = os.contains('/') || PROXMOX.contains(&os);
    if foreign {
        family(os).map(|(_, vmware)| vmware)
    } else {
        Some(os)
    }
}

/// Proxmox VE's `ostype` for a guest named in any format's words; `None` when nothing fits.
pub(super) fn to_proxmox(os: &str) -> Option<&'static str> {
    PROXMOX
        .into_iter()
        .find(|known| *known == os)
        .or_else(|| family(os).map(|(proxmox, _)| proxmox))
}

fn family(os: &str) -> Option<(&'static str, &'static str)> {
    let os = os.to_lowercase();
    FAMILIES
        .iter()
        .find(|(parts, ..)| parts.iter().any(|part| os.contains(part)))
        .map(|&(_, proxmox, vmware)| (proxmox, vmware))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vocabulary_reaches_both_others() {
        for (os, proxmox, vmware) in [
            ("l26", Some("l26"), Some("other6xlinux-64")),
            ("win11", Some("win11"), Some("windows11-64")),
            ("ubuntu-64", Some("l26"), Some("ubuntu-64")),
            (
                "windows2019srvNext-64",
                Some("win11"),
                Some("windows2019srvNext-64"),
            ),
            (
                "windows2019srv-64",
                Some("win10"),
                Some("windows2019srv-64"),
            ),
            (
                "http://microsoft.com/win/2k22",
                Some("win11"),
                Some("windows2019srvNext-64"),
            ),
            (
                "http://ubuntu.com/ubuntu/24.04",
                Some("l26"),
                Some("other6xlinux-64"),
            ),
            ("darwin21-64", None, Some("darwin21-64")),
            ("http://haiku-os.org/haiku/r1", None, None),
            ("wvista", Some("wvista"), None),
        ] {
            assert_eq!((to_proxmox(os), to_vmware(os)), (proxmox, vmware), "{os}");
        }
    }
}
