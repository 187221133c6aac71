//! What all charts share: size, colours, and how a library's drawing follows the colours of the page.

use plotters::prelude::*;

use crate::failure::Failure;

/// Width and height of a chart, in units of the drawing; the page scales it.
pub(super) const SIZE: (u32, u32) = (420, 250);
/// Size of text in the same units.
pub(super) const TEXT: u32 = 17;

/// Stand for colours of the page, which a drawing cannot name: replaced by [`themed`].
pub(super) const INK: RGBColor = RGBColor(1, 2, 3);
pub(super) const GRID: RGBColor = RGBColor(4, 5, 6);

/// Series, after Okabe and Ito, in tones that read on white and on black.
const SERIES: [RGBColor; 7] = [
    RGBColor(0x3b, 0x8e, 0xc9),
    RGBColor(0xe0, 0x90, 0x1a),
    RGBColor(0x1b, 0x9e, 0x77),
    RGBColor(0xc2, 0x6a, 0x9d),
    RGBColor(0x62, 0xb6, 0xe7),
    RGBColor(0xb0, 0xa0, 0x20),
    RGBColor(0xd9, 0x5f, 0x0e),
];

/// The colour of a series; they repeat.
pub(super) fn series(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

/// The colour as in a style sheet.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A drawing as text, with `draw` on an empty area.
///
/// # Errors
/// The library cannot draw it: a mistake of ours.
pub(super) fn drawing<E: std::fmt::Display>(
    size: (u32, u32),
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), E>,
) -> Result<String, Failure> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).map_err(|error| Failure::new(format!("cannot draw a chart: {error}")))?;
        area.present()
            .map_err(|error| Failure::new(format!("cannot draw a chart: {error}")))?;
    }
    Ok(themed(&text, size))
}

/// A number of an axis, without zeros that say nothing.
pub(super) fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text of axes.
pub(super) fn text_style() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&INK)
}

/// The largest value of an axis that begins at 0.
pub(super) fn top(largest: f64) -> f64 {
    if largest > 0.0 { largest * 1.12 } else { 1.0 }
}

fn themed(text: &str, (width, height): (u32, u32)) -> String {
    let fixed = format!("<svg width=\"{width}\" height=\"{height}\" ");
    let themed = text
        .replace("#010203", "var(--ink)")
        .replace("#040506", "var(--grid)")
        .replacen(&fixed, "<svg role=\"img\" ", 1);
    // The page's own fonts.
    themed.replace("font-family=\"sans-serif\"", "font-family=\"inherit\"")
}
