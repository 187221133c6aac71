/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The fast path: who runs next, where a woken vCPU goes, and when an idle CPU may take another LLC's work.
 *
 * A VM is a set of vCPU threads. Each group of them has a home LLC, chosen by the slow path (policy::reconcile). There
 * is one dispatch queue per LLC, ordered by virtual time. What is here decides in nanoseconds and remembers nothing:
 * the dispatcher that calls it keeps the queues, the clocks and the idle masks.
 *
 * One source for two machines: the simulator calls it natively (policy::hot), a sched_ext scheduler includes it in its
 * BPF program, so that what is simulated is what runs. Hence integers only, no loops, no 128-bit numbers, no memory,
 * no calls out; every function has an answer for every input.
 *
 * Words: nanoseconds end in _ns. Virtual time (vtime) is nanoseconds of CPU time at the normal weight. The clock of a
 * queue (queue_vtime) is the largest vtime that it has started. Vtimes of two queues do not compare: a vCPU's vtime
 * always belongs to the queue of its home, wherever it runs, and vtopo_move_vtime translates it when the home changes.
 */
#ifndef VTOPO_DISPATCH_H
#define VTOPO_DISPATCH_H

#ifdef __VMLINUX_H__
/* BPF: vmlinux.h, included before, has bool and the kernel's integers. It may have these names too; C11 allows it. */
typedef __u32 uint32_t;
typedef __u64 uint64_t;
#else
#include <stdbool.h>
#include <stdint.h>
#endif

/* The largest number of nanoseconds. vmlinux.h has no UINT64_MAX. */
#define VTOPO_FOREVER (~(uint64_t)0)

/* How the functions are declared. Who wants them as symbols of an object file defines it as nothing. */
#ifndef VTOPO_FN
#define VTOPO_FN static inline
#endif

/* The weight at which virtual time passes like real time: VMware's shares of a vCPU at level "normal" (vSphere API,
 * SharesLevel), as model::tenant::NORMAL_SHARES. */
#define VTOPO_NORMAL_WEIGHT 1000u

/* No slice is made shorter than this: Linux takes a task's caches for warm for as long (sysctl_sched_migration_cost,
 * 500 us; reference model, section 2.3), so a shorter slice would mostly refill them. A vCPU switch with its exit costs
 * 3 to 6 us (same section), so that it stays near 1 % too. */
#define VTOPO_SLICE_MIN_NS 500000u

/*
 * What leaving the home LLC costs a vCPU, by distance class: it fetches its hot set there, and again when it comes
 * back. A hot set is 4 MiB, a core's part of an LLC of 16 MiB that four cores share: 65,536 lines, of which 8 are under
 * way at a time, 0.8 ms at 100 ns a line (reference model, section 2.3). The times of a line are those between LLCs in
 * section 0, finding 2. To count the way back in full, and to round, is ours.
 *   same quadrant or die   100 ns a line: 1.6 ms.
 *   same package           135 ns a line: 2.2 ms.
 *   remote package         270 ns a line: 4.4 ms. Its memory is remote too, which costs 40 % at a latency ratio of 1.6
 *                          (section 2.5): 1.2 ms in a stay of one slice of 3 ms. Together 5.6 ms.
 */
#define VTOPO_QUADRANT_COST_NS 1600000u
#define VTOPO_PACKAGE_COST_NS 2200000u
#define VTOPO_REMOTE_COST_NS 5600000u

/* A queue longer than this leaves no sooner than one of this length. With it no vCPU leaves its LLC before somebody has
 * waited for 200 us, which is also as long as KVM polls before it gives a CPU away (halt_poll_ns; reference model,
 * section 2.4): a few microseconds of a crowded moment move nobody. Ours. */
#define VTOPO_TURNS_MAX 8u

/* Distance classes of two LLCs. What is farther than VTOPO_REMOTE counts as that. */
#define VTOPO_HOME 0u
#define VTOPO_QUADRANT 1u
#define VTOPO_PACKAGE 2u
#define VTOPO_REMOTE 3u

