//! Draws requests for VMs and places them, as the placement benchmark asks (`bench/placement`).
//!
//! `placement draw fill VMS SEED` and `placement draw day SEED` write requests in the columns of Huawei-East-1 to standard
//! output; `placement run FILE HOSTS CPUS GIB ALGORITHM` places them and writes one line of JSON.

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::error::Error;
use std::fs;
use std::time::Instant;

use sim::fleet::{self, Algorithm, HostKind};
use sim::rng::{Purpose, Stream};
use sim::traces::synthetic::{self, Parameters};
use sim::traces::{self, Kind, Options};

/// CPUs and GB of VMs that fill an empty fleet, each as likely as any other. Ours; the CPUs are those of the placement example
/// that `DSLab` and `CloudSim` Plus share.
const FILL_CPUS: [u32; 4] = [1, 2, 4, 8];
const FILL_GB: [u32; 3] = [1, 2, 4];
/// No larger batch is drawn: the file would have a gigabyte.
const MOST_VMS: u32 = 50_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["draw", "fill", vms, seed] => print!("{}", fill(vms.parse()?, seed.parse()?)),
        ["draw", "day", seed] => {
            let parameters = Parameters {
                seed: seed.parse()?,
                ..Parameters::default()
            };
            print!(
                "{}",
                synthetic::to_huawei_csv(&synthetic::trace(&parameters))
            );
        }
        ["run", file, hosts, cpus, gib, algorithm] => {
            let hosts = HostKind {
                name: "host".to_owned(),
                count: hosts.parse()?,
                milli_cpus: 1_000 * cpus.parse::<u32>()?,
                memory_mib: 1_024 * gib.parse::<u32>()?,
            };
            println!("{}", run(file, hosts, algorithm)?);
        }
        _ => {
            return Err(
                "type 'placement draw fill VMS SEED', 'placement draw day SEED' or \
                 'placement run FILE HOSTS CPUS GIB ALGORITHM'"
                    .into(),
            );
        }
    }
    Ok(())
}

/// VMs that all come in the first second and stay.
fn fill(vms: u32, seed: u64) -> String {
    let mut sizes = Stream::new(seed, Purpose::Arrivals, 0);
    let mut pick = |of: &[u32]| {
        let count = u32::try_from(of.len()).expect("a handful of sizes");
        of[sizes.below(count) as usize]
    };
    let mut text = String::from("vmid,cpu,memory,time,type\n");
    for vm in 0..vms.min(MOST_VMS) {
        let (cpus, gb) = (pick(&FILL_CPUS), pick(&FILL_GB));
        text.push_str(&format!("{vm},{cpus},{gb},0,0\n"));
    }
    text
}

fn run(file: &str, hosts: HostKind, algorithm: &str) -> Result<String, Box<dyn Error>> {
    let algorithm = Algorithm::from_name(algorithm).ok_or("no such algorithm")?;
    let start = Instant::now();
    let text = fs::read_to_string(file)?;
    let trace = traces::read(&text, Kind::Huawei, &Options::default())?;
    let read_ns = start.elapsed().as_nanos();
    let start = Instant::now();
    let outcome = fleet::replay(&trace, &[hosts], algorithm)?;
    let place_ns = start.elapsed().as_nanos();
    Ok(format!(
        "{{\"vms\": {}, \"placed\": {}, \"refused\": {}, \"hash\": \"{:016x}\", \"read_ns\": {read_ns}, \
         \"place_ns\": {place_ns}, \"events\": {}, \"peak_hosts\": {}, \"peak_kib\": {}}}",
        trace.vms.len(),
        outcome.placed,
        outcome.refused,
        outcome.placement_hash,
        outcome.events,
        outcome.peak_hosts_used,
        peak_kib()?,
    ))
}

/// The most memory this process had. What its parent is told includes the parent's own, from before the start.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = line.ok_or("no VmHWM in /proc/self/status")?;
    Ok(words.trim_end_matches("kB").trim().parse()?)
}
