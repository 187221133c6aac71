//! The page of `--report`: one file with everything in it, for light and dark screens.

mod bars;
mod charts;
mod maps;
mod page;
mod timeline;

pub(super) use page::page;
