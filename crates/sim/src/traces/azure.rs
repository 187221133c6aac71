//! The Azure trace for packing of 2020: tables `vm` and `vmType` as CSV with headers, in any order. Times are days, sizes
//! fractions of a machine. The columns are those of the data set's own description; the subset that `DSLab`'s reader takes
//! (`vmId,vmTypeId,starttime,endtime` and `id,vmTypeId,core,memory`) is read as well.

use std::collections::BTreeMap;

use model::finding::Severity;

use super::number::{memory_mib, milli_cpus, number, shown, time};
use super::table::{Header, Splitter};
use super::{Done, Draft, Options, Size, TraceVm};

pub(super) const VM: [&str; 6] = [
    "vmId",
    "vmTypeId",
    "starttime",
    "endtime",
    "tenantId",
    "priority",
];
/// Columns of `vm` that must be there.
const VM_NEEDED: usize = 4;
pub(super) const VM_TYPE: [&str; 8] = [
    "vmTypeId",
    "core",
    "memory",
    "machineId",
    "id",
    "hdd",
    "ssd",
    "nic",
];
const VM_TYPE_NEEDED: usize = 3;
const MACHINE_ID: usize = 3;
/// Types and machines together; ours. The data set has some thousand rows.
const MAX_ROWS: usize = 1_000_000;
const DAY_S: f64 = 86_400.0;

#[derive(Debug)]
pub(super) struct Reader {
    splitter: Splitter,
    table: Table,
    machine: Size,
    machine_id: Option<String>,
    types: BTreeMap<String, usize>,
    /// By type: where it was met first, and its sizes.
    defined: Vec<Defined>,
    rows: usize,
    /// By VM of the draft: its type.
    type_of: Vec<usize>,
}

#[derive(Debug)]
enum Table {
    None,
    Vm(Header),
    VmType(Header),
}

#[derive(Debug)]
struct Defined {
    name: String,
    first_line: u64,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    machine: String,
    core: f64,
    memory: f64,
}

