//! `vtopo verify`.

mod table;

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use lab::compare::{Field, compare, compare_devices};
use lab::guest::{self, MemoryMode, Plan, Probe, Progress, Setup};
use lab::report::{MAX_TEXT_BYTES, SeenGuest};
use model::formats::{Accelerator, Target, cpu_model};
use model::{Finding, Host, Spec};
use policy::shape::Shape;
use serde::Serialize;

use super::{Answer, shape};
use crate::args::{AcceleratorArg, RuleArg, VerifyCommand};
use crate::failure::Failure;
use crate::vms::Vm;
use crate::{files, hosts, say, shaping, vms};

/// A guest that was looked at, or what stands in for it.
struct Guest {
    rule: String,
    fields: Vec<Field>,
    seen: SeenGuest,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct VerifyDocument<'a> {
    ok: bool,
    accelerator: &'static str,
    guests: Vec<GuestDocument<'a>>,
}

#[derive(Serialize)]
struct GuestDocument<'a> {
    rule: &'a str,
    ok: bool,
    kernel: Option<&'a str>,
    fields: &'a [Field],
    findings: &'a [Finding],
}

impl Guest {
    fn ok(&self) -> bool {
        self.fields.iter().all(|field| field.ok)
    }
}

pub(super) fn run(command: &VerifyCommand) -> Result<Answer, Failure> {
    let vm = vms::vm(&command.vm)?;
    let host = hosts::host(&command.host, &command.firmware)?;
    let mut shapes = Vec::new();
    for &rule in &command.rule {
        match shaping::shape(&vm, &host, rule, &command.decisions, &command.vm.licence)? {
            Ok(shape) => shapes.push((rule, shape)),
            Err(refusal) => return shape::refused(&refusal, command.output.json),
        }
    }
    match &command.guest_report {
        Some(path) => compare_report(command, path, &shapes),
        None => boot_all(command, (&vm, &host), &shapes),
    }
}

/// Holds a running guest's own report against the plans.
fn compare_report(
    command: &VerifyCommand,
    path: &Path,
    shapes: &[(RuleArg, Shape)],
) -> Result<Answer, Failure> {
    let text = files::read_text(path, MAX_TEXT_BYTES)?;
    let seen = SeenGuest::from_text(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let guests: Vec<Guest> = shapes
        .iter()
        .map(|(rule, shape)| Guest {
            rule: rule.name(),
            fields: compare(&shape.topology, &seen),
            seen: seen.clone(),
            findings: shape.findings.clone(),
        })
        .collect();
    show(command, "report", &guests)
}

fn boot_all(
    command: &VerifyCommand,
    (vm, host): (&Vm, &Host),
    shapes: &[(RuleArg, Shape)],
) -> Result<Answer, Failure> {
    let kernel = command.kernel.clone().or_else(kernel_of_setup);
    let kernel = guest::find_kernel(kernel.as_deref()).map_err(|error| {
        Failure::new(error.to_string())
            .help("give a bzImage with --kernel, e.g. /boot/vmlinuz-6.12")
    })?;
    let setup = Setup::new(kernel);
    let failed = |error: guest::BootError| Failure::new(error.to_string());
    let qemu_major = guest::emulator_major(&setup.emulator).map_err(failed)?;
    let mut target = Target {
        qemu_major,
        ..shaping::target(host, qemu_major)
    };
    let bar = progress_bar();
    let probe = match command.accelerator {
        AcceleratorArg::Kvm => chosen(Accelerator::Kvm),
        AcceleratorArg::Tcg => chosen(Accelerator::Tcg),
        AcceleratorArg::Auto => {
            bar.set_message("looking for KVM: booting a probe guest");
            guest::probe_accelerator(&setup, &vm.spec.cpu, &target)
        }
    };
    target.accelerator = probe.accelerator;
    bar.suspend(|| say::remark(&probe.reason));
    let mut guests = Vec::new();
    for (number, (rule, shape)) in (1..).zip(shapes) {
        let spec = shaping::shaped(&vm.spec, shape);
        let title = format!(
            "guest {number} of {}: {} vCPUs, rule {}, {}",
            shapes.len(),
            spec.vcpus,
            rule.name(),
            accelerator_name(&probe)
        );
        guests.push(boot(
            command,
            (&spec, shape),
            (&target, &setup),
            (&bar, &title),
            rule.name(),
        )?);
    }
    bar.finish_and_clear();
    show(
        command,
        if probe.accelerator == Accelerator::Kvm {
            "kvm"
        } else {
            "tcg"
        },
        &guests,
    )
}

fn chosen(accelerator: Accelerator) -> Probe {
    Probe {
        accelerator,
        reason: "the accelerator is used as asked".to_owned(),
    }
}

/// The kernel that `make setup` unpacks beside the folder of a binary built here.
fn kernel_of_setup() -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?;
    let kernel = binary.parent()?.parent()?.join("guest-kernel/vmlinuz");
    kernel.exists().then_some(kernel)
}

