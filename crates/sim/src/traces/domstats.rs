//! Output of `virsh domstats`, taken several times. Between two dumps a VM ran for as long as the times of its vCPUs
//! (`vcpu.N.time`) grew, and was ready for as long as `vcpu.N.delay` (`vcpu.N.wait` where libvirt is older) did. A line
//! `# at SECONDS` before a dump says when it was taken; without, an interval is given and a VM's second turn begins a dump.
//!
//! Field names and their meaning: the manual page of `virsh`, command `domstats`.

use std::collections::{BTreeMap, BTreeSet};

use model::finding::Severity;

use super::number::{memory_mib, milli_cpus, shown, time};
use super::{Done, Draft, LONGEST_TRACE_NS, Options, Sample, TraceVm};
use crate::time::Nanos;

/// `state.state` of a VM that holds no CPU and no memory: shut off, crashed (`virDomainState`).
const OFF: [u64; 2] = [5, 6];
const KIB_IN_MIB: f64 = 1024.0;

#[derive(Debug)]
pub(super) struct Reader {
    interval_ns: Option<Nanos>,
    /// When the dump was taken, from the first one on; `None` before the first.
    now_ns: Option<i64>,
    /// What `# at` said of the first dump.
    first_at_ns: Option<i64>,
    /// Whether times come from `# at`.
    timed: bool,
    dump: u64,
    /// VMs of this dump, those that are off included.
    seen: BTreeSet<String>,
    block: Option<Block>,
    live: BTreeMap<String, Live>,
}

/// A VM in a dump.
#[derive(Debug, Default)]
struct Block {
    name: String,
    state: Option<u64>,
    vcpus: Option<u64>,
    timed_vcpus: u64,
    memory_kib: Option<u64>,
    maximum_kib: Option<u64>,
    busy_ns: u128,
    delay_ns: Option<u128>,
    wait_ns: Option<u128>,
}

/// A VM that runs.
#[derive(Debug)]
struct Live {
    vm: usize,
    dump: u64,
    at_ns: i64,
    busy_ns: u128,
    ready_ns: Option<u128>,
    timed_vcpus: u64,
}

impl Reader {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            interval_ns: options.interval_ns,
            now_ns: None,
            first_at_ns: None,
            timed: false,
            dump: 0,
            seen: BTreeSet::new(),
            block: None,
            live: BTreeMap::new(),
        }
    }

    /// Another file is another dump, unless it says itself when it was taken.
    pub(super) fn begin_file(&mut self, draft: &mut Draft) -> Done {
        self.end_block(draft)?;
        if !self.seen.is_empty() && !self.timed && self.interval_ns.is_some() {
            self.next_dump(draft)?;
        }
        Ok(())
    }

    pub(super) fn line(&mut self, line: &str, draft: &mut Draft) -> Done {
        let line = line.trim();
        if let Some(at) = line.strip_prefix("# at ") {
            return self.begin_timed(at, draft);
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix("Domain: ") {
            let name = name.strip_prefix('\'').unwrap_or(name);
            return self.begin_block(name.strip_suffix('\'').unwrap_or(name), draft);
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!(
                "'{}' is neither \"Domain: 'NAME'\" nor KEY=VALUE nor '# at SECONDS'",
                shown(line)
            ));
        };
        match &mut self.block {
            Some(block) => block.field(key, value),
            None => Err(format!(
                "'{}' stands before any \"Domain: 'NAME'\"",
                shown(line)
            )),
        }
    }

    pub(super) fn end(mut self, draft: &mut Draft) -> Done {
        self.end_block(draft)?;
        self.end_dump(draft);
        if self.dump == 0 {
            draft.note("one-dump", Severity::Info, || {
                "there is one dump: sizes are known, utilisation is not".to_owned()
            });
        }
        Ok(())
    }

    fn begin_timed(&mut self, at: &str, draft: &mut Draft) -> Done {
        self.end_block(draft)?;
        let at_ns = time(at, 1.0, "the time after '# at'")?;
        if !self.seen.is_empty() && !self.timed {
            return Err("'# at' is missing before the first dump".to_owned());
        }
        self.timed = true;
        let at_ns = at_ns - *self.first_at_ns.get_or_insert(at_ns);
        if !self.seen.is_empty() {
            self.end_dump(draft);
            self.dump += 1;
        }
        if self.dump > 0 && self.now_ns.is_some_and(|now| at_ns <= now) {
            return Err("this dump is not later than the one before".to_owned());
        }
        self.now_ns = Some(at_ns);
        Ok(())
    }

    fn begin_block(&mut self, name: &str, draft: &mut Draft) -> Done {
        self.end_block(draft)?;
        if self.seen.contains(name) {
            if self.timed {
                return Err(format!(
                    "'{}' is there twice: '# at' is missing before this dump",
                    shown(name)
                ));
            }
            self.next_dump(draft)?;
        }
        self.seen.insert(name.to_owned());
        self.now_ns.get_or_insert(0);
        self.block = Some(Block {
            name: name.to_owned(),
            ..Block::default()
        });
        Ok(())
    }

    /// The next dump is one interval later.
    fn next_dump(&mut self, draft: &mut Draft) -> Done {
        let Some(interval) = self.interval_ns else {
            return Err(
                "a second dump begins here, and nothing says when it was taken: \
                 put a line '# at SECONDS' before each dump, or give the interval"
                    .to_owned(),
            );
        };
        self.end_dump(draft);
        self.dump += 1;
        let now = self.now_ns.unwrap_or(0);
        let next = i64::try_from(interval.max(1)).map(|interval| now.saturating_add(interval));
        self.now_ns = next.ok().filter(|next| *next <= LONGEST_TRACE_NS);
        match self.now_ns {
            Some(_) => Ok(()),
            None => Err("this dump is more than a hundred years from the first".to_owned()),
        }
    }

    /// VMs that this dump does not have are gone.
    fn end_dump(&mut self, draft: &mut Draft) {
        let (now, dump) = (self.now_ns, self.dump);
        if self.seen.is_empty() {
            return;
        }
        self.seen.clear();
        self.live.retain(|_, live| {
            let stays = live.dump == dump;
            if !stays {
                draft.vms[live.vm].off_ns = now;
            }
            stays
        });
    }

    fn end_block(&mut self, draft: &mut Draft) -> Done {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let now_ns = self.now_ns.unwrap_or(0);
        if block.state.is_some_and(|state| OFF.contains(&state)) {
            if let Some(live) = self.live.remove(&block.name) {
                draft.vms[live.vm].off_ns = Some(now_ns);
            }
            return Ok(());
        }
        let ready_ns = block.delay_ns.or(block.wait_ns);
        let last = self.live.get(&block.name);
        let vm = match last {
            Some(live) => {
                sample(live, &block, now_ns, draft)?;
                live.vm
            }
            None => draft.push(TraceVm {
                name: block.name.clone(),
                on_ns: now_ns,
                ..TraceVm::default()
            })?,
        };
        let (milli_cpus, memory_mib) = block.size(draft)?;
        let it = &mut draft.vms[vm];
        // What it had at its largest is what a host must hold.
        it.milli_cpus = it.milli_cpus.max(milli_cpus);
        it.memory_mib = it.memory_mib.max(memory_mib);
        let live = Live {
            vm,
            dump: self.dump,
            at_ns: now_ns,
            busy_ns: block.busy_ns,
            ready_ns,
            timed_vcpus: block.timed_vcpus,
        };
        self.live.insert(block.name, live);
        Ok(())
    }
}

