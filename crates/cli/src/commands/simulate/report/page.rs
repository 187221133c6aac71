//! The page itself: what came out, charts, what was simulated, how to read it.

use plotters::style::RGBColor;
use sim::metrics::{Figure, Metric};
use sim::scenario::Library;

use super::super::request::{Scene, Source, label};
use super::super::study::{Part, Run, Study};
use super::super::words::{self, Verdict};
use super::super::{table, words::headline};
use super::bars::{Bar, bars, is_empty, percentiles};
use super::charts::{SIZE, hex, series};
use super::maps::{self, Shown, map};
use super::timeline::{colour, timeline};
use crate::draw::{clean, plural};
use crate::failure::Failure;

const STYLE: &str = include_str!("style.css");
/// VMs in the legend of a timeline.
const CHIPS: usize = 48;

/// The whole page.
///
/// # Errors
/// A chart that cannot be drawn: a mistake of ours.
pub(in super::super) fn page(
    source: &Source,
    scenes: &[Scene],
    study: &Study,
) -> Result<String, Failure> {
    let first = study.scenes.first().map_or(&[][..], Vec::as_slice);
    let title = match scenes.len() {
        1 => headline(first),
        points => format!("{} were simulated", plural(points, "point")),
    };
    let host = scenes.first().map_or("", |scene| scene.host.name.as_str());
    let mut body = format!(
        "<header><p class=\"tag\">simulated, not measured</p><h1>{}</h1><p class=\"muted\">vtopo {} · {}</p></header>\n",
        escape(&title),
        env!("CARGO_PKG_VERSION"),
        escape(&clean(host, 80)),
    );
    if !study.is_complete {
        body += "<p class=\"worse\">Incomplete: it was stopped before all runs had ended.</p>\n";
    }
    for (scene, runs) in scenes.iter().zip(&study.scenes) {
        body += &section(scene, runs, scenes.len() > 1)?;
    }
    if let Some(scene) = scenes.first() {
        body += &simulated(scene, source);
    }
    body += READING;
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>vtopo simulate: {}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(&title)
    ))
}

/// One point of the sweeps.
fn section(scene: &Scene, runs: &[Run], is_one_of_many: bool) -> Result<String, Failure> {
    let mut text = "<section class=\"point\">\n".to_owned();
    if is_one_of_many {
        let point: Vec<String> = scene
            .point
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        text += &format!(
            "<h2>{}</h2>\n<p>{}</p>\n",
            escape(&point.join(", ")),
            escape(&headline(runs))
        );
    }
    text += &format!("<p>{}</p>\n", escape(&table::heading(scene, runs)));
    for run in runs {
        if let Some(why) = &run.refused {
            text += &format!(
                "<p class=\"worse\">{} was not simulated: {}</p>\n",
                escape(run.policy),
                escape(why)
            );
        }
    }
    let there: Vec<&Run> = runs.iter().filter(|run| run.seeds > 0).collect();
    if there.is_empty() {
        return Ok(text + "</section>\n");
    }
    let has_rules = runs.iter().any(|run| run.rule != runs[0].rule);
    let names: Vec<String> = there
        .iter()
        .map(|run| label(run.policy, &run.rule, has_rules))
        .collect();
    text += &limits(&there, &names);
    text += &figures_table(&there, &names);
    text += &charts(&there, &names)?;
    text += &pictures(scene, &there, &names);
    for remark in table::remarks(runs) {
        text += &format!("<p class=\"muted\">{}</p>\n", escape(&remark));
    }
    Ok(text + "</section>\n")
}

fn limits(runs: &[&Run], names: &[String]) -> String {
    let mut items = String::new();
    for (run, name) in runs.iter().zip(names) {
        for bound in &run.bounds {
            let class = if bound.is_met() { "better" } else { "worse" };
            items += &format!(
                "<li><span class=\"{class}\">{}</span> {}: {}</li>\n",
                if bound.is_met() { "✓" } else { "✗" },
                escape(name),
                escape(&table::bound_text(bound, run.seeds))
            );
        }
    }
    if items.is_empty() {
        return items;
    }
    format!("<h2>Limits</h2>\n<ul>\n{items}</ul>\n")
}

