//! A placement as a picture: the machine with the VM on every thread.

use model::CpuId;
use model::placement::VmId;
use svg::node::element::Group;

use super::layout::{Scale, lay_out, measure};
use super::paint::{Label, Occupant, rectangle};
use super::{FONT, LINE, MARGIN, NARROWEST, Sheet, WIDTH};
use crate::draw::palette::{FORBIDDEN_FILL, OFFLINE_FILL, Role, VM_COLOURS};
use crate::draw::parts::Machine;
use crate::draw::place_labels::{self, Labels};
use crate::draw::place_seats::{PlaceView, Seat, Seats};
use crate::draw::text::flow;
use crate::draw::units::{clean, plural};

/// Fill of a thread where nobody sits.
const FREE_FILL: &str = "#ffffff";
/// Entries of the list of VMs at most.
const LEGEND: usize = 120;

/// Draws who sits where as SVG, with sentences below; self-contained, VM names as tooltips. Ends with a line feed.
pub fn place_svg(view: &PlaceView, sentences: &[String]) -> String {
    let parts = Machine::of_host(view.host).parts();
    let scale = Scale::of(view.host.cpus.len());
    let machine = lay_out(&parts, scale, WIDTH - 2 * MARGIN);
    let width = (machine.w + 2 * MARGIN).max(NARROWEST);
    let mut sheet = Sheet {
        left: MARGIN,
        right: width - MARGIN,
        y: MARGIN,
        elements: Vec::new(),
    };
    sheet.header(view.host);
    let (seats, labels) = (Seats::new(view), Labels::new(view.vms.len()));
    sheet.figure(machine, scale, &|cpu| {
        Some(occupant(view, &seats, labels, cpu))
    });
    vms(&mut sheet, view, labels);
    signs(&mut sheet, view, &seats);
    for sentence in sentences {
        for line in flow(&[clean(sentence, 2000)], " ", false, sheet.columns(FONT, 0)) {
            sheet.line(sheet.left, Role::Plain, FONT, &line);
        }
    }
    let name = clean(&view.host.name, 200);
    format!("{}\n", sheet.finish(&name))
}

fn occupant(view: &PlaceView, seats: &Seats, labels: Labels, cpu: CpuId) -> Occupant {
    let empty = |fill, what: &str| Occupant {
        fill,
        text: String::new(),
        tooltip: format!("CPU {cpu}: {what}"),
    };
    match seats.first(cpu) {
        Seat::Free => empty(FREE_FILL, "free"),
        Seat::Reserved => empty("url(#hatch)", "reserved"),
        Seat::Isolated => empty(FORBIDDEN_FILL, "isolated, for dedicated VMs"),
        Seat::KeptFree => empty(OFFLINE_FILL, "kept free beside a dedicated vCPU"),
        Seat::Vm(vm) => {
            let here = seats.on(cpu);
            let others = here.len() - 1;
            let text = match others {
                0 => labels.of(vm),
                _ => format!("{}+{others}", labels.of(vm)),
            };
            let names: Vec<String> = here.iter().map(|&vm| name(view, vm)).collect();
            Occupant {
                fill: place_labels::role(vm).hex(),
                text,
                tooltip: format!("CPU {cpu}: {}", names.join(", ")),
            }
        }
    }
}

fn name(view: &PlaceView, vm: VmId) -> String {
    view.vms
        .get(vm.index())
        .map_or_else(String::new, |vm| clean(&vm.name, 60))
}

/// The list of VMs with their colours.
fn vms(sheet: &mut Sheet, view: &PlaceView, labels: Labels) {
    let entries = place_labels::entries(view.vms);
    let mut x = sheet.left;
    for entry in entries.iter().take(LEGEND) {
        let short = place_labels::span(labels, entry.ends).concat();
        let text = format!("{short}  {}", entry.text);
        let wide = 24 + measure(&text, FONT) + 2 * FONT;
        if x > sheet.left && x + wide > sheet.right {
            x = sheet.left;
            sheet.y += LINE;
        }
        let square = stripes(x, sheet.y + 3, entry.ends);
        let label = Label {
            x: x + 24,
            y: sheet.y + 16,
            font: FONT,
            role: Role::Plain,
            text: &text,
        };
        sheet.elements.push(square.add(label.element()));
        x += wide;
    }
    sheet.y += LINE;
    if let Some(rest) = entries.get(LEGEND..).filter(|rest| !rest.is_empty()) {
        let left: u32 = rest
            .iter()
            .map(|entry| entry.ends.1.0 - entry.ends.0.0 + 1)
            .sum();
        let text = format!("+{} more", plural(left as usize, "VM"));
        sheet.line(sheet.left, Role::Muted, FONT, &text);
    }
    sheet.y += LINE / 2;
}

/// The colours of VMs in a square.
fn stripes(x: u32, y: u32, (first, last): (VmId, VmId)) -> Group {
    let colours = (last.0 - first.0 + 1).min(u32::try_from(VM_COLOURS).unwrap_or(1));
    let edge = |stripe: u32| x + stripe * 16 / colours;
    let squares = (0..colours).map(|stripe| {
        let colour = place_labels::role(VmId(first.0 + stripe)).hex();
        rectangle(edge(stripe), y, edge(stripe + 1) - edge(stripe), 16).set("fill", colour)
    });
    let frame = rectangle(x, y, 16, 16)
        .set("fill", "none")
        .set("stroke", Role::Frame.hex());
    squares.fold(Group::new(), Group::add).add(frame)
}

/// What threads without a VM, and threads with several, look like.
fn signs(sheet: &mut Sheet, view: &PlaceView, seats: &Seats) {
    let cpus = || view.host.cpus.iter().map(|cpu| cpu.id);
    let any = |seat: Seat| cpus().any(|cpu| seats.first(cpu) == seat);
    let known = [
        (any(Seat::Free), FREE_FILL, "free"),
        (any(Seat::Reserved), "url(#hatch)", "reserved"),
        (
            any(Seat::Isolated),
            FORBIDDEN_FILL,
            "isolated, for dedicated VMs",
        ),
        (
            any(Seat::KeptFree),
            OFFLINE_FILL,
            "kept free beside a dedicated vCPU",
        ),
    ];
    let mut x = sheet.left;
    for (_, fill, text) in known.into_iter().filter(|(shown, ..)| *shown) {
        let square = rectangle(x, sheet.y + 3, 16, 16)
            .set("fill", fill)
            .set("stroke", Role::Frame.hex());
        let label = Label {
            x: x + 24,
            y: sheet.y + 16,
            font: FONT,
            role: Role::Muted,
            text,
        };
        sheet
            .elements
            .push(Group::new().add(square).add(label.element()));
        x += 24 + measure(text, FONT) + 2 * FONT;
    }
    sheet.y += LINE;
    if cpus().any(|cpu| seats.on(cpu).len() > 1) {
        let text = "A+1 is a thread that one more vCPU waits for; its name is in the tooltip";
        sheet.line(sheet.left, Role::Muted, FONT, text);
    }
    sheet.y += LINE / 2;
}
