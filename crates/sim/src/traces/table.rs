//! Tables in CSV: a header says which column is what, then one row on a line.

use csv_core::{ReadRecordResult, Reader};

use super::number::shown;

/// Columns of a row; ours. The formats here have at most eight.
const MAX_COLUMNS: usize = 64;

/// Splits lines into fields; keeps its buffers from line to line.
#[derive(Debug)]
pub(super) struct Splitter {
    reader: Reader,
    text: Vec<u8>,
    ends: [usize; MAX_COLUMNS],
    count: usize,
}

/// Which column of a row is which of the columns a format knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// By the format's column: the column in the text.
    places: Vec<Option<usize>>,
    columns: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            reader: Reader::new(),
            text: Vec::new(),
            ends: [0; MAX_COLUMNS],
            count: 0,
        }
    }
}

impl Splitter {
    /// Takes a line apart; false if there is nothing on it.
    pub(super) fn split(&mut self, line: &str) -> Result<bool, String> {
        self.reader.reset();
        self.count = 0;
        if line.trim().is_empty() {
            return Ok(false);
        }
        // Unquoting only ever shortens.
        self.text.resize(line.len() + 1, 0);
        let mut input = line.as_bytes();
        let mut written = 0;
        loop {
            let (result, read, wrote, ended) = self.reader.read_record(
                input,
                &mut self.text[written..],
                &mut self.ends[self.count..],
            );
            input = &input[read..];
            written += wrote;
            self.count += ended;
            match result {
                // The reader wants an empty input as the sign that nothing follows.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => {
                    if input.is_empty() {
                        return Ok(true);
                    }
                    return Err("a line break stands inside the line".to_owned());
                }
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(format!("the row has more than {MAX_COLUMNS} columns"));
                }
            }
        }
    }

    /// A field of the last line.
    pub(super) fn field(&self, column: usize) -> &str {
        if column >= self.count {
            return "";
        }
        let start = match column {
            0 => 0,
            _ => self.ends[column - 1],
        };
        // Fields end where characters end, for the separators are ASCII.
        std::str::from_utf8(&self.text[start..self.ends[column]])
            .unwrap_or_default()
            .trim()
    }

    /// Fields of the last line.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|column| self.field(column))
    }
}

impl Header {
    /// The header on the last line, of a format that knows these columns and cannot do without the first `needed` of them.
    pub(super) fn read(splitter: &Splitter, known: &[&str], needed: usize) -> Result<Self, String> {
        let mut places = vec![None; known.len()];
        for (column, name) in splitter.fields().enumerate() {
            let Some(place) = known.iter().position(|it| *it == name) else {
                return Err(format!(
                    "unknown column '{}'; the columns are {}",
                    shown(name),
                    known.join(", ")
                ));
            };
            if places[place].replace(column).is_some() {
                return Err(format!("the column '{name}' is there twice"));
            }
        }
        for (name, place) in known.iter().zip(&places).take(needed) {
            if place.is_none() {
                return Err(format!("there is no column '{name}'"));
            }
        }
        Ok(Self {
            places,
            columns: splitter.len(),
        })
    }

    /// Whether the last line has as many fields as the header.
    pub(super) fn check_row(&self, splitter: &Splitter) -> Result<(), String> {
        if splitter.len() == self.columns {
            return Ok(());
        }
        Err(format!(
            "the row has {} fields, its header has {}",
            splitter.len(),
            self.columns
        ))
    }

    /// The field of a column the format knows, by its index there; empty if the text has no such column.
    pub(super) fn field<'a>(&self, splitter: &'a Splitter, known: usize) -> &'a str {
        self.places[known].map_or("", |column| splitter.field(column))
    }
}
