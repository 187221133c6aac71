//! Changing a command line without touching what is not ours.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use super::super::cpu_model::Model;
use super::super::smp::{
    Spelling, memory_mib, problems, same_llcs, same_slots, smp_cache, unmoved_devices,
};
use super::super::splice::Splices;
use super::super::{ParseError, Target, Written};
use super::options::Options;
use super::parse::CommandLine;
use super::words::{Style, quoted};
use super::{read, write};
use crate::finding::Finding;
use crate::guest::GuestTopology;
use crate::vm::{GuestCpu, Spec};

/// Edits a command line; see [`edit`](super::edit).
pub(super) fn edit(text: &str, spec: &Spec, target: Target) -> Result<Written, ParseError> {
    let line = CommandLine::parse(text)?;
    let old = read::spec(&line.says);
    let mut edit = Edit::new(&line);
    let mut findings = Vec::new();
    if memory_mib(spec) != memory_mib(&old) {
        edit.memory(memory_mib(spec));
    }
    match &spec.topology {
        Some(topology) => findings.extend(edit.topology(spec, topology, &old, target)),
        None if (spec.vcpus, spec.max_vcpus) != (old.vcpus, old.max_vcpus) => {
            edit.set_option("smp", write::flat_smp(spec));
        }
        None => {}
    }
    nodes::edit(&mut edit, spec, &old, target);
    findings.extend(unmoved_devices(spec, &old));
    Ok(Written {
        text: edit.apply(text),
        findings,
    })
}

/// Changes to the options of a command line, by their index.
struct Edit<'a> {
    line: &'a CommandLine,
    values: BTreeMap<usize, String>,
    removed: BTreeSet<usize>,
    /// New options with the index of the option they follow; without one they come last.
    added: Vec<(Option<usize>, &'static str, String)>,
}

impl<'a> Edit<'a> {
    fn new(line: &'a CommandLine) -> Self {
        Self {
            line,
            values: BTreeMap::new(),
            removed: BTreeSet::new(),
            added: Vec::new(),
        }
    }

    /// Levels, vCPUs, LLCs and the CPU model.
    fn topology(
        &mut self,
        spec: &Spec,
        topology: &GuestTopology,
        old: &Spec,
        target: Target,
    ) -> Vec<Finding> {
        let was = old.topology.as_ref();
        let same_cpus = was.is_some_and(|was| same_slots(was, topology));
        let same_llcs = was.is_some_and(|was| same_llcs(was, topology));
        let renamed = spec.cpu != GuestCpu::Unstated && spec.cpu != old.cpu;
        if same_cpus && same_llcs && !renamed {
            return Vec::new();
        }
        let spelled = Spelling::new(topology, target.qemu_major);
        let mut findings = problems(spec);
        findings.extend(spelled.findings.clone());
        if !same_cpus {
            self.set_option("smp", write::smp(topology, &spelled));
            self.change_machines(|_, options| options.retain(|key| !key.starts_with("smp.")));
        }
        self.caches(&spelled);
        let cpu = if renamed { &spec.cpu } else { &old.cpu };
        let model = Model::new(cpu, &spelled, target);
        findings.extend(model.findings.clone());
        findings.extend(self.cpu(&model, renamed, &spelled));
        findings
    }

    /// `smp-cache` entries: the L3 where it is wanted, others as long as they are not shared wider than it.
    fn caches(&mut self, spelled: &Spelling) {
        let wanted = spelled.llc.filter(|_| spelled.modern);
        let machine = &self.line.says.machine;
        if machine.llc_level() == wanted {
            return;
        }
        let keys = smp_cache(&machine.caches, spelled.llc, wanted);
        let is_ours = |key: &str| key.starts_with("smp-cache.");
        let machines = || self.indices("machine").chain(self.indices("M"));
        let stated = |&option: &usize| {
            Options::parse(self.value(option), "type")
                .iter()
                .any(|(key, _)| is_ours(key))
        };
        // QEMU joins the lists of several -machine, so one of them has to say it all.
        let place = machines().find(stated).or(self.first_machine());
        self.change_machines(|option, options| {
            let here = Some(option) == place;
            options.retain(|key| !is_ours(key) || here && keys.iter().any(|(ours, _)| ours == key));
        });
        for (key, value) in &keys {
            self.set_machine(place, key, value);
        }
    }

    /// The model's name, when a new one is asked for, and the properties without which the guest would not see the
    /// topology.
    fn cpu(&mut self, model: &Model, renamed: bool, spelled: &Spelling) -> Option<Finding> {
        let option = self.last("cpu");
        let mut options = Options::parse(
            option.map_or(&model.name, |option| self.value(option)),
            "model",
        );
        if renamed {
            options.set("model", &model.name);
        }
        for (key, value) in &model.properties {
            if options.value(key) != Some(value) {
                options.set(key, value);
            }
        }
        if spelled.llc.is_some() {
            // Both would hide the LLCs we state.
            if options.is_on("host-cache-info") {
                options.set("host-cache-info", "off");
            }
            if options.is_off("l3-cache") || !spelled.modern {
                options.set("l3-cache", "on");
            }
        } else if options.is_on("l3-cache") {
            // QEMU's default; spelled out it states one L3 per die.
            options.retain(|key| key != "l3-cache");
        }
        let text = options.to_text();
        match option {
            Some(option) => {
                self.values.insert(option, text);
            }
            None if renamed => self.add(self.anchor(), "cpu", text),
            None if !model.properties.is_empty() => {
                let advice = format!(
                    "there is no -cpu, so the guest gets QEMU's default model; add -cpu {text} for it to see its topology"
                );
                return Some(Finding::warning("no-cpu-model", advice));
            }
            None => {}
        }
        None
    }

