//! `vtopo completions` and `vtopo man`.

use clap::CommandFactory;
use serde::Serialize;

use super::Answer;
use crate::args::{Cli, CompletionsCommand, ManCommand};
use crate::failure::Failure;
use crate::say;

#[derive(Serialize)]
struct GeneratedDocument {
    name: String,
    text: String,
}

pub(super) fn completions(command: &CompletionsCommand) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Cli::command(), "vtopo", &mut script);
    show(command.shell.to_string(), &script, command.json)
}

pub(super) fn man(command: &ManCommand) -> Result<Answer, Failure> {
    let mut vtopo = Cli::command();
    vtopo.build();
    let (name, page) = match &command.command {
        None => ("vtopo".to_owned(), vtopo),
        Some(name) => {
            if let Some(found) = vtopo.find_subcommand(name) {
                (format!("vtopo-{name}"), found.clone())
            } else {
                let names: Vec<&str> = vtopo
                    .get_subcommands()
                    .map(clap::Command::get_name)
                    .collect();
                return Err(Failure::new(format!("vtopo has no command {name:?}"))
                    .help(format!("commands: {}", names.join(", "))));
            }
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .title(name.to_uppercase())
        .render(&mut text)
        .map_err(Failure::output)?;
    show(name, &text, command.json)
}

fn show(name: String, text: &[u8], json: bool) -> Result<Answer, Failure> {
    let text = String::from_utf8_lossy(text).into_owned();
    if json {
        say::json(&GeneratedDocument { name, text })?;
    } else {
        say::out(&text)?;
    }
    Ok(Answer::Yes)
}