fn figures_table(runs: &[&Run], names: &[String]) -> String {
    let wholes: Vec<&Part> = runs.iter().map(|run| &run.whole).collect();
    let workloads = runs[0].workloads.len();
    let mut text = "<h2>Figures</h2>\n".to_owned();
    let is_whole = |metric: Metric| workloads == 1 || !table::is_of_operations(metric);
    text += &one_table("all VMs", names, &wholes, is_whole);
    if workloads > 1 {
        for index in 0..workloads {
            let parts: Vec<&Part> = runs.iter().map(|run| &run.workloads[index]).collect();
            let title = clean(&parts[0].name, 60);
            text += &one_table(&title, names, &parts, table::is_of_operations);
        }
    }
    text
}

fn one_table(
    title: &str,
    names: &[String],
    parts: &[&Part],
    is_shown: impl Fn(Metric) -> bool,
) -> String {
    let head: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let against = if index > 0 {
                format!("<th>to {}</th>", escape(&names[0]))
            } else {
                String::new()
            };
            format!("<th>{}</th>{against}", escape(name))
        })
        .collect();
    let mut rows = String::new();
    for metric in Metric::all().filter(|metric| is_shown(*metric)) {
        let means = parts.iter().filter_map(|part| part.mean(metric));
        let largest = means.map(f64::abs).fold(0.0, f64::max);
        if largest <= 0.0 {
            continue;
        }
        let (unit, factor) = words::unit(metric, largest);
        rows += &format!(
            "<tr><td title=\"{}\">{} <small class=\"muted\">{unit}</small></td>",
            metric.about(),
            metric.name()
        );
        for (index, part) in parts.iter().enumerate() {
            rows += &cells(part.figure(metric), index > 0, factor);
        }
        rows += "</tr>\n";
    }
    format!(
        "<div class=\"card scroll\"><table><thead><tr><th>{}</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div><br>\n",
        escape(title)
    )
}

fn cells(figure: Option<&Figure>, has_difference: bool, factor: f64) -> String {
    let shown = figure.map(|figure| words::estimate(&figure.estimate.times(factor)));
    let mut text = format!("<td>{}</td>", shown.unwrap_or_default());
    if has_difference {
        let shown = figure.and_then(|figure| {
            let difference = figure.difference?;
            Some(words::difference(&difference, figure.metric.unit(), factor))
        });
        let class = match figure.map(words::verdict) {
            Some(Verdict::Better) => " class=\"better\"",
            Some(Verdict::Worse) => " class=\"worse\"",
            _ => "",
        };
        text += &format!("<td{class}>{}</td>", shown.unwrap_or_default());
    }
    text
}

fn charts(runs: &[&Run], names: &[String]) -> Result<String, Failure> {
    let bar = |part: &Part, metric: Metric| {
        let figure = part.figure(metric)?;
        let estimate = figure.estimate;
        Some(Bar {
            mean: estimate.mean,
            half: estimate.half,
        })
    };
    let layer = |metric: Metric| -> Vec<Option<Bar>> {
        runs.iter().map(|run| bar(&run.whole, metric)).collect()
    };
    let (mut figures, mut nothing) = (String::new(), Vec::new());
    for index in 0..runs[0].workloads.len() {
        let part = |run: &&Run| bar(&run.workloads[index], Metric::Throughput);
        let bars_of: Vec<Option<Bar>> = runs.iter().map(part).collect();
        let name = escape(&clean(&runs[0].workloads[index].name, 40));
        let title = format!("Throughput of {name}, operations a second");
        figures += &figure(
            &title,
            "More is better. Lines: 95 % interval over seeds.",
            &bars(names, &[bars_of], "")?,
        );
    }
    for (title, caption, layers) in [
        (
            "Waiting for a CPU, % of vCPU time",
            format!(
                "Less is better. {} ready, {} co-stop.",
                chip(series(0)),
                chip(series(1))
            ),
            vec![layer(Metric::Ready), layer(Metric::CoStop)],
        ),
        (
            "Moves to another LLC, a second and vCPU",
            "Less is better.".to_owned(),
            vec![layer(Metric::LlcMigrations)],
        ),
        (
            "Moves to another NUMA node, a second and vCPU",
            "Less is better.".to_owned(),
            vec![layer(Metric::NumaMigrations)],
        ),
        (
            "Core shared with another vCPU, % of running time",
            "Less is better; unavoidable where there are more busy vCPUs than cores.".to_owned(),
            vec![layer(Metric::SmtPaired)],
        ),
        (
            "On a home LLC, % of running time",
            "More is better: caches are warm there.".to_owned(),
            vec![layer(Metric::HomeLlc)],
        ),
    ] {
        if is_empty(&layers) {
            nothing.push(title.to_lowercase());
        } else {
            figures += &figure(title, &caption, &bars(names, &layers, "")?);
        }
    }
    Ok(format!(
        "<h2>Charts</h2>\n<div class=\"grid\">\n{figures}</div>\n{}{}",
        none(&nothing),
        latencies(runs, names)?
    ))
}