/* What is idle (a set) and where to go (one of them, or VTOPO_WAIT). From the best to the least: of two that are idle
 * the smaller number wins. AWAY is the nearest LLC, not the home, that has an idle CPU where the vCPU may run. */
#define VTOPO_WAIT 0u         /* Nowhere: into the queue at home. */
#define VTOPO_PREV_CORE 1u    /* The CPU where it ran last, at home, and all its siblings. */
#define VTOPO_HOME_CORE 2u    /* A CPU at home and all its siblings. */
#define VTOPO_PREV_THREAD 4u  /* The CPU where it ran last, at home. */
#define VTOPO_HOME_THREAD 8u  /* A CPU at home. */
#define VTOPO_AWAY_CORE 16u   /* A CPU of another LLC and all its siblings. */
#define VTOPO_AWAY_THREAD 32u /* A CPU of another LLC. */

/* Sets of the above. */
#define VTOPO_ANY_HOME (VTOPO_PREV_CORE | VTOPO_HOME_CORE | VTOPO_PREV_THREAD | VTOPO_HOME_THREAD)
#define VTOPO_ANY_AWAY (VTOPO_AWAY_CORE | VTOPO_AWAY_THREAD)

/* The sum, or the largest number there is: time that turned over would put the last in a queue first. */
VTOPO_FN uint64_t vtopo_add(uint64_t a, uint64_t b)
{
	uint64_t sum = a + b;

	return sum < a ? VTOPO_FOREVER : sum;
}

/*
 * The virtual time of a vCPU that had `vtime` and then ran for `ran_ns`.
 *
 * Twice the weight lets it pass half as fast, so that queues ordered by it share CPUs by weight. Weight 0 counts as 1.
 * Rounded up: no run is free, however heavy and short.
 */
VTOPO_FN uint64_t vtopo_charge(uint64_t vtime, uint64_t ran_ns, uint32_t weight)
{
	uint64_t per = weight ? weight : 1u;
	uint64_t whole = ran_ns / per;
	/* Below 2^42: the remainder is below 2^32, the normal weight below 2^10. */
	uint64_t rest = (ran_ns % per * VTOPO_NORMAL_WEIGHT + per - 1u) / per;

	if (whole > VTOPO_FOREVER / VTOPO_NORMAL_WEIGHT)
		return VTOPO_FOREVER;
	return vtopo_add(vtime, vtopo_add(whole * VTOPO_NORMAL_WEIGHT, rest));
}

/*
 * The virtual time at which a vCPU that slept with `vtime` enters its queue.
 *
 * A sleeper keeps at most one slice of credit: enough to be served soon after a short sleep, not enough to hold a CPU
 * for as long as it slept.
 */
VTOPO_FN uint64_t vtopo_wake_vtime(uint64_t vtime, uint64_t queue_vtime, uint64_t slice_ns)
{
	uint64_t oldest = queue_vtime > slice_ns ? queue_vtime - slice_ns : 0u;

	return vtime > oldest ? vtime : oldest;
}

/*
 * The virtual time in the queue of a new home: as far before or behind its clock `to_vtime` as `vtime` was before or
 * behind the clock `from_vtime` of the old one. Neither a gain nor a loss to move.
 */
VTOPO_FN uint64_t vtopo_move_vtime(uint64_t vtime, uint64_t from_vtime, uint64_t to_vtime)
{
	uint64_t credit_ns = from_vtime - vtime;

	if (vtime >= from_vtime)
		return vtopo_add(to_vtime, vtime - from_vtime);
	return to_vtime > credit_ns ? to_vtime - credit_ns : 0u;
}

/*
 * How long a vCPU may run before it makes room, in nanoseconds, when `waiting` wait at an LLC of `cpus` CPUs.
 *
 * `base_ns` until more wait than there are CPUs; from then on shorter in proportion, so that the queue is through in
 * about the time of one base slice; never below VTOPO_SLICE_MIN_NS, and never above `base_ns`, even if that is less.
 */