    fn memory(&mut self, memory_mib: u64) {
        let option = self.last("m");
        let mut options = Options::parse(option.map_or("", |option| self.value(option)), "size");
        options.set("size", &format!("{memory_mib}M"));
        match option {
            Some(option) => {
                self.values.insert(option, options.to_text());
            }
            None => self.add(self.anchor(), "m", format!("{memory_mib}M")),
        }
    }

    /// Makes an option stand once, with a value.
    fn set_option(&mut self, name: &'static str, value: String) {
        let last = self.last(name);
        let all = self.indices(name).filter(|&index| Some(index) != last);
        self.removed.extend(all.collect::<Vec<_>>());
        match last {
            Some(option) => {
                self.values.insert(option, value);
            }
            None => self.add(self.anchor(), name, value),
        }
    }

    /// Changes the values of all `-machine`; one that says nothing any more is taken out.
    fn change_machines(&mut self, change: impl Fn(usize, &mut Options)) {
        let machines: Vec<usize> = self.indices("machine").chain(self.indices("M")).collect();
        for option in machines {
            let mut options = Options::parse(self.value(option), "type");
            let before = options.clone();
            change(option, &mut options);
            if options.iter().next().is_none() {
                self.removed.insert(option);
            } else if options != before {
                self.values.insert(option, options.to_text());
            }
        }
    }

    /// Sets a key of a `-machine`; without one, of the one that is about to be added.
    fn set_machine(&mut self, place: Option<usize>, key: &str, value: &str) {
        let added = self
            .added
            .iter()
            .position(|(_, name, _)| *name == "machine");
        let text = match (place, added) {
            (Some(option), _) => self.value(option),
            (None, Some(added)) => &self.added[added].2,
            (None, None) => "",
        };
        let mut options = Options::parse(text, "type");
        options.set(key, value);
        match (place, added) {
            (Some(option), _) => {
                self.values.insert(option, options.to_text());
            }
            (None, Some(added)) => self.added[added].2 = options.to_text(),
            (None, None) => self.add(self.anchor(), "machine", options.to_text()),
        }
    }

    /// The first `-machine` that stays.
    fn first_machine(&self) -> Option<usize> {
        self.indices("machine")
            .next()
            .or_else(|| self.indices("M").next())
    }

    fn add(&mut self, after: Option<usize>, name: &'static str, value: String) {
        self.added.push((after, name, value));
    }

    /// The option that new ones follow when they have no better place.
    fn anchor(&self) -> Option<usize> {
        ["smp", "m", "cpu", "machine", "M", "name"]
            .into_iter()
            .find_map(|name| self.last(name))
    }

    fn indices(&self, name: &'static str) -> impl Iterator<Item = usize> + '_ {
        let options = self.line.options.iter().enumerate();
        options
            .filter(move |(index, option)| option.name == name && !self.removed.contains(index))
            .map(|(index, _)| index)
    }

    fn last(&self, name: &'static str) -> Option<usize> {
        self.indices(name).last()
    }

    /// The value of an option as it will be.
    fn value(&self, option: usize) -> &str {
        let word = self.line.options[option].value;
        self.values
            .get(&option)
            .unwrap_or(&self.line.words[word].value)
    }

    fn apply(self, text: &str) -> String {
        let (words, style) = (&self.line.words, self.line.style);
        let mut splices = Splices::default();
        for (&option, value) in &self.values {
            let word = &words[self.line.options[option].value];
            if word.value != *value && !self.removed.contains(&option) {
                splices.replace(word.span.clone(), quoted(value, style));
            }
        }
        for &option in &self.removed {
            splices.remove(self.line.span_with_separator(&self.line.options[option]));
        }
        for (after, name, value) in &self.added {
            let (at, before, within) = self.place(text, *after);
            splices.insert(
                at,
                format!("{before}-{name}{within}{}", quoted(value, style)),
            );
        }
        splices.apply(text)
    }

    /// Where a new option goes, and the separators before it and before its value: those of the option it follows.
    fn place(&self, text: &'a str, after: Option<usize>) -> (usize, &'a str, &'a str) {
        let words = &self.line.words;
        let default = if self.line.style == Style::Lines {
            "\n"
        } else {
            " "
        };
        let gap = |word: usize| {
            let before = word.checked_sub(1)?;
            let gap = text.get(words[before].span.end..words[word].span.start)?;
            let blank = gap.chars().all(|char| char.is_whitespace() || char == '\\');
            (blank && !gap.is_empty()).then_some(gap)
        };
        let Some(option) = after.map(|after| &self.line.options[after]) else {
            return (
                words.last().map_or(0, |word| word.span.end),
                default,
                default,
            );
        };
        let before = gap(option.word).unwrap_or(default);
        (
            words[option.value].span.end,
            before,
            gap(option.value).unwrap_or(default),
        )
    }
}
