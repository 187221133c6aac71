//! `[bandwidth_gbs]`: what memory and its links carry.

use toml::Spanned;

use super::HostFileError;
use super::figures::{Origin, sources};
use super::schema::{BandwidthTable, File, RateTable};
use crate::host::Bandwidth;

/// Smallest bandwidth that is not 0 MB/s.
const MIN_GBS: f64 = 0.001;
/// Largest bandwidth: a petabyte a second, about a thousand times a package of today.
const MAX_GBS: f64 = 1e6;

/// The bandwidth of the host, where the file has `[bandwidth_gbs]`.
pub(super) fn read(file: &File) -> Result<Option<Bandwidth>, HostFileError> {
    let Some(spanned) = &file.bandwidth_gbs else {
        return Ok(None);
    };
    let table = spanned.get_ref();
    let Some(package) = &table.package else {
        let message = "[bandwidth_gbs] lacks `package`, the peak of one package's memory; give it or leave the table out";
        return Err(HostFileError::new(message, spanned.span()));
    };
    let llc_link = table.llc_link.as_ref();
    let origins = [("package", Some(package)), ("llc_link", llc_link)].into_iter();
    Ok(Some(Bandwidth {
        package_mbs: mbs("package", package)?,
        llc_link_mbs: llc_link.map_or(Ok(0), |rate| mbs("llc_link", rate))?,
        source: table
            .source
            .clone()
            .unwrap_or_else(|| sources(origins.filter_map(|(key, rate)| Some(origin(key, rate?))))),
    }))
}

/// The table of a bandwidth.
pub(super) fn table(bandwidth: &Bandwidth) -> BandwidthTable {
    let rate = |mbs: u64| RateTable {
        gbs: Spanned::new(0..0, gbs(mbs)),
        evidence: None,
        source: None,
    };
    BandwidthTable {
        package: Some(rate(bandwidth.package_mbs)),
        llc_link: (bandwidth.llc_link_mbs > 0).then(|| rate(bandwidth.llc_link_mbs)),
        source: Some(bandwidth.source.clone()),
    }
}

fn origin<'a>(key: &'static str, rate: &'a RateTable) -> Origin<'a> {
    (key, rate.evidence, rate.source.as_deref())
}

fn mbs(key: &str, rate: &RateTable) -> Result<u64, HostFileError> {
    let gbs = *rate.gbs.get_ref();
    if !(MIN_GBS..=MAX_GBS).contains(&gbs) {
        let message = format!(
            "`{key}` is {gbs}; give GB/s (10^9 bytes a second) from {MIN_GBS} to {MAX_GBS}"
        );
        return Err(HostFileError::new(message, rate.gbs.span()));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to 10^9, checked above"
    )]
    let mbs = (gbs * 1000.0).round() as u64;
    Ok(mbs)
}

