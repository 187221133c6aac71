//! Standard Workload Format of the Parallel Workloads Archive: 18 columns on a line, -1 is not known, `;` begins a comment. A
//! job becomes a VM that comes when the job was submitted and stays as long as the job ran; how long it waited was that
//! machine's doing and is not used.

use model::finding::Severity;

use super::number::{memory_mib, milli_cpus, number, time};
use super::{Done, Draft, Sample, TraceVm};

/// Fields of a job, in the archive's definition of the format, version 2.2.
pub(super) const COLUMNS: usize = 18;
const JOB: usize = 0;
const SUBMIT_S: usize = 1;
const RUN_S: usize = 3;
const PROCESSORS_USED: usize = 4;
const CPU_TIME_S: usize = 5;
const MEMORY_USED_KB: usize = 6;
const PROCESSORS_ASKED: usize = 7;
const MEMORY_ASKED_KB: usize = 9;
/// Memory is in KB for each processor.
const KB_IN_MIB: f64 = 1024.0;

pub(super) fn line(line: &str, draft: &mut Draft) -> Done {
    let line = line.trim();
    if line.is_empty() || line.starts_with(';') {
        return Ok(());
    }
    let mut fields = [0.0; COLUMNS];
    let mut texts = [""; COLUMNS];
    let mut count = 0;
    for text in line.split_ascii_whitespace() {
        if count < COLUMNS {
            fields[count] = number(text, &format!("column {}", count + 1))?;
            texts[count] = text;
        }
        count += 1;
    }
    if count != COLUMNS {
        return Err(format!(
            "a job has {COLUMNS} columns, this line has {count}"
        ));
    }
    let on_ns = time(texts[SUBMIT_S], 1.0, "the submit time (column 2)")?;
    if fields[RUN_S] < 0.0 {
        draft.note("job-without-run", Severity::Info, || {
            "a job without a run time is left out".to_owned()
        });
        return Ok(());
    }
    let run_ns = time(texts[RUN_S], 1.0, "the run time (column 4)")?;
    let known = |column: usize| Some(fields[column]).filter(|value| *value > 0.0);
    let Some(processors) = known(PROCESSORS_USED).or(known(PROCESSORS_ASKED)) else {
        draft.note("job-without-processors", Severity::Info, || {
            "a job without a number of processors is left out".to_owned()
        });
        return Ok(());
    };
    let memory = known(MEMORY_ASKED_KB).or(known(MEMORY_USED_KB));
    if memory.is_none() {
        draft.note("memory-unknown", Severity::Info, || {
            "a job does not say its memory; it counts as none".to_owned()
        });
    }
    let memory = memory.unwrap_or(0.0) * processors / KB_IN_MIB;
    let vm = draft.push(TraceVm {
        name: texts[JOB].to_owned(),
        on_ns,
        off_ns: Some(on_ns + run_ns),
        milli_cpus: milli_cpus(processors, "the number of processors")?,
        memory_mib: memory_mib(memory, "memory of all processors")?,
        ..TraceVm::default()
    })?;
    if let (Some(busy_s), true) = (known(CPU_TIME_S), fields[RUN_S] > 0.0) {
        let busy_permille = (1e3 * busy_s / fields[RUN_S]).round().min(1e3) as u32;
        let sample = Sample {
            at_ns: on_ns,
            busy_permille,
            ready_permille: None,
        };
        draft.sample(vm, sample)?;
    }
    Ok(())
}
