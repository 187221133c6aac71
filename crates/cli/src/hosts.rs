//! From what was typed for a host to a [`Host`].

use std::path::Path;

use include_dir::{Dir, include_dir};
use live::discover;
use model::Host;
use model::firmware::{self, Firmware};
use model::host_file;

use crate::args::{FirmwareArgs, OnOff};
use crate::failure::Failure;
use crate::files;

static PRESETS: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../machines");

/// The host that was typed, with its firmware what-ifs applied.
///
/// # Errors
/// No such preset or file, a file that is no host, a what-if that does not go with the host.
pub(crate) fn host(text: &str, what_ifs: &FirmwareArgs) -> Result<Host, Failure> {
    let host = resolve(text)?;
    let firmware = Firmware {
        nps: what_ifs.nps,
        ccx_as_numa: what_ifs.ccx_as_numa,
        snc: what_ifs.snc,
        smt_off: what_ifs.smt == Some(OnOff::Off),
        node_interleaving: what_ifs.node_interleaving,
    };
    firmware::apply(&host, &firmware).map_err(|error| Failure::new(error.to_string()))
}

/// `HOST`, or `HOST*COUNT,HOST*COUNT`; together at most so many hosts. Without a text it is this machine.
///
/// # Errors
/// What is no host, no number of hosts, or too many.
pub(crate) fn fleet(
    texts: &[String],
    most: u32,
    what_ifs: &FirmwareArgs,
) -> Result<Vec<(Host, u32)>, Failure> {
    if texts.is_empty() {
        return Ok(vec![(host("live", what_ifs)?, 1)]);
    }
    let mut found: Vec<(Host, u32)> = Vec::new();
    for text in texts {
        // A file may have any name.
        if Path::new(text).exists() {
            found.push((host(text, what_ifs)?, 1));
            continue;
        }
        for part in text.split(',') {
            let (name, count) = match part.rsplit_once('*') {
                Some((name, count)) => (name.trim(), number_of_hosts(count.trim(), most)?),
                None => (part.trim(), 1),
            };
            found.push((host(name, what_ifs)?, count));
        }
    }
    let total: u64 = found.iter().map(|(_, count)| u64::from(*count)).sum();
    if total > u64::from(most) {
        return Err(Failure::new(format!(
            "{total} hosts are asked for; vtopo plans at most {most} at once"
        )));
    }
    found.retain(|(_, count)| *count > 0);
    Ok(found)
}

/// Names of the presets, sorted.
pub(crate) fn preset_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = PRESETS
        .files()
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|extension| extension == "toml")
        })
        .filter_map(|file| file.path().file_stem()?.to_str())
        .collect();
    names.sort_unstable();
    names
}

/// A preset by name.
pub(crate) fn preset(name: &str) -> Option<Result<Host, Failure>> {
    let text = PRESETS.get_file(format!("{name}.toml"))?.contents_utf8()?;
    Some(read_toml(name, &format!("preset {name}"), text))
}

fn number_of_hosts(text: &str, most: u32) -> Result<u32, Failure> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { None };
    number.filter(|&number| number <= most).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        Failure::new(format!("{shown:?} is no number of hosts")).help(format!(
            "write HOST*COUNT with 0 to {most}, several with commas between"
        ))
    })
}

fn resolve(text: &str) -> Result<Host, Failure> {
    if text == "live" {
        return discover::this_system().map_err(|error| Failure::new(error.to_string()));
    }
    if let Some(host) = preset(text) {
        return host;
    }
    let path = Path::new(text);
    if text == "-" || path.exists() {
        return read_file(path);
    }
    // A synthetic text has `type:count` words; a path may have a colon, but then it has a slash or a suffix, too.
    if text
        .split_whitespace()
        .all(|word| word.contains(':') || word.starts_with('[') || word.starts_with('('))
        && !text.contains('/')
        && !text.trim().is_empty()
    {
        return discover::from_synthetic(text).map_err(|error| Failure::new(error.to_string()));
    }
    Err(unknown(text))
}

fn read_file(path: &Path) -> Result<Host, Failure> {
    let text = files::read_text(path, discover::MAX_XML_BYTES)?;
    let shown = path.display().to_string();
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("host");
    if text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('<')
    {
        let failed = |error: discover::DiscoverError| Failure::new(format!("{shown}: {error}"));
        return discover::from_xml(stem, &text).map_err(failed);
    }
    read_toml(stem, &shown, &text)
}

fn read_toml(name: &str, shown: &str, text: &str) -> Result<Host, Failure> {
    host_file::read(name, text).map_err(|error| {
        Failure::new(format!("{shown} is no host file: {}", error.message))
            .help("a host is an hwloc XML (`lstopo host.xml`) or a TOML file as docs/host-file.md describes it")
            .at(shown, text, error.span)
    })
}

fn unknown(text: &str) -> Failure {
    let names = preset_names();
    let distance = |name: &&&str| strsim::damerau_levenshtein(&text.to_lowercase(), name);
    let nearest = names
        .iter()
        .min_by_key(distance)
        .filter(|name| distance(name) <= text.len().max(6) / 2);
    let shown: String = text.chars().take(100).collect();
    let failure = Failure::new(format!("there is no preset and no file called {shown:?}"));
    match nearest {
        Some(nearest) => failure.help(format!("did you mean `{nearest}`? `vtopo host --list` shows all presets")),
        None => failure.help("give `live`, a file, a preset (`vtopo host --list`) or a text like \"pack:2 l3:8 core:4 pu:2\""),
    }
}
