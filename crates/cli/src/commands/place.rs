//! `vtopo place`.

mod fleet;
mod fleet_report;
mod report;
mod request;
mod runs;
mod words;

use std::path::{Path, PathBuf};

use model::{Host, Vm};

use super::Answer;
use crate::args::PlaceCommand;
use crate::draw::{PlaceView, place_svg};
use crate::failure::Failure;
use crate::json::{LossDocument, Part, PlaceDocument, PlacesDocument, RoomDocument, Whole};
use crate::{files, say};
use fleet::Placed;
use request::Request;
pub(super) use request::unknown_policy;
use runs::{Run, Runs};

pub(super) fn run(command: &PlaceCommand) -> Result<Answer, Failure> {
    check_outputs(command)?;
    let request = request::read(command)?;
    let is_strict_no = command.output.strict && say::has_problem(&request.findings);
    let all_placed = match request.hosts.as_slice() {
        [(host, 1)] if command.room.is_none() && !command.failover => {
            on_one_host(command, &request, host)?
        }
        _ => on_many_hosts(command, &request)?,
    };
    Ok(Answer::yes_if(all_placed && !is_strict_no))
}

/// Shows the answer; whether the best plan places every VM.
fn on_one_host(command: &PlaceCommand, request: &Request, host: &Host) -> Result<bool, Failure> {
    let runs = runs::place(request, host)?;
    if let Some(path) = &command.svg {
        let view = view(&runs, runs.first(), &request.vms);
        files::write_text(path, &place_svg(&view, &report::sentences(&runs)))?;
        if !has_output(command) {
            say::remark(&format!("picture written to {}", path.display()));
        }
    }
    if let Some(path) = &command.csv {
        files::write_text(path, &report::csv(&runs))?;
    }
    if command.output.json {
        json(request, &runs)?;
    } else if !has_output(command) {
        say::out(&report::text(command, request, &runs, say::style()))?;
    }
    Ok(runs.first().plan.refused.is_empty())
}

fn on_many_hosts(command: &PlaceCommand, request: &Request) -> Result<bool, Failure> {
    if command.svg.is_some() {
        return Err(Failure::new("--svg draws one host")
            .help("give one host, without --room and --failover"));
    }
    let placed = fleet::place(request, command.room.as_deref(), command.failover)?;
    if let Some(path) = &command.csv {
        files::write_text(path, &fleet_report::csv(&placed))?;
    }
    if command.output.json {
        say::json(&fleet_document(request, &placed))?;
    } else if !has_output(command) {
        let text = fleet_report::text(request, &placed, command.explain, say::style());
        say::out(&text)?;
    }
    Ok(placed.plan.refused.is_empty())
}

/// Whether a file that is asked for goes to standard output.
fn has_output(command: &PlaceCommand) -> bool {
    let is_output = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    is_output(&command.csv) || is_output(&command.svg)
}

/// Standard output is for one answer.
fn check_outputs(command: &PlaceCommand) -> Result<(), Failure> {
    let is_twice = command.csv.is_some() && command.csv == command.svg;
    if is_twice || command.output.json && has_output(command) {
        return Err(Failure::new(
            "two of --json, --csv and --svg would be written to the same place",
        )
        .help("give each of them a file of its own"));
    }
    Ok(())
}

/// A run for drawing.
fn view<'a>(runs: &'a Runs, run: &'a Run, vms: &'a [Vm]) -> PlaceView<'a> {
    PlaceView {
        host: &runs.host,
        vms,
        placement: &run.plan.placement,
        reserve: &runs.now.reserve,
    }
}

fn json(request: &Request, runs: &Runs) -> Result<(), Failure> {
    let document = |run: &Run| {
        let whole = Whole {
            policy: run.policy,
            metrics: &run.metrics,
            findings: &request.findings,
        };
        let part = Part {
            label: None,
            host: &runs.host,
            vms: &request.vms,
            plan: &run.plan,
        };
        PlaceDocument::new(&whole, &[part])
    };
    match runs.all.as_slice() {
        [run] => say::json(&document(run)),
        several => say::json(&PlacesDocument {
            runs: several.iter().map(document).collect(),
        }),
    }
}

fn fleet_document(request: &Request, placed: &Placed) -> PlaceDocument {
    let whole = Whole {
        policy: "best",
        metrics: &placed.metrics,
        findings: &request.findings,
    };
    let parts: Vec<Part> = placed
        .labels
        .iter()
        .zip(&placed.members)
        .zip(placed.vms.iter().zip(&placed.plan.hosts))
        .map(|((label, member), (vms, held))| Part {
            label: Some(label.clone()),
            host: &member.host,
            vms,
            plan: &held.plan,
        })
        .collect();
    let room = placed.room.as_ref().map(|(vm, room)| RoomDocument {
        vm: vm.clone(),
        total: room.total(),
        by_host: room.by_host.clone(),
    });
    let name = |id: &model::VmId| request.vms.get(id.index()).map(|vm| vm.name.clone());
    let losses = placed.losses.as_ref().map(|losses| {
        let document = |loss: &policy::fleet::Loss| LossDocument {
            host: placed.labels[loss.host].clone(),
            vms: loss.vms,
            homeless: loss.homeless.iter().filter_map(name).collect(),
        };
        losses.iter().map(document).collect()
    });
    PlaceDocument::new(&whole, &parts)
        .with_refused(placed.refused(request))
        .with_headroom(room, losses)
}
