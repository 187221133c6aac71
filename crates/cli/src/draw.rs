//! Drawings for people: machines and guests as text and as SVG.
//!
//! ```text
//!   Host ───────────┐                                    ┌─ boxes ──────── host_text, guest_text
//!                   ├─ parts::Machine ─ collapse ─ Part ─┤
//!   GuestTopology ──┘                                    └─ layout, paint ─ host_svg
//!   Host ─ facts (captions) ─ host_text, host_svg          Finding ─ notes
//! ```
//!
//! ```
//! use cli::draw::{Style, host_text};
//! let host = model::host::Synthetic { cores_per_llc: 2, llc_mib: 16, ..Default::default() }.host("vm");
//! assert!(host_text(&host, Style::default()).contains("vm"));
//! ```
//!
//! Vocabulary: a *part* is a box of the picture (packages, nodes, dies and LLCs that hold the same CPUs are one part), a
//! *tile* is a core, a *fact* is a caption below the picture.
//!
//! Invariants: no I/O; equal input gives equal output; no line of text is wider than asked; no text of a host reaches
//! the terminal or the XML with control characters.

mod boxes;
mod collapse;
mod facts;
pub mod guest_text;
pub mod host_svg;
pub mod host_text;
pub mod notes;
pub mod palette;
mod parts;
mod place_labels;
mod place_seats;
#[cfg(test)]
mod place_tests;
pub mod place_text;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod text;
mod units;

pub use guest_text::guest_text;
pub use host_svg::{host_svg, place_svg};
pub use host_text::host_text;
pub use place_seats::PlaceView;
pub use place_text::{Detail, place_legend, place_text};
pub(crate) use units::{clean, mib, plural};

/// How text is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; less than [`MIN_WIDTH`] counts as that.
    pub width: usize,
    /// Whether ANSI colours are written.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
        }
    }
}

/// The narrowest drawing, in columns: a title with three names and its frame.
pub const MIN_WIDTH: usize = 48;
