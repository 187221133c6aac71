//! The shape a guest sees, as text in the same look as a host.

use model::{Finding, GuestTopology};

use super::boxes::{cache_size, picture};
use super::host_text::{header, legend_lines};
use super::notes::finding_lines;
use super::parts::{Cache, MAX_SLOTS, Machine};
use super::text::{Line, print};
use super::units::{mib, plural};
use super::{MIN_WIDTH, Style};

/// Draws what a guest is shown: sockets, vNUMA nodes and LLCs with their vCPUs and sizes, and slots without vCPU as dots.
/// Equal parts of big guests are drawn once. No line is wider than the style says (or [`MIN_WIDTH`]); a topology that
/// does not hold together ([`GuestTopology::check`]) is drawn as far as it goes, with what is wrong. Ends with a line feed.
pub fn guest_text(topology: &GuestTopology, style: Style) -> String {
    let width = style.width.max(MIN_WIDTH);
    let machine = Machine::of_guest(topology);
    let mut page = header(&vcpus(topology), "", &summary(topology), width);
    page.push(Line::default());
    let picture = picture(&machine, width);
    page.extend(picture.lines);
    page.extend(legend_lines(&picture.legend, width));
    for text in wrong(topology) {
        page.extend(finding_lines(
            &Finding::error("shape-inconsistent", text),
            width,
        ));
    }
    print(&page, style.colour)
}

fn wrong(topology: &GuestTopology) -> Vec<String> {
    if topology.vcpus > MAX_SLOTS {
        return vec![format!(
            "only {MAX_SLOTS} of {} vCPUs are drawn",
            topology.vcpus
        )];
    }
    topology.check()
}

fn vcpus(topology: &GuestTopology) -> String {
    let slots = topology.maxcpus();
    let vcpus = plural(topology.vcpus as usize, "vCPU");
    if slots == topology.vcpus {
        vcpus
    } else {
        format!("{vcpus} in {slots} slots")
    }
}

/// The levels with more than one member, and what the guest is told of memory and caches.
fn summary(topology: &GuestTopology) -> Vec<String> {
    let levels = [
        (topology.sockets, "socket"),
        (topology.dies, "die"),
        (topology.modules, "module"),
        (topology.cores, "core"),
        (topology.threads, "thread"),
    ];
    let always = |noun| matches!(noun, "socket" | "core" | "thread");
    let shown = levels
        .iter()
        .filter(|&&(count, noun)| count > 1 || always(noun));
    let shape: Vec<String> = shown
        .map(|&(count, noun)| plural(count as usize, noun))
        .collect();
    let mut items = vec![shape.join(" × ")];
    items.push(match topology.llcs.as_slice() {
        [] => "last-level caches not stated".to_owned(),
        llcs => {
            let of = |llc: &model::GuestLlc| Cache {
                size_bytes: llc.size_bytes,
                shown_bytes: llc.guest_size_bytes,
                level: 3,
            };
            let even = llcs.iter().all(|llc| of(llc) == of(&llcs[0]));
            let size = if even {
                cache_size(of(&llcs[0]), true)
            } else {
                String::new()
            };
            let count = plural(llcs.len(), "LLC");
            match llcs.len() {
                _ if size.is_empty() => count,
                1 => format!("{count} of {size}"),
                _ => format!("{count} × {size}"),
            }
        }
    });
    items.push(match topology.numa_nodes.len() {
        0 => "no NUMA description".to_owned(),
        nodes => plural(nodes, "vNUMA node"),
    });
    if topology.memory_mib() > 0 {
        items.push(mib(topology.memory_mib()));
    }
    items
}
