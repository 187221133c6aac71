//! Short names of VMs in a drawing, and the list that explains them.

use model::Vm;
use model::placement::VmId;

use super::palette::{Role, VM_COLOURS};
use super::units::{clean, mib, plural};

const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Longest name in a list, in characters.
const NAME: usize = 40;

/// Letters, or numbers where there are more VMs than letters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels {
    n_vms: usize,
}

/// VMs that one entry of the list explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The first and the last of them.
    pub(super) ends: (VmId, VmId),
    /// Their names and sizes.
    pub(super) text: String,
}

impl Labels {
    pub(super) fn new(n_vms: usize) -> Self {
        Self { n_vms }
    }

    /// The short name of a VM.
    pub(super) fn of(self, vm: VmId) -> String {
        match LETTERS.get(vm.index()) {
            Some(&letter) if self.n_vms <= LETTERS.len() => char::from(letter).to_string(),
            _ => (vm.index() + 1).to_string(),
        }
    }

    /// Characters of the longest short name.
    pub(super) fn width(self) -> usize {
        if self.n_vms <= LETTERS.len() {
            1
        } else {
            self.n_vms.to_string().len()
        }
    }
}

/// The colour of a VM.
pub(super) fn role(vm: VmId) -> Role {
    let number = vm.index() % VM_COLOURS;
    Role::Vm(u8::try_from(number).unwrap_or(0))
}

/// The VMs in order, those that are alike and numbered one after the other in one entry.
pub(super) fn entries(vms: &[Vm]) -> Vec<Entry> {
    let numbered: Vec<(usize, &Vm)> = vms.iter().enumerate().collect();
    let runs = numbered.chunk_by(|(_, a), (_, b)| follows(a, b));
    runs.map(|run| {
        let ((first, a), (last, b)) = (run[0], run[run.len() - 1]);
        let names = match run.len() {
            1 => clean(&a.name, NAME),
            2 => format!("{}, {}", clean(&a.name, NAME), clean(&b.name, NAME)),
            _ => format!("{}–{}", clean(&a.name, NAME), clean(&b.name, NAME)),
        };
        let each = if run.len() > 1 { "each " } else { "" };
        Entry {
            ends: (id(first), id(last)),
            text: format!("{names}: {each}{}", size(a)),
        }
    })
    .collect()
}

/// What a VM asks for, in a few words.
pub(super) fn size(vm: &Vm) -> String {
    let mut words = vec![plural(vm.vcpus as usize, "vCPU")];
    if vm.memory_mib > 0 {
        words.push(mib(vm.memory_mib));
    }
    if vm.dedicated {
        words.push("dedicated".to_owned());
    }
    if vm.load < 1000 {
        words.push(format!("{} % busy", vm.load / 10));
    }
    words.join(", ")
}

/// The short names of VMs in a run.
pub(super) fn span(labels: Labels, (first, last): (VmId, VmId)) -> [String; 3] {
    if first == last {
        return [labels.of(first), String::new(), String::new()];
    }
    let sign = if last.0 == first.0 + 1 { " " } else { "–" };
    [labels.of(first), sign.to_owned(), labels.of(last)]
}

/// Whether `b` differs from `a` by the next number in its name only.
fn follows(a: &Vm, b: &Vm) -> bool {
    let is_next = match (numbered(&a.name), numbered(&b.name)) {
        (Some((stem, number)), Some((other, next))) => {
            stem == other && number.checked_add(1) == Some(next)
        }
        _ => false,
    };
    let anonymous = |vm: &Vm| Vm {
        name: String::new(),
        ..vm.clone()
    };
    is_next && (a.vcpus, a.memory_mib) == (b.vcpus, b.memory_mib) && anonymous(a) == anonymous(b)
}

fn numbered(name: &str) -> Option<(&str, u64)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[stem.len()..];
    if number.len() > 1 && number.starts_with('0') {
        return None;
    }
    Some((stem, number.parse().ok()?))
}

fn id(index: usize) -> VmId {
    VmId(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vms_that_are_alike_are_one_entry() {
        let vms = [
            "vm9", "vm10", "vm11", "db1", "db2", "x", "vm12", "vm07", "vm08",
        ];
        let mut vms: Vec<Vm> = vms.iter().map(|name| Vm::new(*name, 4, 2048)).collect();
        vms[6].vcpus = 8;
        let texts: Vec<String> = entries(&vms).into_iter().map(|entry| entry.text).collect();
        assert_eq!(
            texts,
            [
                "vm9–vm11: each 4 vCPUs, 2 GiB",
                "db1, db2: each 4 vCPUs, 2 GiB",
                "x: 4 vCPUs, 2 GiB",
                "vm12: 8 vCPUs, 2 GiB",
                "vm07: 4 vCPUs, 2 GiB",
                "vm08: 4 vCPUs, 2 GiB",
            ]
        );
    }

    #[test]
    fn labels_are_letters_and_then_numbers() {
        let few = Labels::new(52);
        assert_eq!(
            (few.of(VmId(0)), few.of(VmId(51)), few.width()),
            ("A".into(), "z".into(), 1)
        );
        let many = Labels::new(120);
        assert_eq!(
            (many.of(VmId(0)), many.of(VmId(119)), many.width()),
            ("1".into(), "120".into(), 3)
        );
    }
}
