//! Who sits where while a plan is made, and how full that makes domains and CPUs.

use model::placement::VmId;
use model::{CpuId, CpuSet, Reason};

use super::ground::{Ground, Seat, pairs};
use super::homes::Homes;

/// Seats of all clients.
#[derive(Debug)]
pub(super) struct Board<'h> {
    pub(super) homes: &'h Homes<'h>,
    /// By client.
    pub(super) seats: Vec<Vec<Seat>>,
    /// Why placed VMs moved.
    pub(super) moved: Vec<(VmId, Reason)>,
    domain_load: Vec<i64>,
    /// By CPU number.
    cpu_load: Vec<i64>,
}

impl<'h> Board<'h> {
    /// Nobody sits.
    pub(super) fn new(homes: &'h Homes<'h>) -> Self {
        let last = homes.ground.now.host.cpus.last();
        Self {
            homes,
            seats: vec![Vec::new(); homes.clients.len()],
            moved: Vec::new(),
            domain_load: vec![0; homes.ground.problem.site.domains.len()],
            cpu_load: vec![0; last.map_or(0, |cpu| cpu.id.index() + 1)],
        }
    }

    /// The ground.
    pub(super) fn ground(&self) -> &'h Ground<'h> {
        self.homes.ground
    }

    /// The VM of a client.
    pub(super) fn vm_of(&self, client: usize) -> VmId {
        self.homes.clients[client].vm
    }

    /// Domains of a client's home.
    pub(super) fn domains_of(&self, client: usize) -> &'h [u32] {
        &self.homes.zones[self.homes.clients[client].zone].domains
    }

    /// Seats vCPUs of a client on a domain; the kernel chooses among its CPUs.
    pub(super) fn sit(&mut self, client: usize, domain: u32, vcpus: CpuSet) {
        let cpus = self.ground().room(self.vm_of(client), domain).cpus.clone();
        self.put(
            client,
            Seat {
                vcpus,
                domain,
                cpus,
                pinned: false,
            },
        );
    }

    /// Seats a vCPU of a client on a CPU.
    pub(super) fn pin(&mut self, client: usize, domain: u32, (vcpu, cpu): (CpuId, CpuId)) {
        let (vcpus, cpus) = ([vcpu].into_iter().collect(), [cpu].into_iter().collect());
        self.put(
            client,
            Seat {
                vcpus,
                domain,
                cpus,
                pinned: true,
            },
        );
    }

    /// Takes a seat away.
    pub(super) fn take(&mut self, client: usize, index: usize) -> Seat {
        let seat = self.seats[client].remove(index);
        self.count(client, &seat, -1);
        seat
    }

    /// Demand on a domain, in milli-CPU.
    pub(super) fn load(&self, domain: u32) -> i64 {
        self.domain_load[domain as usize]
    }

    /// Demand pinned to a CPU, in milli-CPU.
    pub(super) fn load_of_cpu(&self, cpu: CpuId) -> i64 {
        self.cpu_load.get(cpu.index()).copied().unwrap_or(0)
    }

    /// Cores of a domain that nobody wants, in milli-CPU; negative when it is over-packed.
    pub(super) fn spare(&self, domain: u32) -> i64 {
        1000 * i64::from(self.ground().any_room(domain).cores) - self.load(domain)
    }

    /// How many vCPUs of the client's VM sit on a domain.
    pub(super) fn own(&self, client: usize, domain: u32) -> u32 {
        let clients = self.homes.clients_of(self.vm_of(client)).iter();
        let seats = clients.flat_map(|&client| &self.seats[client]);
        let here: usize = seats
            .filter(|seat| seat.domain == domain)
            .map(|seat| seat.vcpus.len())
            .sum();
        u32::try_from(here).unwrap_or(u32::MAX)
    }

    /// CPUs that a vCPU of the client's VM has to itself.
    pub(super) fn own_cpus(&self, client: usize) -> CpuSet {
        let clients = self.homes.clients_of(self.vm_of(client)).iter();
        let seats = clients.flat_map(|&client| &self.seats[client]);
        let pinned = seats.filter(|seat| seat.pinned);
        pinned.flat_map(|seat| seat.cpus.iter()).collect()
    }

    /// What a VM's vCPUs ask for, so many of them.
    pub(super) fn demand(&self, client: usize, vcpus: usize) -> i64 {
        let one = self.ground().demand(self.vm_of(client));
        one * i64::try_from(vcpus).unwrap_or(i64::MAX)
    }

    /// Where a client's vCPUs were before, if it kept its home.
    pub(super) fn before(&self, client: usize) -> Vec<Seat> {
        let client = &self.homes.clients[client];
        if client.was != Some(client.zone) {
            return Vec::new();
        }
        let zone = &self.homes.zones[client.zone];
        let seats = self.ground().seats_now(client.vm).unwrap_or_default();
        let here = seats
            .into_iter()
            .filter(|seat| zone.domains.contains(&seat.domain));
        let own = here.map(|seat| {
            let vcpus = seat.vcpus.intersection(&client.vcpus);
            let kept = pairs(&seat)
                .filter(|(vcpu, _)| vcpus.contains(*vcpu))
                .map(|(_, cpu)| cpu);
            let cpus = if seat.pinned {
                kept.collect()
            } else {
                seat.cpus.clone()
            };
            Seat {
                vcpus,
                cpus,
                ..seat
            }
        });
        own.filter(|seat| !seat.vcpus.is_empty()).collect()
    }

    fn put(&mut self, client: usize, seat: Seat) {
        self.count(client, &seat, 1);
        let same = |other: &&mut Seat| (other.domain, other.pinned) == (seat.domain, seat.pinned);
        // Pinned vCPUs keep seats of their own until the plan is written: their CPUs need not be in the order of vCPUs.
        match self.seats[client]
            .iter_mut()
            .find(same)
            .filter(|_| !seat.pinned)
        {
            Some(other) => other.vcpus = other.vcpus.union(&seat.vcpus),
            None => self.seats[client].push(seat),
        }
    }

    fn count(&mut self, client: usize, seat: &Seat, sign: i64) {
        let one = self.ground().demand(self.vm_of(client));
        self.domain_load[seat.domain as usize] += sign * self.demand(client, seat.vcpus.len());
        if seat.pinned {
            for cpu in seat.cpus.iter() {
                if let Some(load) = self.cpu_load.get_mut(cpu.index()) {
                    *load += sign * one;
                }
            }
        }
    }
}
