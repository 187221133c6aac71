//! `--find-max`: the most of a key that still meets every limit.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use super::progress::{self, Progress};
use super::request::{Assignment, Scene, Source, label};
use super::study::{self, Bound, Control, Run};
use super::table::bound_text;
use super::{Answer, SimulateCommand};
use crate::draw::{notes, plural};
use crate::failure::Failure;
use crate::json::SimulateDocument;
use crate::say;

/// Largest value that is tried: no key of a scenario takes more.
const LARGEST: u64 = 1_000_000_000;

/// What was found for a policy and a rule.
pub(crate) struct Found {
    pub(crate) point: Vec<Assignment>,
    pub(crate) policy: &'static str,
    pub(crate) rule: String,
    pub(crate) key: String,
    pub(crate) answer: Most,
    pub(crate) steps: Vec<Step>,
}

/// The answer of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Most {
    /// The most that was seen to be good; `None` if the first was not.
    pub(crate) most: Option<u64>,
    /// The least that was seen to be too much; `None` if the end was good.
    pub(crate) too_much: Option<u64>,
}

/// One value that was tried.
pub(crate) struct Step {
    pub(crate) value: u64,
    pub(crate) is_good: bool,
    /// Seeds that meet all limits, each by itself: at most as many as meet the hardest one.
    pub(crate) seeds_met: usize,
    pub(crate) seeds: usize,
    pub(crate) bounds: Vec<Bound>,
    pub(crate) refused: Option<String>,
}

pub(super) fn run(
    command: &SimulateCommand,
    source: &Source,
    scenes: &[Scene],
    key: &str,
) -> Result<Answer, Failure> {
    check(command, scenes)?;
    let stop = progress::on_interrupt()?;
    let mut search = Search {
        command,
        source,
        key,
        stop: &stop,
        progress: Progress::new(0, 0),
    };
    let mut all = Vec::new();
    let found = search.all(scenes, &mut all);
    search.progress.finish();
    found?;
    let is_complete = !stop.load(Ordering::Relaxed);
    if command.output.json {
        let host = scenes[0].host.name.clone();
        say::json(&SimulateDocument::found(host, &all, is_complete))?;
    } else {
        say::out(&text(scenes, &all, is_complete))?;
    }
    if !is_complete {
        return Ok(Answer::Stopped);
    }
    Ok(Answer::yes_if(
        all.iter().all(|found| found.answer.most.is_some()),
    ))
}

fn check(command: &SimulateCommand, scenes: &[Scene]) -> Result<(), Failure> {
    if scenes.iter().any(|scene| scene.simulation.qos.is_empty()) {
        let text = "--find-max needs limits, and the scenario has no [[qos]]";
        return Err(Failure::new(text).help(
            "add, for example:\n[[qos]]\nworkload = \"oltp\"\nmetric = \"p99\"\nlimit = \"20ms\"",
        ));
    }
    let to = command.to.unwrap_or(LARGEST);
    if command.from > to || to > LARGEST {
        let text = format!("--from {} and --to {to} are no range", command.from);
        return Err(Failure::new(text).help(format!("give numbers of at most {LARGEST}")));
    }
    Ok(())
}

struct Search<'a> {
    command: &'a SimulateCommand,
    source: &'a Source<'a>,
    key: &'a str,
    stop: &'a AtomicBool,
    progress: Progress,
}

impl Search<'_> {
    fn all(&mut self, scenes: &[Scene], all: &mut Vec<Found>) -> Result<(), Failure> {
        for scene in scenes {
            for number in 0..scene.variants.len() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                all.push(self.one(scene, number)?);
            }
        }
        Ok(())
    }

    fn one(&mut self, scene: &Scene, number: usize) -> Result<Found, Failure> {
        let variant = &scene.variants[number];
        let mut steps: Vec<Step> = Vec::new();
        let to = self.command.to.unwrap_or(LARGEST);
        let answer = most(self.command.from, to, |value| {
            let step = match self.step(scene, number, value) {
                Ok(step) => step,
                // A value that no scenario can have is too much, unless it is the first.
                Err(failure) if steps.is_empty() => return Err(Some(failure)),
                Err(failure) => Some(Step {
                    value,
                    is_good: false,
                    seeds_met: 0,
                    seeds: 0,
                    bounds: Vec::new(),
                    refused: Some(failure.to_string()),
                }),
            };
            let Some(step) = step else { return Err(None) };
            let is_good = step.is_good;
            let name = variant.name(self.source.rules().len() > 1);
            self.progress
                .line(&format!("{name}: {}", step_text(self.key, &step)));
            steps.push(step);
            Ok(is_good)
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(Some(failure)) => return Err(failure),
            Err(None) => seen(&steps),
        };
        Ok(Found {
            point: scene.point.clone(),
            policy: variant.policy,
            rule: variant.rule.clone(),
            key: self.key.to_owned(),
            answer,
            steps,
        })
    }

    /// One value with all seeds; `None` if it was stopped.
    fn step(&mut self, scene: &Scene, number: usize, value: u64) -> Result<Option<Step>, Failure> {
        let mut assignments = scene.point.clone();
        assignments.push((self.key.to_owned(), value.to_string()));
        let mut scene = self.source.load(&assignments)?;
        // Whoever searches for one policy does not pay for the others.
        scene.variants = vec![scene.variants.swap_remove(number)];
        let seeds = self.source.seeds(&scene.simulation);
        let runs = seeds.len() as u64;
        let ns = runs.saturating_mul(scene.simulation.run.duration_ns);
        self.progress.add(runs, ns);
        let control = Control {
            threads: usize::from(self.command.threads),
            stop: self.stop,
            watch: &self.progress,
        };
        let mut study = study::study(&[scene], &seeds, control)?;
        if !study.is_complete {
            return Ok(None);
        }
        let run = study.scenes.pop().and_then(|mut runs| runs.pop());
        Ok(run.map(|run| step(value, run)))
    }
}

