//! `vtopo host`.

use model::{Host, host_file};
use serde::Serialize;

use super::Answer;
use crate::args::HostCommand;
use crate::draw::{host_svg, host_text};
use crate::failure::Failure;
use crate::json::HostDocument;
use crate::{files, hosts, say};

pub(super) fn run(command: &HostCommand) -> Result<Answer, Failure> {
    if command.list {
        return list(command);
    }
    let host = hosts::host(&command.host, &command.firmware)?;
    if let Some(path) = &command.svg {
        files::write_text(path, &host_svg(&host))?;
        say::remark(&format!("picture written to {}", path.display()));
    }
    if let Some(path) = &command.toml {
        files::write_text(path, &host_file::write(&host))?;
    }
    if command.output.json {
        say::json(&HostDocument::new(&host))?;
    } else if command.svg.is_none() && command.toml.is_none() {
        say::out(&host_text(&host, say::style()))?;
    }
    let problem = command.output.strict && say::has_problem(&model::host::findings(&host));
    Ok(Answer::yes_if(!problem))
}

#[derive(Serialize)]
struct PresetDocument {
    name: &'static str,
    processor: String,
    packages: usize,
    nodes: usize,
    llcs: usize,
    cores: usize,
    cpus: usize,
    memory_mib: u64,
}

#[derive(Serialize)]
struct ListDocument {
    presets: Vec<PresetDocument>,
}

fn list(command: &HostCommand) -> Result<Answer, Failure> {
    let presets = hosts::preset_names()
        .into_iter()
        .map(|name| {
            let host = hosts::preset(name).expect("the name comes from the list")?;
            Ok(PresetDocument::new(name, &host))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    if command.output.json {
        say::json(&ListDocument { presets })?;
    } else {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "preset",
            "processor",
            "packages",
            "nodes",
            "LLCs",
            "cores",
            "CPUs",
            "memory",
        ]);
        for preset in &presets {
            let counts = [
                preset.packages,
                preset.nodes,
                preset.llcs,
                preset.cores,
                preset.cpus,
            ];
            let mut row = vec![preset.name.to_owned(), preset.processor.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(format!("{} GiB", preset.memory_mib / 1024));
            table.add_row(row);
        }
        say::out(&format!("{}\n", table.trim_fmt()))?;
    }
    Ok(Answer::Yes)
}

impl PresetDocument {
    fn new(name: &'static str, host: &Host) -> Self {
        Self {
            name,
            processor: host.processor.model.clone(),
            packages: host.packages.len(),
            nodes: host.nodes.len(),
            llcs: host.llcs.len(),
            cores: host.cores.len(),
            cpus: host.cpus.len(),
            memory_mib: host.memory_mib(),
        }
    }
}