fn boot(
    command: &VerifyCommand,
    (spec, shape): (&Spec, &Shape),
    (target, setup): (&Target, &Setup),
    (bar, title): (&ProgressBar, &str),
    rule: String,
) -> Result<Guest, Failure> {
    let memory = if command.full_memory {
        MemoryMode::Full
    } else {
        MemoryMode::Scaled
    };
    let mut plan = Plan::new(spec, target, memory, setup);
    let mut findings = shape.findings.clone();
    findings.append(&mut plan.findings);
    show_size_of_model(&mut plan);
    if bar.is_hidden() {
        say::remark(title);
    }
    bar.set_message(title.to_owned());
    let report = guest::boot(&plan, &mut |progress| {
        bar.set_message(format!("{title}: {}", stage(progress)));
    })
    .map_err(|error| Failure::new(format!("{title}: {error}")))?;
    let tools = report.skipped_tools.iter();
    findings.extend(
        tools.map(|tool| Finding::info("tool-missing", format!("not run in the guest: {tool}"))),
    );
    bar.suspend(|| {
        say::remark(&format!(
            "{title}: done in {:.1} s",
            report.elapsed.as_secs_f64()
        ));
    });
    let mut fields = compare(&plan.topology, &report.seen);
    fields.extend(compare_devices(&plan.devices, &report.seen));
    Ok(Guest {
        rule,
        fields,
        seen: report.seen,
        findings,
    })
}

/// Software emulation brings another CPU model, with caches of its own size: plan for what that model shows.
fn show_size_of_model(plan: &mut Plan) {
    let mut after_cpu = plan
        .arguments
        .iter()
        .skip_while(|argument| *argument != "-cpu")
        .skip(1);
    let model = after_cpu
        .next()
        .and_then(|argument| argument.split(',').next())
        .unwrap_or("host");
    let bytes = cpu_model::llc_size_bytes(model).unwrap_or(0);
    for llc in &mut plan.topology.llcs {
        llc.guest_size_bytes = bytes;
    }
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} [{elapsed}] {wide_msg}")
            .expect("the template is ours"),
    );
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

fn stage(progress: Progress) -> String {
    match progress {
        Progress::Started => "firmware".to_owned(),
        Progress::Kernel => "kernel".to_owned(),
        Progress::Init => "init reads /sys, runs lscpu and numactl".to_owned(),
        Progress::Report { received, total } => {
            format!("report {} of {} KiB", received >> 10, total >> 10)
        }
    }
}

fn accelerator_name(probe: &Probe) -> &'static str {
    match probe.accelerator {
        Accelerator::Kvm => "KVM",
        Accelerator::Tcg => "software emulation",
    }
}

fn show(
    command: &VerifyCommand,
    accelerator: &'static str,
    guests: &[Guest],
) -> Result<Answer, Failure> {
    let ok = guests.iter().all(Guest::ok);
    if command.output.json {
        let guests = guests.iter().map(|guest| GuestDocument {
            rule: &guest.rule,
            ok: guest.ok(),
            kernel: guest.seen.kernel.as_deref(),
            fields: &guest.fields,
            findings: &guest.findings,
        });
        say::json(&VerifyDocument {
            ok,
            accelerator,
            guests: guests.collect(),
        })?;
    } else {
        say::out(&table::comparison(guests, command.tools, say::style()))?;
    }
    let strict =
        command.output.strict && guests.iter().any(|guest| say::has_problem(&guest.findings));
    Ok(Answer::yes_if(ok && !strict))
}
