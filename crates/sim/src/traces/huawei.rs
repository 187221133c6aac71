//! Huawei-East-1: `vmid,cpu,memory,time,type`, cores, GB and seconds; type 0 creates a VM, 1 deletes it. The columns are those
//! of the data set's own description.

use std::collections::HashMap;

use model::finding::Severity;

use super::number::{memory_mib, milli_cpus, number, shown, time};
use super::table::{Header, Splitter};
use super::{Done, Draft, TraceVm};

pub(super) const COLUMNS: [&str; 5] = ["vmid", "cpu", "memory", "time", "type"];
/// The description says GB; memory of machines is sold in GiB, and sizes are powers of two.
const MIB_IN_GB: f64 = 1024.0;

#[derive(Debug, Default)]
pub(super) struct Reader {
    splitter: Splitter,
    header: Option<Header>,
    /// By `vmid`: the VM that runs. Looked up only.
    running: HashMap<u64, usize>,
}

impl Reader {
    /// The next file has a header of its own.
    pub(super) fn begin_file(&mut self) {
        self.header = None;
    }

    pub(super) fn line(&mut self, line: &str, draft: &mut Draft) -> Done {
        if !self.splitter.split(line)? {
            return Ok(());
        }
        let Some(header) = &self.header else {
            self.header = Some(Header::read(&self.splitter, &COLUMNS, COLUMNS.len())?);
            return Ok(());
        };
        header.check_row(&self.splitter)?;
        let [id, cpus, memory, at, event] =
            [0, 1, 2, 3, 4].map(|column| header.field(&self.splitter, column));
        let id: u64 = id
            .parse()
            .map_err(|_| format!("vmid is '{}', which is no whole number", shown(id)))?;
        let at_ns = time(at, 1.0, "time")?;
        match event {
            "0" => {
                if let Some(&vm) = self.running.get(&id) {
                    let since = draft.vms[vm].on_ns;
                    return Err(format!(
                        "VM {id} is created again, and runs since {since} ns"
                    ));
                }
                let vm = draft.push(TraceVm {
                    name: id.to_string(),
                    on_ns: at_ns,
                    milli_cpus: milli_cpus(number(cpus, "cpu")?, "cpu")?,
                    memory_mib: memory_mib(number(memory, "memory")? * MIB_IN_GB, "memory")?,
                    ..TraceVm::default()
                })?;
                self.running.insert(id, vm);
            }
            "1" => delete(self.running.remove(&id), id, at_ns, draft)?,
            _ => {
                return Err(format!(
                    "type is '{}'; 0 creates a VM, 1 deletes it",
                    shown(event)
                ));
            }
        }
        Ok(())
    }

    pub(super) fn end(self, _: &mut Draft) -> Done {
        match self.header {
            Some(_) => Ok(()),
            None => Err(format!("there is no header {}", COLUMNS.join(","))),
        }
    }
}

fn delete(vm: Option<usize>, id: u64, at_ns: i64, draft: &mut Draft) -> Done {
    let Some(vm) = vm else {
        draft.note("deleted-unknown", Severity::Info, || {
            "a VM is deleted that was never created; the line is left out".to_owned()
        });
        return Ok(());
    };
    let vm = &mut draft.vms[vm];
    if at_ns < vm.on_ns {
        return Err(format!(
            "VM {id} is deleted at {at_ns} ns, before it was created at {} ns",
            vm.on_ns
        ));
    }
    vm.off_ns = Some(at_ns);
    Ok(())
}
