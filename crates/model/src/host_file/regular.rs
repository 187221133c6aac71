//! `[geometry]`: a regular machine in numbers.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;

use super::schema::{GeometryTable, Number, Threads};
use super::{HostFileError, MAX_HOST_CPUS, MAX_LLCS, MAX_NODES};
use crate::cpuset::{CpuId, CpuSet};
use crate::firmware::{parts_of, share};
use crate::host::{Cache, Core, Host, Node, Parts};

/// Largest memory of a node or package: 1 EiB, so that sums of a whole machine stay within 64 bits.
pub(super) const MAX_MEMORY_MIB: i64 = 1 << 40;
/// Largest cache: 1 TiB.
const MAX_CACHE_KIB: i64 = 1 << 30;

/// The counts, checked, and how CPUs are numbered.
struct Counts {
    packages: u32,
    llcs: u32,
    cores_per_llc: u32,
    threads: u32,
    numbering: Threads,
}

/// The parts of the machine, without distances and latencies.
pub(super) fn parts(geometry: &Spanned<GeometryTable>) -> Result<Parts, HostFileError> {
    let table = geometry.get_ref();
    let counts = Counts::read(geometry)?;
    let mut parts = Parts {
        cpus: counts.cpus_of(0..counts.cores()),
        cores: counts
            .blocks(1)
            .map(|cpus| Core {
                cpus,
                efficiency: 0,
            })
            .collect(),
        packages: counts.blocks(counts.llcs * counts.cores_per_llc).collect(),
        caches: caches(table, &counts, geometry.span())?,
        ..Parts::default()
    };
    let host = Host::from_parts(parts.clone()).expect("blocks of one numbering do not overlap");
    let dies = count(
        "dies_per_package",
        table.dies_per_package.as_ref(),
        MAX_HOST_CPUS,
        Some(1),
    )?;
    if dies > 1 {
        let span = table.dies_per_package.as_ref().map(Spanned::span);
        parts.dies = divided(&host, "dies_per_package", dies, span)?
            .into_iter()
            .flatten()
            .collect();
    }
    let nodes = count(
        "nodes_per_package",
        table.nodes_per_package.as_ref(),
        MAX_NODES,
        Some(1),
    )?;
    let span = table.nodes_per_package.as_ref().map(Spanned::span);
    if counts.packages.saturating_mul(nodes) > MAX_NODES {
        let message = format!(
            "{} packages with {nodes} nodes each; a host file has at most {MAX_NODES} nodes",
            counts.packages
        );
        return Err(HostFileError::new(message, span.unwrap_or(geometry.span())));
    }
    let memory = match &table.memory_mib_per_package {
        Some(memory) => number("memory_mib_per_package", memory, 0..=MAX_MEMORY_MIB)?,
        None => 0,
    };
    let sets = divided(&host, "nodes_per_package", nodes, span)?;
    let with_memory = sets.into_iter().flat_map(|sets| (0..).zip(sets));
    parts.nodes = (0..)
        .zip(with_memory)
        .map(|(id, (index, cpus))| Node {
            id,
            cpus,
            memory_mib: share(memory, u64::from(nodes), index),
            hugepages: Vec::new(),
        })
        .collect();
    Ok(parts)
}

/// Nodes per package that the firmware offers.
pub(super) fn node_options(
    geometry: Option<&Spanned<GeometryTable>>,
) -> Result<Vec<u32>, HostFileError> {
    let Some(table) = geometry.map(Spanned::get_ref) else {
        return Ok(Vec::new());
    };
    let stated = table
        .nodes_per_package_options
        .as_deref()
        .unwrap_or_default();
    let one = |value| count("nodes_per_package_options", Some(value), MAX_NODES, None);
    let options: Vec<u32> = stated.iter().map(one).collect::<Result<_, _>>()?;
    let shipped = count(
        "nodes_per_package",
        table.nodes_per_package.as_ref(),
        MAX_NODES,
        Some(1),
    )?;
    match stated.first() {
        Some(first) if !options.contains(&shipped) => Err(HostFileError::new(
            format!(
                "`nodes_per_package_options` lacks {shipped}, which `nodes_per_package` is as shipped; add it"
            ),
            first.span(),
        )),
        _ => Ok(options),
    }
}

/// A number in a range.
pub(super) fn number(
    key: &str,
    value: &Number,
    range: RangeInclusive<i64>,
) -> Result<u64, HostFileError> {
    let found = *value.get_ref();
    u64::try_from(found)
        .ok()
        .filter(|_| range.contains(&found))
        .ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            HostFileError::new(
                format!("`{key}` is {found}; give a number from {least} to {most}"),
                value.span(),
            )
        })
}

/// A count of at least one, or its default. A count without default is required.
fn count(
    key: &str,
    value: Option<&Number>,
    most: u32,
    default: Option<u32>,
) -> Result<u32, HostFileError> {
    match (value, default) {
        (Some(value), _) => {
            let count = number(key, value, 1..=i64::from(most))?;
            Ok(u32::try_from(count).expect("the range ends below 2^32"))
        }
        (None, Some(default)) => Ok(default),
        (None, None) => Err(HostFileError::new(
            format!("[geometry] lacks `{key}`; give a number from 1 to {most}"),
            0..0,
        )),
    }
}

fn divided(
    host: &Host,
    key: &str,
    n: u32,
    span: Option<Range<usize>>,
) -> Result<Vec<Vec<CpuSet>>, HostFileError> {
    let parts: Option<_> = host
        .packages
        .iter()
        .map(|package| parts_of(host, &package.cpus, n))
        .collect();
    parts.ok_or_else(|| {
        let llcs = host.llcs.len() / host.packages.len();
        let cores = host.cores.len() / host.packages.len();
        let message = format!(
            "`{key}` is {n}, which does not divide the {llcs} last-level caches and {cores} cores of a package; \
             give a divisor, or describe the machine by sets"
        );
        HostFileError::new(message, span.unwrap_or(0..0))
    })
}