VTOPO_FN uint64_t vtopo_slice(uint64_t base_ns, uint32_t waiting, uint32_t cpus)
{
	uint64_t slice_ns;

	if (waiting <= cpus || base_ns <= VTOPO_SLICE_MIN_NS)
		return base_ns;
	/* base_ns * cpus / waiting without its product: here cpus < waiting, and the remainder is below 2^32. */
	slice_ns = base_ns / waiting * cpus + base_ns % waiting * cpus / waiting;
	return slice_ns > VTOPO_SLICE_MIN_NS ? slice_ns : VTOPO_SLICE_MIN_NS;
}

/*
 * Whether a woken vCPU takes the CPU of a running one of the same queue at once. `running_vtime` counts up to now.
 *
 * Only if it is behind by more than a slice: interrupting costs an exit and a switch, and warm caches. So two vCPUs
 * never interrupt each other in quick turn: who was interrupted is ahead by a slice, and has to fall behind by one.
 */
VTOPO_FN bool vtopo_preempts(uint64_t running_vtime, uint64_t woken_vtime, uint64_t slice_ns)
{
	return running_vtime > woken_vtime && running_vtime - woken_vtime > slice_ns;
}

/*
 * How long the head of a queue must have waited, in nanoseconds, before a CPU at that distance is worth going to.
 * `waiting` counts those that wait, the head included. A dispatcher may set a timer by it.
 *
 * Who goes pays the way there and back (the costs above) and saves its own wait, and a turn for each behind it. What a
 * turn is worth nobody knows yet; it is taken to be as long as the wait so far. Ours.
 */
VTOPO_FN uint64_t vtopo_patience(uint32_t distance, uint32_t waiting)
{
	uint64_t cost_ns = VTOPO_REMOTE_COST_NS;
	uint32_t turns = waiting < VTOPO_TURNS_MAX ? waiting : VTOPO_TURNS_MAX;

	if (distance == VTOPO_HOME)
		cost_ns = 0u;
	else if (distance == VTOPO_QUADRANT)
		cost_ns = VTOPO_QUADRANT_COST_NS;
	else if (distance == VTOPO_PACKAGE)
		cost_ns = VTOPO_PACKAGE_COST_NS;
	if (turns == 0u)
		turns = 1u;
	return (cost_ns + turns - 1u) / turns;
}

/*
 * Where a woken vCPU goes: one of the flags in `idle`, or VTOPO_WAIT.
 *
 * `idle` says what is idle where it may run; what the slow path's rules forbid is left out. `distance` is the class of
 * the LLC that the AWAY flags speak of, `waited_ns` how long the head of the queue at home has waited, `waiting` how
 * many wait there; both are 0 when none does.
 *
 * A whole core at home first, since a busy sibling takes a third of the speed (q = 0.65; reference model, section 2.1);
 * the one where it ran last before another, since its L1 and L2 are warm. Then any thread at home. Away only when the
 * queue at home, with it at its end, has waited for longer than the way is worth. So a vCPU never leaves a queue that
 * was empty: an idle CPU comes for it when vtopo_may_steal says so, and nobody starves.
 */
VTOPO_FN uint32_t vtopo_seat(uint32_t idle, uint32_t distance, uint64_t waited_ns, uint32_t waiting)
{
	uint32_t home = idle & VTOPO_ANY_HOME;
	uint32_t away = idle & VTOPO_ANY_AWAY;
	/* With it at the end; bounded before the sum, which then cannot turn over. */
	uint32_t turns = waiting < VTOPO_TURNS_MAX ? waiting + 1u : VTOPO_TURNS_MAX;
	bool leaves = home == 0u && waited_ns >= vtopo_patience(distance, turns);
	uint32_t open = leaves ? away : home;

	/* The smallest flag that is set; none gives VTOPO_WAIT. */
	return open & (~open + 1u);
}

/*
 * Whether an idle CPU may take the head of the queue of another LLC, which is `distance` away.
 *
 * `waited_ns` is how long that head has waited, `waiting` how many wait there, the head included. Distance 0 is the
 * CPU's own queue: it takes whatever is there.
 */
VTOPO_FN bool vtopo_may_steal(uint32_t distance, uint64_t waited_ns, uint32_t waiting)
{
	return waiting > 0u && waited_ns >= vtopo_patience(distance, waiting);
}

#endif
