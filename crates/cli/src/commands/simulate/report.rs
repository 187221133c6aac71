//! The page of `--report`.
use super::request::{Scene, Source};
use super::study::Study;
use crate::failure::Failure;

pub(super) fn page(_source: &Source, _scenes: &[Scene], _study: &Study) -> Result<String, Failure> {
    Ok(String::new())
}