/// What needs no chart.
fn none(nothing: &[String]) -> String {
    if nothing.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"muted\">None in any run: {}.</p>\n",
        nothing.join("; ")
    )
}

/// Percentiles of each workload.
fn latencies(runs: &[&Run], names: &[String]) -> Result<String, Failure> {
    let mut text = "<h2>Latency</h2>\n<div class=\"grid\">\n".to_owned();
    let workloads = runs[0].workloads.len();
    for index in 0..workloads {
        let curves: Vec<_> = names
            .iter()
            .cloned()
            .zip(runs.iter().map(|run| &run.workloads[index].latencies))
            .collect();
        let size = if workloads > 1 { SIZE } else { (960, 360) };
        let name = escape(&clean(&runs[0].workloads[index].name, 40));
        text += &figure(
            &format!("Latency of {name} by percentile"),
            "All seeds together. Both axes are logarithmic: every step to the right is a tenth of the operations before.",
            &percentiles(&curves, size)?,
        );
    }
    Ok(text + "</div>\n")
}

fn pictures(scene: &Scene, runs: &[&Run], names: &[String]) -> String {
    let mut maps_text = String::new();
    let mut lines = String::new();
    for (run, name) in runs.iter().zip(names) {
        let Some(picture) = &run.picture else {
            continue;
        };
        let name = escape(name);
        if let Some((svg, shown)) = map(scene, picture) {
            let what = match shown {
                Shown::Bytes => "cache held",
                Shown::Time => "where vCPUs ran (the run says nothing of caches)",
            };
            maps_text += &figure(&format!("{name}: {what}"), "", &svg);
        }
        if let Some((svg, (from, to))) = timeline(scene, picture) {
            let caption = format!(
                "{:.2} ms of the first seed, from {:.2} ms on. Point at a span to see who ran.",
                (to - from) as f64 / 1e6,
                from as f64 / 1e6
            );
            lines += &format!(
                "<figure class=\"wide\"><h3>{name}: who ran where</h3>{svg}<figcaption>{caption}</figcaption></figure>\n"
            );
        }
    }
    let mut text = String::new();
    if !maps_text.is_empty() {
        let cut = if scene.simulation.members.len() > maps::MOST_VMS {
            format!(" The first {} VMs.", maps::MOST_VMS)
        } else {
            String::new()
        };
        text += &format!(
            "<h2>LLCs and VMs</h2>\n<p class=\"muted\">LLCs from left to right, VMs from top to bottom; the stronger the colour, \
             the more. First seed.{cut}</p>\n<div class=\"grid maps\">\n{maps_text}</div>\n"
        );
    }
    if !lines.is_empty() {
        text += &format!(
            "<h2>CPUs over time</h2>\n<p class=\"muted\">A line for each CPU, by LLC; a colour for each VM, a tone for each vCPU. \
             Gaps are idle time.</p>\n{lines}{}",
            chips(scene)
        );
    }
    text
}

fn chips(scene: &Scene) -> String {
    let members = &scene.simulation.members;
    let mut text = "<div class=\"chips\">".to_owned();
    for (vm, member) in (0_u32..).zip(members.iter().take(CHIPS)) {
        text += &format!(
            "<span><i style=\"background:{}\"></i>{}</span>",
            colour(vm, Some(1)),
            escape(&clean(&member.vm.name, 30))
        );
    }
    if members.len() > CHIPS {
        text += &format!("<span>and {} more</span>", members.len() - CHIPS);
    }
    text + "</div>\n"
}

