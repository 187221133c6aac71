//! Relaxed co-scheduling: a vCPU that is too far ahead of its slowest sibling waits for it.

use super::world::State;
use super::{Event, Simulator};
use crate::time::Nanos;

impl Simulator<'_> {
    /// A vCPU waits while others may run: their skew is watched from now on.
    pub(super) fn watch_skew(&mut self, guest: u32) {
        let Some(cosched) = self.hypervisor.cosched else {
            return;
        };
        let entry = &mut self.guests[guest as usize];
        if entry.vcpus > 1 && !entry.is_watched {
            entry.is_watched = true;
            self.queue
                .push(self.now + cosched.period_ns, Event::Cosched { guest });
        }
    }

    /// Stops who is ahead, and lets go on who was.
    pub(super) fn cosched(&mut self, guest: u32) {
        let Some(cosched) = self.hypervisor.cosched else {
            return;
        };
        let worlds = self.guests[guest as usize].worlds();
        // Halted vCPUs have nothing to do: nobody waits for them.
        let slowest = worlds.clone().filter_map(|world| self.lag(world)).max();
        let slowest = slowest.unwrap_or(0);
        let mut is_watched = false;
        for world in worlds {
            let Some(lag) = self.lag(world) else { continue };
            // A vCPU that was halted a moment ago, and was woken by what stopped here, may be further behind.
            let ahead = slowest.saturating_sub(lag);
            match self.worlds[world as usize].state {
                State::Running if ahead > cosched.stop_ns => {
                    let cpu = self.worlds[world as usize].cpu;
                    self.stop(cpu, State::Costopped);
                    self.pick(cpu);
                    is_watched = true;
                }
                State::Costopped if ahead < cosched.start_ns => self.wake(world),
                State::Costopped | State::Ready => is_watched = true,
                _ => {}
            }
        }
        self.guests[guest as usize].is_watched = is_watched;
        if is_watched {
            self.queue
                .push(self.now + cosched.period_ns, Event::Cosched { guest });
        }
    }

    /// For how long a vCPU that is not halted could not go on.
    fn lag(&self, world: u32) -> Option<Nanos> {
        let entry = &self.worlds[world as usize];
        let so_far = self.now - entry.since;
        match entry.state {
            State::Off | State::Halted | State::Limited => None,
            State::Running => Some(entry.lag_ns),
            State::Ready | State::Costopped => Some(entry.lag_ns + so_far),
        }
    }
}
