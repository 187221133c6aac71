//! `[distances]` and `[latency_ns]`: numbers by relation, expanded to matrices.

use std::ops::Range;

use toml::Spanned;

use super::regular::number;
use super::schema::{DistancesTable, Evidence, FigureTable, File, LatencyTable};
use super::{Figure, HostFileError};
use crate::host::{Host, Latency, NodeId, PackageId};

/// Largest latency: a second.
const MAX_NS: f64 = 1e9;

/// The distance matrix of the host; empty when the file has no `[distances]`.
pub(super) fn distances(file: &File, host: &Host) -> Result<Vec<Vec<u32>>, HostFileError> {
    let Some(spanned) = &file.distances else {
        return Ok(Vec::new());
    };
    let DistancesTable {
        same_package,
        cross_package,
        matrix,
    } = spanned.get_ref();
    if let Some(matrix) = matrix {
        check_size(matrix, host.nodes.len(), ("matrix", "node"), spanned.span())?;
        return Ok(matrix.clone());
    }
    let value = |key, value: &Option<Spanned<i64>>| {
        value
            .as_ref()
            .map(|value| number(key, value, 10..=255))
            .transpose()
    };
    let (near, far) = (
        value("same_package", same_package)?,
        value("cross_package", cross_package)?,
    );
    let fail = |message: String| HostFileError::new(message, spanned.span());
    let package = |id: u32| {
        host.package_of_node(NodeId(id)).ok_or_else(|| {
            fail(format!(
                "node {id} has no CPUs and so no package; give [distances] as `matrix`"
            ))
        })
    };
    let packages: Vec<PackageId> = (0..)
        .take(host.nodes.len())
        .map(package)
        .collect::<Result<_, _>>()?;
    let distance = |from: usize, to: usize| {
        let (key, value) = match (from == to, packages[from] == packages[to]) {
            (true, _) => return Ok(10),
            (_, true) => ("same_package", near),
            (_, false) => ("cross_package", far),
        };
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| fail(format!("[distances] lacks `{key}`; give it or `matrix`")))
    };
    let all = 0..packages.len();
    all.clone()
        .map(|from| all.clone().map(|to| distance(from, to)).collect())
        .collect()
}

/// The latencies of the host, where the file has `[latency_ns]`. The matrix stays empty where a relation that the host
/// has is not stated.
pub(super) fn latency(file: &File, host: &Host) -> Result<Option<Latency>, HostFileError> {
    let Some(spanned) = &file.latency_ns else {
        return Ok(None);
    };
    let table = spanned.get_ref();
    let figures = stated_tables(table);
    for (key, figure) in &figures {
        check_ns(key, *figure.ns.get_ref(), figure.ns.span())?;
    }
    let llc_ns = match &table.llc_matrix {
        Some(matrix) => {
            check_size(
                matrix,
                host.llcs.len(),
                ("llc_matrix", "last-level cache"),
                spanned.span(),
            )?;
            for &ns in matrix.iter().flatten() {
                check_ns("llc_matrix", ns, spanned.span())?;
            }
            matrix.clone()
        }
        None => expanded(table, host, llcs_per_quadrant(file)?).unwrap_or_default(),
    };
    Ok(Some(Latency {
        llc_ns,
        smt_ns: ns(table.smt.as_ref()),
        home_remote_ns: ns(table.home_remote.as_ref()),
        dram_local_ns: ns(table.dram_local.as_ref()),
        dram_remote_ns: ns(table.dram_remote.as_ref()),
        measured_here: table.measured_here.unwrap_or(false),
        source: table
            .source
            .clone()
            .unwrap_or_else(|| sources(figures.into_iter().map(origin))),
    }))
}

/// The figures as stated, in the order of the table.
pub(super) fn stated(table: &LatencyTable) -> Vec<Figure> {
    let tables = stated_tables(table).into_iter();
    tables
        .map(|(key, figure)| Figure {
            key,
            ns: *figure.ns.get_ref(),
            range: figure.range,
            evidence: figure.evidence,
            source: figure.source.clone().unwrap_or_default(),
        })
        .collect()
}

fn stated_tables(table: &LatencyTable) -> Vec<(&'static str, &FigureTable)> {
    let all = [
        ("smt", &table.smt),
        ("same_llc", &table.same_llc),
        ("same_quadrant", &table.same_quadrant),
        ("same_package", &table.same_package),
        ("cross_package", &table.cross_package),
        ("home_remote", &table.home_remote),
        ("dram_local", &table.dram_local),
        ("dram_remote", &table.dram_remote),
    ];
    all.into_iter()
        .filter_map(|(key, figure)| Some((key, figure.as_ref()?)))
        .collect()
}

