//! Dense tables of a host.

use model::Host;
use model::host::LlcId;

/// Tables.
#[derive(Debug, Clone)]
pub struct Fabric {
    packages: Vec<u32>,
}

impl Fabric {
    /// The tables of a host.
    pub fn new(host: &Host) -> Self {
        let package = |llc: &model::host::Llc| {
            llc.cpus
                .first()
                .and_then(|cpu| host.cpu(cpu))
                .map_or(0, |cpu| cpu.package.0)
        };
        Self {
            packages: host.llcs.iter().map(package).collect(),
        }
    }

    /// 0 same LLC, 1 quadrant, 2 package, 3 other.
    pub fn distance_class(&self, a: LlcId, b: LlcId) -> u8 {
        if a == b {
            0
        } else if self.packages[a.index()] == self.packages[b.index()] {
            2
        } else {
            3
        }
    }
}
