package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

// shape is a machine whose parts are all equal; siblings are numbered after all cores, as Linux does on x86.
type shape struct {
	packages, llcs, cores, threads int
}

var epyc7702 = shape{packages: 2, llcs: 16, cores: 4, threads: 2}

func (s shape) table() []cpuRow {
	rows := []cpuRow{}
	all := s.packages * s.llcs * s.cores
	for thread := range s.threads {
		for core := range all {
			llc := core / s.cores
			pkg := llc / s.llcs
			rows = append(rows, cpuRow{CPU: thread*all + core, Core: core, LLC: llc, Node: pkg, Package: pkg})
		}
	}
	return rows
}

// count says how many different values a column has on these CPUs.
func count(t *testing.T, table []cpuRow, cpus string, column func(cpuRow) int) int {
	t.Helper()
	set, err := cpuset.Parse(cpus)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, row := range table {
		if set.Contains(row.CPU) {
			seen[column(row)] = true
		}
	}
	return len(seen)
}

func llc(row cpuRow) int  { return row.LLC }
func core(row cpuRow) int { return row.Core }
func node(row cpuRow) int { return row.Node }

func TestPlacesAsDocumented(t *testing.T) {
	for _, row := range []struct {
		about              string
		shape              shape
		opts               options
		before             []int
		vcpus              int
		llcs, cores, nodes int
	}{
		{"8 on an empty EPYC stay in one uncore cache of 8 threads", epyc7702, options{uncore: true, full: true}, nil, 8, 1, 4, 1},
		{"alignment does it without whole cores too", epyc7702, options{uncore: true}, nil, 8, 1, 4, 1},
		{"10 need two caches", epyc7702, options{uncore: true, full: true}, nil, 10, 2, 5, 1},
		{"after 6 of 8, an aligned 4 leaves the rest alone", epyc7702, options{uncore: true}, []int{6}, 4, 1, 2, 1},
		{"without alignment it takes the next free cores", epyc7702, options{}, []int{6}, 4, 2, 2, 1},
		{"8 cores without siblings", shape{2, 8, 8, 1}, options{uncore: true, full: true}, []int{4}, 8, 1, 8, 1},
		{"with the Topology Manager 64 fit into the second node", shape{2, 8, 8, 1}, options{uncore: true, numa: true}, []int{4}, 64, 8, 64, 1},
	} {
		t.Run(row.about, func(t *testing.T) {
			table := row.shape.table()
			machine, err := newMachine(table, row.opts)
			if err != nil {
				t.Fatal(err)
			}
			for i, vcpus := range row.before {
				machine.add(strings.Repeat("b", i+1), vcpus)
			}
			got := machine.add("vm", row.vcpus)
			if got.Refused != "" {
				t.Fatal(got.Refused)
			}
			want := []int{row.vcpus, row.llcs, row.cores, row.nodes}
			have := []int{
				count(t, table, got.CPUs, func(row cpuRow) int { return row.CPU }),
				count(t, table, got.CPUs, llc), count(t, table, got.CPUs, core), count(t, table, got.CPUs, node),
			}
			if !slices.Equal(have, want) {
				t.Errorf("cpus, llcs, cores, nodes are %v on %s, want %v", have, got.CPUs, want)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	for _, row := range []struct {
		about string
		opts  options
		vcpus int
		why   string
	}{
		{"an odd count with whole cores only", options{full: true}, 3, "SMT Alignment Error"},
		{"more than there are", options{}, 257, "not enough cpus"},
		{"the same with the Topology Manager", options{numa: true}, 257, "not enough cpus"},
	} {
		t.Run(row.about, func(t *testing.T) {
			machine, err := newMachine(epyc7702.table(), row.opts)
			if err != nil {
				t.Fatal(err)
			}
			if got := machine.add("vm", row.vcpus); !strings.Contains(got.Refused, row.why) {
				t.Errorf("got %+v, want a refusal with %q", got, row.why)
			}
		})
	}
}

func TestReplaysTheSameTwice(t *testing.T) {
	for _, opts := range []options{{}, {uncore: true, full: true}, {uncore: true, numa: true}} {
		table := epyc7702.table()
		machine, err := newMachine(table, opts)
		if err != nil {
			t.Fatal(err)
		}
		first := machine.add("a", 16).CPUs
		machine.add("b", 8)
		for _, vm := range []string{"a", "b", "never there"} {
			if err := machine.remove(vm); err != nil {
				t.Fatal(err)
			}
		}
		if again := machine.add("a", 16).CPUs; again != first {
			t.Errorf("%+v: %s the second time, %s the first", opts, again, first)
		}
	}
}

func TestTellsBadInput(t *testing.T) {
	for _, row := range []struct{ in, why string }{
		{"", "read the request"},
		{"{}", "understand the machine"},
		{`{"table":[{"cpu":0}],"events":[{"add":"vm1"}]}`, "event 0"},
		{`{"table":[{"cpu":0}],"events":[{"add":"vm1","vcpus":-1}]}`, "event 0"},
	} {
		var out strings.Builder
		err := run(strings.NewReader(row.in), &out, options{})
		if err == nil || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%q: got %v, want %q", row.in, err, row.why)
		}
	}
}
