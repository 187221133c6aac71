//! simcore: a component for each entity, which emits an event to itself, as in the crate's example with callbacks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engines::{Tally, asked, measure};
use serde::Serialize;
use simcore::{Event, EventHandler, Simulation, SimulationContext, cast};

#[derive(Clone, Serialize)]
struct Wake {}

struct Entity {
    number: u64,
    context: SimulationContext,
    tally: Rc<Cell<Tally>>,
}

impl Entity {
    fn wait(&self) {
        let mut tally = self.tally.get();
        let delay = tally.count(self.context.time() as u64, self.number);
        self.tally.set(tally);
        self.context.emit_self(Wake {}, delay as f64);
    }
}

impl EventHandler for Entity {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            Wake {} => {
                self.wait();
            }
        })
    }
}

fn main() {
    let asked = asked();
    let tally = Rc::new(Cell::new(Tally::default()));
    let mut simulation = Simulation::new(1);
    for number in 0..asked.entities {
        let name = format!("entity-{number}");
        let context = simulation.create_context(&name);
        let entity = Rc::new(RefCell::new(Entity {
            number,
            context,
            tally: Rc::clone(&tally),
        }));
        simulation.add_handler(&name, entity.clone());
        entity.borrow().wait();
    }
    measure("simcore", &asked, |moment| {
        // Up to a time and at it.
        simulation.step_until_time((moment - 1) as f64);
        tally.get()
    });
}
