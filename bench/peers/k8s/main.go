// Command k8s replays a stream of requests through the CPU Manager of a kubelet: the static policy as it is published,
// on a machine as vtopo describes it.
//
// Standard input is a document with the machine's CPUs and the events, standard output has one answer per arrival; the
// form of both is in the README beside this folder. Nothing is allocated, no file is written.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// request is the document on standard input.
type request struct {
	// Table has one row for each CPU of the machine.
	Table  []cpuRow `json:"table"`
	Events []event  `json:"events"`
}

// event is an arrival (Add, VCPUs) or a departure (Remove).
type event struct {
	Add    string `json:"add"`
	VCPUs  int    `json:"vcpus"`
	Remove string `json:"remove"`
}

// answer says where a VM went and how long that took, or why it went nowhere.
type answer struct {
	VM      string `json:"vm"`
	CPUs    string `json:"cpus,omitempty"`
	Refused string `json:"refused,omitempty"`
	Ns      int64  `json:"ns"`
}

func main() {
	uncore := flag.Bool("uncore", false, "prefer-align-cpus-by-uncorecache=true")
	full := flag.Bool("full", false, "full-pcpus-only=true")
	numa := flag.Bool("numa", false, "with the Topology Manager, policy best-effort")
	flag.Parse()
	// The kubelet writes lines about every allocation; what they cost is not what is measured.
	klog.SetLogger(logr.Discard())
	if err := run(os.Stdin, os.Stdout, options{uncore: *uncore, full: *full, numa: *numa}); err != nil {
		fmt.Fprintln(os.Stderr, "k8s:", err)
		os.Exit(2)
	}
}

func run(in io.Reader, out io.Writer, opts options) error {
	var req request
	if err := json.NewDecoder(in).Decode(&req); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	machine, err := newMachine(req.Table, opts)
	if err != nil {
		return err
	}
	answers := []answer{}
	for i, ev := range req.Events {
		switch {
		case ev.Remove != "":
			err = machine.remove(ev.Remove)
		case ev.Add != "" && ev.VCPUs > 0:
			answers = append(answers, machine.add(ev.Add, ev.VCPUs))
		default:
			err = fmt.Errorf("event %d neither adds a VM with vcpus nor removes one", i)
		}
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(answers)
}