impl Block {
    /// Takes what is used; the hundreds of other fields of `domstats` are passed over.
    fn field(&mut self, key: &str, value: &str) -> Done {
        let number = || {
            value.parse::<u64>().map_err(|_| {
                format!(
                    "{} is '{}', which is no whole number",
                    shown(key),
                    shown(value)
                )
            })
        };
        match key {
            "state.state" => self.state = Some(number()?),
            "vcpu.current" => self.vcpus = Some(number()?),
            "balloon.current" => self.memory_kib = Some(number()?),
            "balloon.maximum" => self.maximum_kib = Some(number()?),
            _ => {
                let Some((vcpu, field)) = key
                    .strip_prefix("vcpu.")
                    .and_then(|rest| rest.split_once('.'))
                else {
                    return Ok(());
                };
                if vcpu.parse::<u32>().is_err() {
                    return Ok(());
                }
                match field {
                    "time" => {
                        self.timed_vcpus += 1;
                        self.busy_ns += u128::from(number()?);
                    }
                    "delay" => *self.delay_ns.get_or_insert(0) += u128::from(number()?),
                    "wait" => *self.wait_ns.get_or_insert(0) += u128::from(number()?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Thousandths of a CPU, and MiB.
    fn size(&self, draft: &mut Draft) -> Result<(u32, u32), String> {
        let vcpus = self.vcpus.unwrap_or(self.timed_vcpus);
        if vcpus == 0 {
            return Err(format!(
                "'{}' has no vcpu.current: call virsh domstats with --vcpu --balloon --state",
                shown(&self.name)
            ));
        }
        let memory_kib = self.memory_kib.or(self.maximum_kib);
        if memory_kib.is_none() {
            draft.note("memory-unknown", Severity::Info, || {
                "a VM has no balloon.current; its memory counts as none".to_owned()
            });
        }
        let memory = memory_kib.unwrap_or(0) as f64 / KIB_IN_MIB;
        Ok((
            milli_cpus(vcpus as f64, "vcpu.current")?,
            memory_mib(memory, "balloon.current")?,
        ))
    }
}

/// How busy the VM was since the last dump.
fn sample(last: &Live, block: &Block, now_ns: i64, draft: &mut Draft) -> Done {
    if block.timed_vcpus == 0 || block.timed_vcpus != last.timed_vcpus {
        return Ok(());
    }
    let Some(busy) = block.busy_ns.checked_sub(last.busy_ns) else {
        draft.note("restarted", Severity::Info, || {
            "a VM was started again between two dumps; how busy it was there is not known"
                .to_owned()
        });
        return Ok(());
    };
    let whole = u128::try_from(now_ns - last.at_ns).unwrap_or(0) * u128::from(block.timed_vcpus);
    if whole == 0 {
        return Ok(());
    }
    let share = |part: u128| (1_000 * part / whole).min(1_000) as u32;
    let ready = block.delay_ns.or(block.wait_ns).zip(last.ready_ns);
    let sample = Sample {
        at_ns: last.at_ns,
        busy_permille: share(busy),
        ready_permille: ready
            .and_then(|(now, then)| now.checked_sub(then))
            .map(share),
    };
    draft.sample(last.vm, sample)
}
