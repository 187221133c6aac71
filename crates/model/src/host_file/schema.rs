//! The tables of a host file, as serde sees them. Numbers are signed here, so that a wrong one is reported with its key
//! and the range it should be in; optional keys are left out when written.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// A number with its place, to be checked before use.
pub(super) type Number = Spanned<i64>;
/// CPU sets such as `"0-3,8"` with their places.
pub(super) type Sets = Vec<Spanned<String>>;

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(super) $field: Option<$type>,
            )*
        }
    };
}

table!(
    /// A whole file.
    File {
        processor: ProcessorTable,
        geometry: Spanned<GeometryTable>,
        sets: Spanned<SetsTable>,
        node: Vec<Spanned<NodeTable>>,
        cache: Vec<Spanned<CacheTable>>,
        device: Vec<DeviceTable>,
        distances: Spanned<DistancesTable>,
        latency_ns: Spanned<LatencyTable>,
        bandwidth_gbs: Spanned<BandwidthTable>,
        source: Vec<Source>,
    }
);

table!(
    /// The processor.
    ProcessorTable {
        vendor: VendorName,
        model: String,
        family: u32,
        model_number: u32,
    }
);

table!(
    /// A regular machine in numbers.
    GeometryTable {
        packages: Number,
        dies_per_package: Number,
        llcs_per_package: Number,
        cores_per_llc: Number,
        threads_per_core: Number,
        threads: Threads,
        nodes_per_package: Number,
        nodes_per_package_options: Vec<Number>,
        llcs_per_quadrant: Number,
        llc_mib: Spanned<f64>,
        llc_mib_each: Vec<Spanned<f64>>,
        llc_level: Number,
        l1d_kib: Number,
        l1i_kib: Number,
        l2_kib: Number,
        memory_mib_per_package: Number,
        memory_evidence: String,
    }
);

table!(
    /// Any machine in CPU sets.
    SetsTable {
        cpus: Spanned<String>,
        cores: Sets,
        core_kinds: Vec<CoreKind>,
        dies: Sets,
        packages: Sets,
        offline: Spanned<String>,
        restricted: Spanned<String>,
        isolated: Spanned<String>,
    }
);

table!(
    /// A NUMA node.
    NodeTable {
        id: Number,
        cpus: Spanned<String>,
        memory_mib: Number,
        hugepages: Vec<PoolTable>,
    }
);

table!(
    /// SLIT distances: by relation, or all.
    DistancesTable {
        same_package: Number,
        cross_package: Number,
        matrix: Vec<Vec<u32>>,
    }
);

table!(
    /// Latencies: by relation, or the whole matrix.
    LatencyTable {
        smt: FigureTable,
        same_llc: FigureTable,
        same_quadrant: FigureTable,
        same_package: FigureTable,
        cross_package: FigureTable,
        home_remote: FigureTable,
        dram_local: FigureTable,
        dram_remote: FigureTable,
        llc_matrix: Vec<Vec<f64>>,
        measured_here: bool,
        source: String,
    }
);

table!(
    /// Memory bandwidth.
    BandwidthTable {
        package: RateTable,
        llc_link: RateTable,
        source: String,
    }
);

/// Cores of one kind on a hybrid processor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreKind {
    pub(super) cpus: Spanned<String>,
    pub(super) efficiency: u8,
}

/// Caches of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheTable {
    pub(super) level: u8,
    pub(super) kind: char,
    pub(super) size_bytes: Number,
    pub(super) cpus: Sets,
}

/// A pool of hugepages.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolTable {
    pub(super) size_kib: Number,
    pub(super) total: Number,
    pub(super) free: Number,
}

/// A PCI device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceTable {
    pub(super) address: String,
    pub(super) class: String,
    #[serde(default)]
    pub(super) os_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<u32>,
}

/// A latency.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureTable {
    pub(super) ns: Spanned<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
}

/// A bandwidth.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateTable {
    pub(super) gbs: Spanned<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
}

/// Where a part of a host file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The part.
    pub what: String,
    /// Book, page, data set or measurement.
    pub r#where: String,
}

/// How well a figure is known, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Evidence {
    /// Measured on this model, data public.
    M,
    /// Measured on a sibling model, data public.
    #[serde(rename = "M-sibling")]
    MSibling,
    /// On a cited page.
    L,
    /// General knowledge, not verified.
    G,
    /// An estimate.
    E,
}

/// Who made the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VendorName {
    Amd,
    Intel,
    Other,
}

/// How the threads of a core are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Threads {
    /// After all first threads.
    #[default]
    Last,
    /// Next to each other.
    Adjacent,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::M => "M",
            Self::MSibling => "M-sibling",
            Self::L => "L",
            Self::G => "G",
            Self::E => "E",
        })
    }
}