fn step(value: u64, run: Run) -> Step {
    Step {
        value,
        is_good: run.is_good(),
        seeds_met: run
            .bounds
            .iter()
            .map(|bound| bound.seeds_met)
            .min()
            .unwrap_or(0),
        seeds: run.seeds,
        bounds: run.bounds,
        refused: run.refused,
    }
}

/// What is known of steps that were interrupted.
fn seen(steps: &[Step]) -> Most {
    let good = steps.iter().filter(|step| step.is_good);
    let bad = steps.iter().filter(|step| !step.is_good);
    Most {
        most: good.map(|step| step.value).max(),
        too_much: bad.map(|step| step.value).min(),
    }
}

/// The most that is good, if everything below something good is good: first by doubling, then by halving what is between.
///
/// # Errors
/// What the oracle says.
fn most<E>(from: u64, to: u64, mut is_good: impl FnMut(u64) -> Result<bool, E>) -> Result<Most, E> {
    if !is_good(from)? {
        return Ok(Most {
            most: None,
            too_much: Some(from),
        });
    }
    let mut good = from;
    let mut bad = None;
    while bad.is_none() && good < to {
        let next = good.max(1).saturating_mul(2).min(to);
        if is_good(next)? {
            good = next;
        } else {
            bad = Some(next);
        }
    }
    let Some(mut bad) = bad else {
        return Ok(Most {
            most: Some(good),
            too_much: None,
        });
    };
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_good(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Most {
        most: Some(good),
        too_much: Some(bad),
    })
}

fn step_text(key: &str, step: &Step) -> String {
    let word = if step.is_good { "good" } else { "too much" };
    let why = match &step.refused {
        Some(why) => why.clone(),
        None => step
            .bounds
            .iter()
            .map(|bound| bound_text(bound, step.seeds))
            .collect::<Vec<_>>()
            .join("; "),
    };
    format!("{key} = {} is {word}: {why}", step.value)
}

fn text(scenes: &[Scene], all: &[Found], is_complete: bool) -> String {
    let style = say::style();
    let has_rules = all.iter().any(|found| found.rule != all[0].rule);
    let mut text = notes::paragraph(
        &format!(
            "Simulated, not measured, on {}: the most that meets every limit, over all seeds together",
            scenes[0].host.name
        ),
        style,
    );
    for found in all {
        let name = label(found.policy, &found.rule, has_rules);
        let point: String = found
            .point
            .iter()
            .map(|(key, value)| format!(", {key} = {value}"))
            .collect();
        text += &format!("\n{name}{point}\n");
        // On a terminal every step was told when it ended.
        let is_told = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let steps = if is_told { &[][..] } else { &found.steps };
        for step in steps {
            text += &notes::item(&step_text(&found.key, step), style);
        }
        text += &notes::paragraph(&answer_text(found), style);
    }
    if !is_complete {
        text += "\nIncomplete: it was stopped before the search had ended.\n";
    }
    text
}

fn answer_text(found: &Found) -> String {
    let key = &found.key;
    let tried = plural(found.steps.len(), "step");
    match (found.answer.most, found.answer.too_much) {
        (None, Some(first)) => format!("Not even {key} = {first} meets every limit."),
        (None, None) => "Nothing was run to its end.".to_owned(),
        (Some(most), None) => format!("At least {key} = {most} meets every limit ({tried})."),
        (Some(most), Some(bad)) => {
            let good = found.steps.iter().find(|step| step.value == most);
            let seeds = good.map_or_else(String::new, |step| {
                format!(", in {} of {} seeds by itself", step.seeds_met, step.seeds)
            });
            format!(
                "{key} = {most} is the most: it meets every limit{seeds}; {bad} does not ({tried})."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(from: u64, to: u64, capacity: u64) -> (Most, u32) {
        let mut asked = 0;
        let found = most::<()>(from, to, |value| {
            asked += 1;
            assert!((from..=to).contains(&value), "{value} was not asked for");
            Ok(value <= capacity)
        });
        (found.expect("the oracle never fails"), asked)
    }

    #[test]
    fn the_most_is_found_wherever_it_is() {
        for capacity in 0..70 {
            for (from, to) in [(1, 64), (3, 50), (0, 7), (5, 5), (1, LARGEST)] {
                let (found, asked) = search(from, to, capacity);
                let known = (capacity >= from).then_some(capacity.min(to));
                assert_eq!(found.most, known, "{capacity} in {from}..={to}");
                let too_much = match known {
                    None => Some(from),
                    Some(most) => (most < to).then_some(most + 1),
                };
                assert_eq!(found.too_much, too_much);
                assert!(asked <= 2 + 2 * 7, "{asked} questions for {capacity}");
            }
        }
    }

    #[test]
    fn an_oracle_that_fails_ends_the_search() {
        let mut asked = 0;
        let failed = most(1, 100, |value| {
            asked += 1;
            if value > 4 { Err("no more") } else { Ok(true) }
        });
        assert_eq!((failed, asked), (Err("no more"), 4));
    }
}
