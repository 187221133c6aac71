//! Charts of figures: bars with intervals, stacked bars, curves of percentiles.

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::super::words;
use super::charts::{GRID, INK, SIZE, TEXT, drawing, series, text_style, tick, top};
use crate::failure::Failure;

/// A bar: its middle, and half its interval if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bar {
    pub(super) mean: f64,
    pub(super) half: Option<f64>,
}

/// Whether every bar of every layer is nothing.
pub(super) fn is_empty(layers: &[Vec<Option<Bar>>]) -> bool {
    layers.iter().flatten().flatten().all(|bar| bar.mean <= 0.0)
}

/// Bars of one figure, one for each name. `layers` is drawn on top of each other.
pub(super) fn bars(
    names: &[String],
    layers: &[Vec<Option<Bar>>],
    unit: &str,
) -> Result<String, Failure> {
    let count = i32::try_from(names.len()).unwrap_or(i32::MAX).max(1);
    drawing(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .x_label_area_size(28)
            .y_label_area_size(70)
            .build_cartesian_2d((0..count - 1).into_segmented(), 0.0..top(highest(layers)))?;
        let name = |value: &SegmentValue<i32>| name_at(names, value);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text_style())
            .axis_desc_style(text_style())
            .x_labels(names.len())
            .x_label_formatter(&name)
            .y_labels(6)
            .y_label_formatter(&|value| tick(*value))
            .y_desc(unit)
            .draw()?;
        for index in 0..names.len() {
            let place = i32::try_from(index).unwrap_or(i32::MAX);
            let mut base = 0.0;
            for (depth, layer) in layers.iter().enumerate() {
                let Some(bar) = layer[index] else { continue };
                let colour = if layers.len() > 1 {
                    series(depth)
                } else {
                    series(index)
                };
                let corners = [
                    (SegmentValue::Exact(place), base),
                    (SegmentValue::Exact(place + 1), base + bar.mean),
                ];
                let mut shape = Rectangle::new(corners, colour.filled());
                let margin = bar_margin(names.len());
                shape.set_margin(0, 0, margin, margin);
                chart.draw_series([shape])?;
                base += bar.mean;
                if let (Some(half), 1) = (bar.half, layers.len()) {
                    let (low, high) = ((bar.mean - half).max(0.0), bar.mean + half);
                    chart.draw_series([ErrorBar::new_vertical(
                        SegmentValue::CenterOf(place),
                        low,
                        bar.mean,
                        high,
                        INK.stroke_width(1),
                        7,
                    )])?;
                }
            }
            let spot = EmptyElement::at((SegmentValue::CenterOf(place), base))
                + Text::new(words::number(base), (9, -3), above());
            chart.draw_series([spot])?;
        }
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })
}

/// The name below a bar.
fn name_at(names: &[String], value: &SegmentValue<i32>) -> String {
    let SegmentValue::CenterOf(index) = value else {
        return String::new();
    };
    let index = usize::try_from(*index).unwrap_or(usize::MAX);
    names.get(index).cloned().unwrap_or_default()
}

/// The highest end of a stack or an interval.
fn highest(layers: &[Vec<Option<Bar>>]) -> f64 {
    let names = layers.first().map_or(0, Vec::len);
    let mean = |bar: Option<Bar>| bar.map_or(0.0, |bar| bar.mean);
    let sum = |index: usize| layers.iter().map(|layer| mean(layer[index])).sum::<f64>();
    let end = |bar: &Bar| bar.mean + bar.half.unwrap_or(0.0);
    let ends = layers.iter().flatten().flatten().map(end);
    (0..names).map(sum).chain(ends).fold(0.0, f64::max)
}

/// Text on top of a bar.
fn above() -> TextStyle<'static> {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    text_style().pos(Pos::new(HPos::Left, VPos::Bottom))
}

/// Room beside a bar, in units of the drawing.
fn bar_margin(bars: usize) -> u32 {
    let room = SIZE.0.saturating_sub(90) / u32::try_from(bars.max(1)).unwrap_or(1);
    (room / 5).max(1)
}

/// Latency by percentile, one curve for each name, both axes so that the slow tail can be seen.
pub(super) fn percentiles(
    curves: &[(String, &Histogram<u64>)],
    (width, height): (u32, u32),
) -> Result<String, Failure> {
    // A percentile that fewer than ten operations are beyond says nothing.
    let most = curves
        .iter()
        .map(|(_, latencies)| latencies.len())
        .max()
        .unwrap_or(0);
    let nines = ((most as f64 / 10.0).max(10.0).log10()).clamp(1.0, 5.0);
    let point = |latencies: &Histogram<u64>, step: u32| {
        let x = nines * f64::from(step) / 200.0;
        let quantile = 1.0 - 10_f64.powf(-x);
        (x, latencies.value_at_quantile(quantile) as f64 / 1e3)
    };
    let there = curves.iter().filter(|(_, latencies)| !latencies.is_empty());
    let lines: Vec<(&String, Vec<(f64, f64)>)> = there
        .map(|(name, latencies)| (name, (0..=200).map(|step| point(latencies, step)).collect()))
        .collect();
    let values = || {
        lines
            .iter()
            .flat_map(|(_, line)| line.iter().map(|point| point.1))
    };
    let low = values().fold(f64::MAX, f64::min).clamp(0.001, 1e12) / 1.15;
    let high = values().fold(low * 2.0, f64::max) * 1.15;
    drawing((width, height), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(34)
            .x_label_area_size(48)
            .y_label_area_size(74)
            .build_cartesian_2d(0.0..nines, (low..high).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text_style())
            .axis_desc_style(text_style())
            .x_labels(lines_across(nines))
            .y_labels(12)
            .x_label_formatter(&|x| percentile(*x))
            .y_label_formatter(&|us| round_time(*us))
            .x_desc("share of the operations that are at most as slow")
            .draw()?;
        for (index, (name, line)) in lines.iter().enumerate() {
            let colour = series(index);
            chart
                .draw_series(LineSeries::new(line.clone(), colour.stroke_width(2)))?
                .label(name.as_str())
                .legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(3))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", TEXT).into_font().color(&INK))
            .border_style(TRANSPARENT)
            .background_style(TRANSPARENT)
            .draw()?;
        Ok::<(), DrawingAreaErrorKind<_>>(())
    })
}

/// A line for each nine, and one at the beginning.
fn lines_across(nines: f64) -> usize {
    (1..=6).take_while(|line| f64::from(*line) <= nines).count() + 1
}

/// The percentile at a number of nines: 0, 90, 99, 99.9 %.
fn percentile(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10_f64.powf(-nines));
    format!("{} %", tick(percent))
}

/// The time at a line of the axis: 1, 2 and 5 of every power of ten, which have room.
fn round_time(us: f64) -> String {
    let digit = us / 10_f64.powf(us.log10().floor());
    let is_round = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .any(|round: f64| (digit - round).abs() < 1e-6);
    if is_round { time(us) } else { String::new() }
}

/// Microseconds as a person writes them.
fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "us"),
    };
    let text = format!("{value:.2}");
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}