/// In GB/s; what is beyond the limits of host files comes out beyond them.
fn gbs(mbs: u64) -> f64 {
    f64::from(u32::try_from(mbs).unwrap_or(u32::MAX)) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::{read, write};
    use crate::host::{Bandwidth, Host, Parts};

    const SMALL: &str =
        "[geometry]\npackages = 2\nllcs_per_package = 4\ncores_per_llc = 2\nllc_mib = 16\n";

    fn bandwidth(package_mbs: u64, llc_link_mbs: u64, source: &str) -> Bandwidth {
        Bandwidth {
            package_mbs,
            llc_link_mbs,
            source: source.into(),
        }
    }

    #[test]
    fn reads_what_is_stated() {
        for (table, expected) in [
            ("", None),
            (
                "[bandwidth_gbs]\npackage = { gbs = 204.8 }",
                Some(bandwidth(204_800, 0, "")),
            ),
            (
                "[bandwidth_gbs]\npackage = { gbs = 576, evidence = \"L\", source = \"page\" }\n\
                 llc_link = { gbs = 51.2, evidence = \"G\", source = \"guess\" }",
                Some(bandwidth(
                    576_000,
                    51_200,
                    "L: page (package); G: guess (llc_link)",
                )),
            ),
            (
                "[bandwidth_gbs]\nsource = \"probe\"\npackage = { gbs = 0.001, evidence = \"M\" }\n\
                 llc_link = { gbs = 1e6 }",
                Some(bandwidth(1, 1_000_000_000, "probe")),
            ),
        ] {
            let host = read("small", &format!("{SMALL}{table}")).expect(table);
            assert_eq!(host.bandwidth, expected, "{table}");
            assert_eq!(read("small", &write(&host)), Ok(host), "{table}");
        }
    }

    #[test]
    fn shows_what_is_wrong_and_where() {
        let out_of_range = |key: &str, gbs: &str| {
            format!("`{key}` is {gbs}; give GB/s (10^9 bytes a second) from 0.001 to 1000000")
        };
        for (rows, message, at) in [
            (
                "llc_link = { gbs = 51.2 }",
                "[bandwidth_gbs] lacks `package`".into(),
                "[bandwidth_gbs]",
            ),
            ("package = { gbs = 0 }", out_of_range("package", "0"), "0"),
            (
                "package = { gbs = -4 }",
                out_of_range("package", "-4"),
                "-4",
            ),
            (
                "package = { gbs = nan }",
                out_of_range("package", "NaN"),
                "nan",
            ),
            (
                "package = { gbs = 204_800_000 }",
                out_of_range("package", "204800000"),
                "204_800_000",
            ),
            (
                "package = { gbs = 9 }\nllc_link = { gbs = 0.0 }",
                out_of_range("llc_link", "0"),
                "0.0",
            ),
            (
                "package = { ns = 4 }",
                "`package`: unknown field `ns`, expected one of `gbs`".into(),
                "ns",
            ),
            (
                "package = { source = \"page\" }",
                "`package`: missing field `gbs`".into(),
                "{ source",
            ),
            (
                "node = { gbs = 4 }",
                "unknown field `node`, expected one of `package`".into(),
                "node",
            ),
        ] {
            let text = format!("{SMALL}[bandwidth_gbs]\n{rows}\n");
            let error = read("small", &text).expect_err(rows);
            assert!(error.message.contains(&message), "{}", error.message);
            let found = &text[error.span];
            assert!(found.starts_with(at), "{rows}: points at {found:?}");
        }
    }

    /// What a machine beyond the limits writes is refused when read, not changed.
    #[test]
    fn nothing_beyond_the_limits_is_read_back_as_something_else() {
        for package_mbs in [1_000_000_001, u64::from(u32::MAX), u64::MAX] {
            let parts = Parts {
                cpus: "0-3".parse().unwrap(),
                bandwidth: Some(bandwidth(package_mbs, 0, "")),
                ..Parts::default()
            };
            let text = write(&Host::from_parts(parts).unwrap());
            let error = read("large", &text).expect_err(&text);
            assert!(error.message.contains("`package` is"), "{}", error.message);
        }
    }

    /// Presets of each kind, and the marks of what nobody verified.
    #[test]
    fn presets_have_the_bandwidth_of_their_machine() {
        for (text, package_mbs, llc_link_mbs, marks) in [
            (
                include_str!("../../../../machines/epyc-7702-2s.toml"),
                204_800,
                25_600,
                ["L: 8 channels", "; G: reading"],
            ),
            (
                include_str!("../../../../machines/epyc-7763-1s.toml"),
                204_800,
                51_200,
                ["G: 8 channels", "; G: reading"],
            ),
            (
                include_str!("../../../../machines/epyc-9654-2s.toml"),
                460_800,
                0,
                ["G: 12 channels", "(package)"],
            ),
            (
                include_str!("../../../../machines/opteron-6174-4s.toml"),
                42_700,
                0,
                ["L: 4 channels", "28.8"],
            ),
            (
                include_str!("../../../../machines/xeon-e5355-2s.toml"),
                10_700,
                0,
                ["G: one front-side bus", "21.3"],
            ),
        ] {
            let known = read("preset", text).unwrap().bandwidth.unwrap();
            assert_eq!(
                (known.package_mbs, known.llc_link_mbs),
                (package_mbs, llc_link_mbs)
            );
            for mark in marks {
                assert!(known.source.contains(mark), "{}", known.source);
            }
        }
    }
}
