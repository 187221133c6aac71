//! What went wrong, for a person: what was asked, what was found, what to do.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use miette::{Diagnostic, LabeledSpan, NamedSource, Report};

/// An error that ends the run with exit code 2.
#[derive(Debug)]
pub struct Failure {
    message: String,
    help: Option<String>,
    source: Option<Box<(NamedSource<String>, Range<usize>)>>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// To be reported.
    Told,
    /// Already reported by the argument parser.
    Shown,
    /// The reader of our output went away.
    BrokenPipe,
}

impl Failure {
    /// What was asked and what was found.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            source: None,
            kind: Kind::Told,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Where in a file.
    #[must_use]
    pub fn at(mut self, file: &str, text: &str, span: Range<usize>) -> Self {
        // A page of context is enough; a hostile file may have one line of megabytes.
        if text.len() <= 1 << 20
            && text.lines().all(|line| line.len() <= 2000)
            && span.end <= text.len()
        {
            self.source = Some(Box::new((NamedSource::new(file, text.to_owned()), span)));
        } else {
            self.message = format!("{file}: {}", self.message);
        }
        self
    }

    /// Output could not be written.
    #[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
    pub fn output(error: io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::BrokenPipe {
            Kind::BrokenPipe
        } else {
            Kind::Told
        };
        Self {
            kind,
            ..Self::new(format!("cannot write the output: {error}"))
        }
    }

    /// A file could not be read or written.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let help = match (doing, error.kind()) {
            (_, io::ErrorKind::PermissionDenied) => {
                "change its permissions, or run as a user who may"
            }
            ("write", io::ErrorKind::NotFound) => "give a file in a folder that exists",
            ("write", _) => "give a file in a folder that can be written",
            _ => "check the path, or give `-` for standard input",
        };
        Self::new(format!("cannot {doing} {}: {error}", path.display())).help(help)
    }

    pub(crate) fn shown() -> Self {
        Self {
            kind: Kind::Shown,
            ..Self::new(String::new())
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.kind == Kind::BrokenPipe
    }

    /// Prints the failure to standard error.
    pub(crate) fn report(self) {
        use std::io::Write;
        if self.kind == Kind::Told {
            // Nothing is left to tell when standard error is gone, too.
            let _ = writeln!(io::stderr(), "{:?}", Report::new(self));
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Diagnostic for Failure {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.source
            .as_ref()
            .map(|place| &place.0 as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = &self.source.as_ref()?.1;
        let label = LabeledSpan::new(Some("here".into()), span.start, span.len());
        Some(Box::new(std::iter::once(label)))
    }
}
