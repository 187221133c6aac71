//! `vtopo simulate`.

#![allow(
    clippy::cast_precision_loss,
    reason = "simulated times and counts are far below 2^52"
)]

mod csv;
mod find;
mod fleet;
mod library;
mod progress;
mod report;
mod request;
mod study;
mod table;
mod trace;
mod words;

use std::path::{Path, PathBuf};

use super::Answer;
use crate::args::SimulateCommand;
use crate::failure::Failure;
use crate::json::SimulateDocument;
use crate::{files, say};
use fleet::Input;
use progress::Progress;
use request::Source;
use study::Control;

pub(crate) use find::{Found, Step};
pub(crate) use fleet::Fleet;
pub(crate) use request::Scene;
pub(crate) use study::{Bound, Part, Run, Study};

pub(super) fn run(command: &SimulateCommand) -> Result<Answer, Failure> {
    if command.example {
        return example(command);
    }
    check_outputs(command)?;
    let text = match fleet::open(command)? {
        Input::Trace(trace) => return fleet::run(command, trace),
        Input::Scenario(text) => text,
    };
    fleet::check_scenario(command)?;
    let source = Source::new(command, text);
    let scenes = source.scenes()?;
    if let Some(key) = &command.find_max {
        return find::run(command, &source, &scenes, key);
    }
    let stop = progress::on_interrupt()?;
    let seeds = source.seeds(&scenes[0].simulation);
    let progress = Progress::new(runs(&scenes, &seeds), simulated_ns(&scenes, &seeds));
    let control = Control {
        threads: usize::from(command.threads),
        stop: &stop,
        watch: &progress,
    };
    let study = study::study(&scenes, &seeds, control);
    progress.finish();
    let study = study?;
    show(command, &source, &scenes, &study)?;
    if !study.is_complete {
        return Ok(Answer::Stopped);
    }
    let is_good = study.scenes.iter().flatten().all(Run::is_good);
    Ok(Answer::yes_if(is_good))
}

fn example(command: &SimulateCommand) -> Result<Answer, Failure> {
    if command.output.json {
        say::json(&crate::json::ExampleDocument {
            example: library::EXAMPLE,
        })?;
    } else {
        say::out(library::EXAMPLE)?;
    }
    Ok(Answer::Yes)
}

fn show(
    command: &SimulateCommand,
    source: &Source,
    scenes: &[Scene],
    study: &Study,
) -> Result<(), Failure> {
    if let Some(path) = &command.report {
        let page = report::page(source, scenes, study)?;
        files::write_text(path, &page)?;
        say::remark(&format!("report written to {}", path.display()));
    }
    if let Some(path) = &command.trace {
        let first = scenes.first().zip(study.scenes.first());
        let run = first.and_then(|(scene, runs)| Some((scene, runs.iter().find_map(drawn)?)));
        let Some((scene, (run, picture))) = run else {
            return Err(Failure::new("there is no finished run to trace"));
        };
        files::write_text(path, &trace::text(scene, run, picture))?;
        say::remark(&format!("trace written to {}", path.display()));
    }
    if let Some(path) = &command.csv {
        files::write_text(path, &csv::text(scenes, study))?;
    }
    if command.output.json {
        say::json(&SimulateDocument::new(scenes, study))
    } else if has_output(command) {
        Ok(())
    } else {
        say::out(&table::text(scenes, study, say::style()))
    }
}

fn drawn(run: &Run) -> Option<(&Run, &study::Picture)> {
    run.picture.as_ref().map(|picture| (run, picture))
}

/// Runs of all variants.
fn runs(scenes: &[Scene], seeds: &[u64]) -> u64 {
    let variants: usize = scenes.iter().map(|scene| scene.variants.len()).sum();
    (variants * seeds.len()) as u64
}

/// Simulated time of all runs.
fn simulated_ns(scenes: &[Scene], seeds: &[u64]) -> u64 {
    let of_scene = |scene: &Scene| {
        let runs = (scene.variants.len() * seeds.len()) as u64;
        runs.saturating_mul(scene.simulation.run.duration_ns)
    };
    scenes.iter().map(of_scene).fold(0, u64::saturating_add)
}

/// Whether a file that is asked for goes to standard output.
fn has_output(command: &SimulateCommand) -> bool {
    let files = [&command.csv, &command.report, &command.trace];
    files.into_iter().flatten().any(|path| is_output(path))
}

fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Standard output is for one answer, and a file for one.
fn check_outputs(command: &SimulateCommand) -> Result<(), Failure> {
    let files: Vec<&PathBuf> = [&command.csv, &command.report, &command.trace]
        .into_iter()
        .flatten()
        .collect();
    let is_twice = (1..files.len()).any(|index| files[..index].contains(&files[index]));
    if is_twice || command.output.json && has_output(command) {
        return Err(Failure::new(
            "two of --json, --csv, --report and --trace would be written to the same place",
        )
        .help("give each of them a file of its own"));
    }
    Ok(())
}