impl Reader {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            splitter: Splitter::default(),
            table: Table::None,
            machine: options.machine,
            machine_id: options.machine_id.clone(),
            types: BTreeMap::new(),
            defined: Vec::new(),
            rows: 0,
            type_of: Vec::new(),
        }
    }

    /// The next file has a header of its own.
    pub(super) fn begin_file(&mut self) {
        self.table = Table::None;
    }

    pub(super) fn line(&mut self, line: &str, draft: &mut Draft) -> Done {
        if !self.splitter.split(line)? {
            return Ok(());
        }
        if let Some(table) = header(&self.splitter)? {
            self.table = table;
            return Ok(());
        }
        match &self.table {
            Table::Vm(header) => {
                header.check_row(&self.splitter)?;
                let Some((name, vm)) = vm(header, &self.splitter, draft)? else {
                    return Ok(());
                };
                let kind = self.type_named(&name, draft.line);
                draft.push(vm)?;
                self.type_of.push(kind);
            }
            Table::VmType(header) => {
                header.check_row(&self.splitter)?;
                let name = header.field(&self.splitter, 0).to_owned();
                let row = row(header, &self.splitter)?;
                if self.rows == MAX_ROWS {
                    return Err(format!("vmType has more than {MAX_ROWS} rows"));
                }
                self.rows += 1;
                let kind = self.type_named(&name, draft.line);
                self.defined[kind].rows.push(row);
            }
            Table::None => {
                return Err(format!(
                    "'{}' is no header of the table vm ({}) or vmType ({})",
                    shown(line),
                    VM.join(", "),
                    VM_TYPE.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Gives every VM its size, now that both tables are known.
    pub(super) fn end(self, draft: &mut Draft) -> Done {
        if draft.vms.is_empty() {
            return Err("there is no VM: the table vm is missing or empty".to_owned());
        }
        let machine_id = self.chosen_machine()?;
        let size = self.machine;
        draft.note("machine-assumed", Severity::Info, || {
            format!(
                "sizes are fractions of a machine{}, which counts as {} thousandths of a CPU and {} MiB",
                machine_id.as_ref().map_or(String::new(), |id| format!(" (machineId {id})")),
                size.milli_cpus,
                size.memory_mib
            )
        });
        let mut sizes = Vec::with_capacity(self.defined.len());
        for kind in &self.defined {
            sizes.push(kind.size(machine_id.as_deref(), size, draft)?);
        }
        for (vm, kind) in draft.vms.iter_mut().zip(&self.type_of) {
            let Some(size) = sizes[*kind] else {
                let Defined {
                    name, first_line, ..
                } = &self.defined[*kind];
                return Err(format!(
                    "no row of vmType has vmTypeId '{}', which line {first_line} uses",
                    shown(name)
                ));
            };
            (vm.milli_cpus, vm.memory_mib) = (size.milli_cpus, size.memory_mib);
        }
        Ok(())
    }

    fn type_named(&mut self, name: &str, line: u64) -> usize {
        if let Some(&kind) = self.types.get(name) {
            return kind;
        }
        self.types.insert(name.to_owned(), self.defined.len());
        self.defined.push(Defined {
            name: name.to_owned(),
            first_line: line,
            rows: Vec::new(),
        });
        self.defined.len() - 1
    }

    /// The machine whose fractions count: the one that was asked for, or the one on which most types are defined.
    fn chosen_machine(&self) -> Result<Option<String>, String> {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.defined.iter().flat_map(|kind| &kind.rows) {
            *count.entry(&row.machine).or_default() += 1;
        }
        if let Some(asked) = &self.machine_id {
            if count.contains_key(asked.as_str()) {
                return Ok(Some(asked.clone()));
            }
            return Err(format!("no row of vmType has machineId '{}'", shown(asked)));
        }
        let most = count.iter().rev().max_by_key(|(_, count)| **count);
        Ok(most
            .map(|(machine, _)| (*machine).to_owned())
            .filter(|machine| !machine.is_empty()))
    }
}

impl Defined {
    /// Its size on a machine; `None` if nothing defines it.
    fn size(
        &self,
        machine_id: Option<&str>,
        machine: Size,
        draft: &mut Draft,
    ) -> Result<Option<Size>, String> {
        let wanted = machine_id.unwrap_or_default();
        // Without machine ids a later row stands for an earlier one, as `DSLab` reads them.
        let on_it = self.rows.iter().rfind(|row| row.machine == wanted);
        let Some(row) = on_it.or(self.rows.first()) else {
            return Ok(None);
        };
        if on_it.is_none() {
            draft.note("type-of-other-machine", Severity::Warning, || {
                format!("a type is not defined on machineId {wanted}; its first row counts")
            });
        }
        // A type without CPUs still has the smallest share there is.
        let cpus = (row.core * f64::from(machine.milli_cpus) / 1e3).max(1e-3);
        let memory = row.memory * f64::from(machine.memory_mib);
        Ok(Some(Size {
            milli_cpus: milli_cpus(cpus, "the size of a type")?,
            memory_mib: memory_mib(memory, "memory of a type")?,
        }))
    }
}

/// The table whose header this line is.
fn header(splitter: &Splitter) -> Result<Option<Table>, String> {
    let has = |name: &str| (0..splitter.len()).any(|column| splitter.field(column) == name);
    if !has("vmTypeId") {
        return Ok(None);
    }
    Ok(Some(if has("vmId") {
        Table::Vm(Header::read(splitter, &VM, VM_NEEDED)?)
    } else {
        Table::VmType(Header::read(splitter, &VM_TYPE, VM_TYPE_NEEDED)?)
    }))
}

/// The name of the type and the VM without its size; nothing if it goes before it comes.
fn vm(
    header: &Header,
    splitter: &Splitter,
    draft: &mut Draft,
) -> Result<Option<(String, TraceVm)>, String> {
    let [name, kind, start, end] = [0, 1, 2, 3].map(|column| header.field(splitter, column));
    let on_ns = time(start, DAY_S, "starttime")?;
    let off_ns = match end {
        "" | "NULL" => None,
        end => Some(time(end, DAY_S, "endtime")?),
    };
    if off_ns.is_some_and(|off| off < on_ns) {
        draft.note("ends-before-start", Severity::Warning, || {
            "a VM that ends before it starts is left out".to_owned()
        });
        return Ok(None);
    }
    let vm = TraceVm {
        name: name.to_owned(),
        on_ns,
        off_ns,
        ..TraceVm::default()
    };
    Ok(Some((kind.to_owned(), vm)))
}

fn row(header: &Header, splitter: &Splitter) -> Result<Row, String> {
    let fraction = |column: usize| {
        let name = VM_TYPE[column];
        let value = number(header.field(splitter, column), name)?;
        if (0.0..=1.0).contains(&value) {
            return Ok(value);
        }
        Err(format!(
            "{name} is {value}; it is a fraction of a machine, 0 to 1"
        ))
    };
    Ok(Row {
        machine: header.field(splitter, MACHINE_ID).to_owned(),
        core: fraction(1)?,
        memory: fraction(2)?,
    })
}