/// Host, VMs, workloads with where their numbers come from, seeds.
fn simulated(scene: &Scene, source: &Source) -> String {
    let library = &source.library;
    let seeds = source.seeds(&scene.simulation);
    let host = &scene.host;
    let run = &scene.simulation.run;
    let mut text = format!(
        "<h2>What was simulated</h2>\n<div class=\"card\"><p>Host: {} ({}), {} with {}, {}, {}.</p>\n<p>Time: {} with a warm-up of {}. Seeds from {} on, as many as stand above.</p>\n",
        escape(&clean(&host.name, 80)),
        escape(&clean(&host.processor.model, 80)),
        plural(host.cores.len(), "core"),
        plural(host.cpus.len(), "thread"),
        plural(host.llcs.len(), "LLC"),
        plural(host.nodes.len(), "NUMA node"),
        model::duration::text(run.duration_ns),
        model::duration::text(run.warmup_ns),
        seeds.first().copied().unwrap_or(run.seed),
    );
    text += "<div class=\"scroll\"><table><thead><tr><th>VMs</th><th>vCPUs</th><th>memory</th><th>nominal load</th><th>workload</th></tr></thead><tbody>\n";
    for members in scene.simulation.members.chunk_by(|a, b| a.batch == b.batch) {
        let (first, last) = (&members[0], &members[members.len() - 1]);
        let names = if members.len() > 1 {
            format!(
                "{} … {}",
                clean(&first.vm.name, 30),
                clean(&last.vm.name, 30)
            )
        } else {
            clean(&first.vm.name, 30)
        };
        let workload = first.workload.map_or("idle", |index| {
            scene.simulation.workloads[index].name.as_str()
        });
        text += &format!(
            "<tr><td>{} <small class=\"muted\">({})</small></td><td>{}</td><td>{}</td><td>{} %</td><td>{}</td></tr>\n",
            escape(&names),
            members.len(),
            first.vm.vcpus,
            super::super::super::shape::memory(first.vm.memory_mib),
            first.vm.effective_load() / 10,
            escape(workload),
        );
    }
    text += "</tbody></table></div>\n";
    let mut names: Vec<&str> = Vec::new();
    for workload in &scene.simulation.workloads {
        if !names.contains(&workload.name.as_str()) {
            names.push(&workload.name);
        }
    }
    for name in names {
        text += &workload_sources(name, library);
    }
    text + "</div>\n"
}

fn workload_sources(name: &str, library: &Library) -> String {
    let figures = library.figures(name);
    let rows: String = figures
        .iter()
        .map(|figure| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td style=\"text-align:left;white-space:normal\">{}</td></tr>\n",
                escape(&figure.key),
                escape(&figure.value),
                escape(&figure.evidence),
                escape(&figure.source)
            )
        })
        .collect();
    if rows.is_empty() {
        return format!(
            "<p>Workload {}: as the scenario says.</p>\n",
            escape(&clean(name, 60))
        );
    }
    format!(
        "<details><summary>Workload {}: {} — its numbers and where they come from (before changes of the scenario)</summary>\n\
         <div class=\"scroll\"><table><thead><tr><th>key</th><th>value</th><th>evidence</th><th style=\"text-align:left\">source</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div></details>\n",
        escape(&clean(name, 60)),
        escape(library.summary(name)),
    )
}

fn figure(title: &str, caption: &str, svg: &str) -> String {
    format!("<figure><h3>{title}</h3>{svg}<figcaption>{caption}</figcaption></figure>\n")
}

fn chip(colour: RGBColor) -> String {
    format!(
        "<span class=\"chips\" style=\"display:inline\"><i style=\"background:{}\"></i></span>",
        hex(colour)
    )
}

fn escape(text: &str) -> String {
    svg::node::Text::new(text)
        .to_string()
        .replace('"', "&quot;")
}

const READING: &str = "<h2>How to read it</h2>\n<div class=\"card\"><ul>\n\
<li>Nothing here was measured. A simulation says what follows from its machine and workload numbers; where those are estimates, so is the result. Differences between policies are surer than the figures themselves.</li>\n\
<li>± is half of the 95 % confidence interval over seeds (Student's t). All policies see the same arrivals and the same work for a seed, and differences are taken seed by seed; a star, and colour, mark those whose interval excludes 0.</li>\n\
<li>Percentiles come from the latencies of all seeds together, never from a mean of percentiles.</li>\n\
<li>ready (%RDY) is time in which a vCPU had work and no CPU; costop (%CSTP) time in which it was stopped for slower siblings.</li>\n\
<li>evidence: M measured, L on a cited page, K constant of the kernel, S stated in a paper, G general knowledge, E estimate.</li>\n\
</ul></div>\n";