fn ns(figure: Option<&FigureTable>) -> Option<f64> {
    figure.map(|figure| *figure.ns.get_ref())
}

fn check_ns(key: &str, ns: f64, span: Range<usize>) -> Result<(), HostFileError> {
    if (0.0..=MAX_NS).contains(&ns) {
        return Ok(());
    }
    Err(HostFileError::new(
        format!("`{key}` is {ns}; give nanoseconds from 0 to {MAX_NS}"),
        span,
    ))
}

fn check_size<T>(
    matrix: &[Vec<T>],
    size: usize,
    (key, per): (&str, &str),
    span: Range<usize>,
) -> Result<(), HostFileError> {
    if matrix.len() == size && matrix.iter().all(|row| row.len() == size) {
        return Ok(());
    }
    let message = format!("`{key}` is not {size} x {size}; give one row and one column per {per}");
    Err(HostFileError::new(message, span))
}

fn llcs_per_quadrant(file: &File) -> Result<Option<usize>, HostFileError> {
    let key = file
        .geometry
        .as_ref()
        .and_then(|geometry| geometry.get_ref().llcs_per_quadrant.as_ref());
    let count = key
        .map(|value| number("llcs_per_quadrant", value, 1..=i64::from(super::MAX_LLCS)))
        .transpose()?;
    Ok(count.and_then(|count| usize::try_from(count).ok()))
}

/// Core-to-core latency by pair of LLCs; `None` where a relation is not stated.
fn expanded(
    table: &LatencyTable,
    host: &Host,
    llcs_per_quadrant: Option<usize>,
) -> Option<Vec<Vec<f64>>> {
    let same_package = ns(table.same_package.as_ref());
    let same_quadrant = ns(table.same_quadrant.as_ref()).or(same_package);
    let (same_llc, cross_package) = (
        ns(table.same_llc.as_ref()),
        ns(table.cross_package.as_ref()),
    );
    let places: Vec<(PackageId, Option<usize>)> = places(host, llcs_per_quadrant);
    let pair = |from: usize, to: usize| {
        let ((package, quadrant), (other_package, other_quadrant)) = (places[from], places[to]);
        if from == to {
            same_llc
        } else if package != other_package {
            cross_package
        } else if quadrant.is_some() && quadrant == other_quadrant {
            same_quadrant
        } else {
            same_package
        }
    };
    let all = 0..places.len();
    all.clone()
        .map(|from| all.clone().map(|to| pair(from, to)).collect())
        .collect()
}

/// Package and quadrant of each LLC; quadrants are counted within the package.
fn places(host: &Host, llcs_per_quadrant: Option<usize>) -> Vec<(PackageId, Option<usize>)> {
    let mut seen = vec![0; host.packages.len()];
    let packages = host.llcs.iter().map(|llc| {
        let first = llc.cpus.first().and_then(|first| host.cpu(first));
        first.map_or(PackageId(0), |cpu| cpu.package)
    });
    packages
        .map(|package| {
            let index = seen[package.index()];
            seen[package.index()] += 1;
            (package, llcs_per_quadrant.map(|size| index / size))
        })
        .collect()
}

/// Key, evidence and source of a figure.
pub(super) type Origin<'a> = (&'static str, Option<Evidence>, Option<&'a str>);

fn origin<'a>((key, figure): (&'static str, &'a FigureTable)) -> Origin<'a> {
    (key, figure.evidence, figure.source.as_deref())
}

/// One line for all figures: each source once, with its evidence and the keys it stands for.
pub(super) fn sources<'a>(figures: impl Iterator<Item = Origin<'a>>) -> String {
    let mut known: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, evidence, source) in figures {
        let evidence = evidence
            .map(|evidence| format!("{evidence}: "))
            .unwrap_or_default();
        let source = format!("{evidence}{}", source.unwrap_or_default());
        if source.is_empty() {
            continue;
        }
        match known.iter_mut().find(|(text, _)| *text == source) {
            Some((_, keys)) => keys.push(key),
            None => known.push((source, vec![key])),
        }
    }
    let texts: Vec<String> = known
        .iter()
        .map(|(source, keys)| format!("{source} ({})", keys.join(", ")))
        .collect();
    texts.join("; ")
}
