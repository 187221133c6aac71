//! Which guest a VM file means, from the names VMware, Proxmox VE, libosinfo and VirtualBox give it.

/// A guest operating system, as far as its limits and VMware's defaults tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestOs {
    /// Windows 7, 8, 10, 11 by that number (8.1 is 8).
    WindowsClient(u32),
    /// Windows Server by year (2008 R2 is 2009: between 2008 and 2012); 0 when the name does not tell.
    WindowsServer(u32),
    /// macOS by Darwin's number (20 is macOS 11); 0 when the name does not tell.
    MacOs(u32),
    /// Any Linux.
    Linux,
}

/// Parts of names that only Linux guests have.
const LINUX: [&str; 21] = [
    "linux",
    "ubuntu",
    "debian",
    "fedora",
    "rhel",
    "redhat",
    "centos",
    "suse",
    "sles",
    "rocky",
    "photon",
    "coreos",
    "gentoo",
    "mageia",
    "mandriva",
    "nixos",
    "turbolinux",
    "asianux",
    "l24",
    "l26",
    "crxpod",
];

impl GuestOs {
    /// Reads a name such as `windows9-64`, `windows2019srv_64Guest`, `win11`, `l26` or `http://microsoft.com/win/11`;
    /// `None` when it is none of ours.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        if let Some(rest) = name.strip_prefix("darwin") {
            return Some(Self::MacOs(leading_number(rest)));
        }
        if name.contains("apple.com/macos") || name.starts_with("macos") {
            return Some(Self::MacOs(0));
        }
        let name = name.replace("http://microsoft.com/win/", "win");
        if let Some(rest) = name.strip_prefix("windows").or(name.strip_prefix("win")) {
            return windows(rest);
        }
        if name.starts_with("longhorn") {
            return Some(Self::WindowsServer(2008));
        }
        LINUX
            .iter()
            .any(|part| name.contains(part))
            .then_some(Self::Linux)
    }
}

/// What follows `windows` or `win`: VMware numbers its guests by kernel generation up to `windows9` (Windows 10 and
/// Server 2016), libosinfo writes servers as `2k22`.
fn windows(rest: &str) -> Option<GuestOs> {
    if let Some(year) = rest.strip_prefix("2k") {
        let year = leading_number(year);
        let r2 = u32::from(rest.starts_with("2k8r2"));
        return (year > 0).then_some(GuestOs::WindowsServer(2000 + year + r2));
    }
    let number = leading_number(rest);
    if rest.contains("srv") || rest.contains("server") {
        return Some(GuestOs::WindowsServer(match number {
            7 => 2009,
            8 => 2012,
            9 => 2016,
            year if year >= 2016 => year,
            _ => 0,
        }));
    }
    match number {
        7 => Some(GuestOs::WindowsClient(7)),
        8 | 81 => Some(GuestOs::WindowsClient(8)),
        9 | 10 => Some(GuestOs::WindowsClient(10)),
        11 | 12 => Some(GuestOs::WindowsClient(11)),
        _ => None,
    }
}

/// The number a text starts with; 0 when it starts with none or is absurdly long.
fn leading_number(text: &str) -> u32 {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::GuestOs::{Linux, MacOs, WindowsClient, WindowsServer};
    use super::*;

    #[test]
    fn knows_the_names_of_every_format() {
        for (name, expected) in [
            ("windows9-64", Some(WindowsClient(10))),
            ("windows9_64Guest", Some(WindowsClient(10))),
            ("Windows10_64", Some(WindowsClient(10))),
            ("windows11-64", Some(WindowsClient(11))),
            ("win11", Some(WindowsClient(11))),
            ("win10", Some(WindowsClient(10))),
            ("http://microsoft.com/win/11", Some(WindowsClient(11))),
            ("http://microsoft.com/win/8.1", Some(WindowsClient(8))),
            ("windows7-64", Some(WindowsClient(7))),
            ("windows7srv-64", Some(WindowsServer(2009))),
            ("windows9Server64Guest", Some(WindowsServer(2016))),
            ("windows2019srv-64", Some(WindowsServer(2019))),
            ("windows2019srvNext-64", Some(WindowsServer(2019))),
            ("http://microsoft.com/win/2k22", Some(WindowsServer(2022))),
            ("win2k8r2", Some(WindowsServer(2009))),
            ("longhorn-64", Some(WindowsServer(2008))),
            ("darwin20-64", Some(MacOs(20))),
            ("http://apple.com/macosx/10.7", Some(MacOs(0))),
            ("l26", Some(Linux)),
            ("ubuntu-64", Some(Linux)),
            ("other5xlinux-64", Some(Linux)),
            ("http://redhat.com/rhel/9.0", Some(Linux)),
            ("http://fedoraproject.org/fedora/41", Some(Linux)),
            ("win2k", None),
            ("winxppro", None),
            ("freebsd13-64", None),
            ("", None),
            ("windows99999999999999999999", None),
        ] {
            assert_eq!(GuestOs::parse(name), expected, "{name:?}");
        }
    }
}
