//! `PlanetLab` as `CloudSim` has it: a file for each VM, on each line a whole percentage of its CPU for five minutes, 288 lines a
//! day. Many files in one text are kept apart by lines `==> NAME <==`, as `tail -n +1 FOLDER/*` writes them.

use model::finding::Severity;

use super::number::shown;
use super::{Done, Draft, LONGEST_TRACE_NS, Options, Sample, Size, TraceVm};
use crate::time::{Nanos, S};

/// The measurements' period, as `CloudSim` uses them: 288 in a day.
const INTERVAL_NS: Nanos = 300 * S;

#[derive(Debug)]
pub(super) struct Reader {
    name: String,
    size: Size,
    interval_ns: i64,
    /// The VM whose lines these are, once there is one.
    vm: Option<usize>,
    samples: i64,
}

impl Reader {
    pub(super) fn new(options: &Options) -> Self {
        let interval_ns = options.interval_ns.unwrap_or(INTERVAL_NS);
        Self {
            name: options.name.clone(),
            size: options.vm,
            interval_ns: interval_ns
                .clamp(1, LONGEST_TRACE_NS.unsigned_abs())
                .cast_signed(),
            vm: None,
            samples: 0,
        }
    }

    /// The lines that follow are another VM's.
    #[expect(clippy::unnecessary_wraps, reason = "all readers end the same way")]
    pub(super) fn begin(&mut self, name: &str, draft: &mut Draft) -> Done {
        self.end_vm(draft);
        let file = name.rsplit('/').next().unwrap_or(name);
        file.clone_into(&mut self.name);
        Ok(())
    }

    pub(super) fn line(&mut self, line: &str, draft: &mut Draft) -> Done {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(name) = heading(line) {
            return self.begin(name, draft);
        }
        let percent = line.parse::<u32>().ok().filter(|it| *it <= 100);
        let percent =
            percent.ok_or_else(|| format!("'{}' is no whole percentage, 0 to 100", shown(line)))?;
        let vm = match self.vm {
            Some(vm) => vm,
            None => self.begin_vm(draft)?,
        };
        let at_ns = self.samples.saturating_mul(self.interval_ns);
        if at_ns > LONGEST_TRACE_NS {
            return Err("this sample is more than a hundred years from the first".to_owned());
        }
        self.samples += 1;
        let sample = Sample {
            at_ns,
            busy_permille: 10 * percent,
            ready_permille: None,
        };
        draft.sample(vm, sample)
    }

    #[expect(clippy::unnecessary_wraps, reason = "all readers end the same way")]
    pub(super) fn end(&mut self, draft: &mut Draft) -> Done {
        self.end_vm(draft);
        Ok(())
    }

    fn begin_vm(&mut self, draft: &mut Draft) -> Result<usize, String> {
        let size = self.size;
        draft.note("size-assumed", Severity::Info, || {
            format!(
                "the format has no sizes: VMs count as {} thousandths of a CPU and {} MiB",
                size.milli_cpus, size.memory_mib
            )
        });
        let vm = draft.push(TraceVm {
            name: self.name.clone(),
            milli_cpus: size.milli_cpus,
            memory_mib: size.memory_mib,
            ..TraceVm::default()
        })?;
        self.vm = Some(vm);
        self.samples = 0;
        Ok(vm)
    }

    fn end_vm(&mut self, draft: &mut Draft) {
        if let Some(vm) = self.vm.take() {
            let end = self.samples.saturating_mul(self.interval_ns);
            draft.vms[vm].off_ns = Some(end.min(LONGEST_TRACE_NS));
        }
    }
}

/// The name in `==> NAME <==`.
pub(super) fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("==> ")?.strip_suffix(" <==")
}
