//! One module a command: reads arguments, asks the crates that know, shows the answer.

mod check;
mod convert;
mod generate;
mod host;
mod place;
mod shape;
pub(crate) mod simulate;
mod verify;

use crate::args::{Cli, Command};
use crate::failure::Failure;

/// What a command that ran to its end has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Done, also with findings.
    Yes,
    /// Refused, different, or wrong.
    No,
    /// Ended by the user before everything was done.
    Stopped,
}

impl Answer {
    fn yes_if(condition: bool) -> Self {
        if condition { Self::Yes } else { Self::No }
    }
}

pub(crate) fn run(cli: Cli) -> Result<Answer, Failure> {
    match cli.command {
        Command::Host(command) => host::run(&command),
        Command::Shape(command) => shape::run(&command),
        Command::Verify(command) => verify::run(&command),
        Command::Place(command) => place::run(&command),
        Command::Simulate(command) => simulate::run(&command),
        Command::Convert(command) => convert::run(&command),
        Command::Check(command) => check::run(&command),
        Command::Completions(command) => generate::completions(&command),
        Command::Man(command) => generate::man(&command),
    }
}