impl Counts {
    fn read(geometry: &Spanned<GeometryTable>) -> Result<Self, HostFileError> {
        let table = geometry.get_ref();
        let required = |key, value: Option<&Number>, most| {
            count(key, value, most, None).map_err(|error| HostFileError {
                span: if value.is_some() {
                    error.span
                } else {
                    geometry.span()
                },
                ..error
            })
        };
        let counts = Self {
            packages: required("packages", table.packages.as_ref(), MAX_NODES)?,
            llcs: required(
                "llcs_per_package",
                table.llcs_per_package.as_ref(),
                MAX_LLCS,
            )?,
            cores_per_llc: required("cores_per_llc", table.cores_per_llc.as_ref(), MAX_HOST_CPUS)?,
            threads: count(
                "threads_per_core",
                table.threads_per_core.as_ref(),
                64,
                Some(1),
            )?,
            numbering: table.threads.unwrap_or_default(),
        };
        let llcs = u64::from(counts.packages) * u64::from(counts.llcs);
        let cpus = llcs * u64::from(counts.cores_per_llc) * u64::from(counts.threads);
        for (found, what, most) in [
            (llcs, "last-level caches", MAX_LLCS),
            (cpus, "CPUs", MAX_HOST_CPUS),
        ] {
            if found > u64::from(most) {
                let message = format!(
                    "[geometry] multiplies to {found} {what}; a host file has at most {most}"
                );
                return Err(HostFileError::new(message, geometry.span()));
            }
        }
        Ok(counts)
    }

    fn cores(&self) -> u32 {
        self.packages * self.llcs * self.cores_per_llc
    }

    fn cpus_of(&self, cores: Range<u32>) -> CpuSet {
        let cpu = |core, thread| match self.numbering {
            Threads::Last => thread * self.cores() + core,
            Threads::Adjacent => core * self.threads + thread,
        };
        cores
            .flat_map(|core| (0..self.threads).map(move |thread| CpuId(cpu(core, thread))))
            .collect()
    }

    /// The CPUs of each `size` cores in order.
    fn blocks(&self, size: u32) -> impl Iterator<Item = CpuSet> + '_ {
        (0..self.cores() / size).map(move |block| self.cpus_of(block * size..(block + 1) * size))
    }
}

fn caches(
    table: &GeometryTable,
    counts: &Counts,
    span: Range<usize>,
) -> Result<Vec<Cache>, HostFileError> {
    let level = match &table.llc_level {
        Some(level) => number("llc_level", level, 2..=3)?,
        None => 3,
    };
    if let (2, Some(l2)) = (level, &table.l2_kib) {
        let message =
            "`l2_kib` beside `llc_level` = 2: the last-level cache is the L2; leave `l2_kib` out";
        return Err(HostFileError::new(message, l2.span()));
    }
    if level == 2 && counts.cores_per_llc == 1 {
        let message = "`llc_level` = 2 with one core: a private L2 is no last-level cache; describe the machine by sets";
        return Err(HostFileError::new(message, span));
    }
    let mut caches = Vec::new();
    for (key, value, level, kind) in [
        ("l1d_kib", &table.l1d_kib, 1, 'd'),
        ("l1i_kib", &table.l1i_kib, 1, 'i'),
        ("l2_kib", &table.l2_kib, 2, 'u'),
    ] {
        if let Some(value) = value {
            let size_bytes = number(key, value, 1..=MAX_CACHE_KIB)? << 10;
            caches.extend(counts.blocks(1).map(|cpus| Cache {
                level,
                kind,
                size_bytes,
                cpus,
            }));
        }
    }
    let sizes = llc_sizes(table, counts, span)?;
    let llcs = counts
        .blocks(counts.cores_per_llc)
        .zip(sizes.iter().cycle());
    caches.extend(llcs.map(|(cpus, &size_bytes)| Cache {
        level: if level == 2 { 2 } else { 3 },
        kind: 'u',
        size_bytes,
        cpus,
    }));
    Ok(caches)
}

/// Sizes of the last-level caches of one package, in order; one entry stands for all.
fn llc_sizes(
    table: &GeometryTable,
    counts: &Counts,
    span: Range<usize>,
) -> Result<Vec<u64>, HostFileError> {
    match (&table.llc_mib, &table.llc_mib_each) {
        (Some(size), None) => Ok(vec![mib("llc_mib", size)?]),
        (None, Some(sizes)) if sizes.len() == counts.llcs as usize => {
            sizes.iter().map(|size| mib("llc_mib_each", size)).collect()
        }
        (None, Some(sizes)) => Err(HostFileError::new(
            format!(
                "`llc_mib_each` has {} sizes for {} last-level caches per package; give one each",
                sizes.len(),
                counts.llcs
            ),
            sizes.first().map_or(span, Spanned::span),
        )),
        _ => Err(HostFileError::new(
            "[geometry] needs either `llc_mib` (one size for all) or `llc_mib_each` (a list per package)",
            span,
        )),
    }
}

/// Bytes of a size in MiB, which may have a fraction (19.25, 35.75).
fn mib(key: &str, size: &Spanned<f64>) -> Result<u64, HostFileError> {
    let mib = *size.get_ref();
    if !(mib > 0.0 && mib <= 1_048_576.0) {
        let message = format!("`{key}` is {mib}; give a size in MiB above 0 and up to 1048576");
        return Err(HostFileError::new(message, size.span()));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 2^40, checked above"
    )]
    let bytes = (mib * 1_048_576.0).round() as u64;
    Ok(bytes)
}
