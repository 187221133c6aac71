package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// options are those of the kubelet that matter here; all others stay at their defaults.
type options struct {
	uncore, full, numa bool
}

// cpuRow says to what a CPU belongs. The numbers of cores, last-level caches, nodes and packages are only names.
type cpuRow struct {
	CPU     int `json:"cpu"`
	Core    int `json:"core"`
	LLC     int `json:"llc"`
	Node    int `json:"node"`
	Package int `json:"package"`
}

// machine is a kubelet's view of a host, and what runs there. Each VM is a Guaranteed pod of one container.
type machine struct {
	policy cpumanager.Policy
	state  state.State
	// numa is nil without the Topology Manager.
	numa topologymanager.Manager
	pods map[string]*v1.Pod
}

const container = "vm"

// newMachine starts the static policy on an empty machine. No CPU is reserved: a kubelet insists on one, its policy
// does not, and the others in this comparison reserve none.
func newMachine(table []cpuRow, opts options) (*machine, error) {
	log := logr.Discard()
	info := machineInfo(table)
	topo, err := topology.Discover(log, info)
	if err != nil {
		return nil, fmt.Errorf("understand the machine: %w", err)
	}
	m := &machine{state: state.NewMemoryState(log), pods: map[string]*v1.Pod{}}
	numa := topologymanager.NewFakeManager()
	if opts.numa {
		numa, err = topologymanager.NewManager(info.Topology, topologymanager.PolicyBestEffort,
			topologymanager.ContainerTopologyScope, nil)
		if err != nil {
			return nil, fmt.Errorf("start the Topology Manager: %w", err)
		}
		m.numa = numa
	}
	m.policy, err = cpumanager.NewStaticPolicy(log, topo, 0, cpuset.New(), numa, map[string]string{
		cpumanager.PreferAlignByUnCoreCacheOption: fmt.Sprint(opts.uncore),
		cpumanager.FullPCPUsOnlyOption:            fmt.Sprint(opts.full),
	})
	if err != nil {
		return nil, fmt.Errorf("start the static policy: %w", err)
	}
	if m.numa != nil {
		m.numa.AddHintProvider(log, hints{m})
	}
	if err := m.policy.Start(log, m.state); err != nil {
		return nil, fmt.Errorf("start the static policy: %w", err)
	}
	return m, nil
}

// add places a VM on exclusive CPUs. Timed is what the kubelet does to decide: with the Topology Manager its admission
// (hints, their merger, allocation), without it the allocation.
func (m *machine) add(vm string, vcpus int) answer {
	if _, ok := m.pods[vm]; ok {
		return answer{VM: vm, Refused: "there is a VM of that name"}
	}
	pod := newPod(vm, vcpus)
	start := time.Now()
	refused := m.admit(pod)
	ns := time.Since(start).Nanoseconds()
	if refused != "" {
		return answer{VM: vm, Refused: refused, Ns: ns}
	}
	if m.numa != nil {
		m.numa.AddContainer(pod, &pod.Spec.Containers[0], vm)
	}
	m.pods[vm] = pod
	cpus, _ := m.state.GetCPUSet(string(pod.UID), container)
	return answer{VM: vm, CPUs: cpus.String(), Ns: ns}
}

// remove frees the CPUs of a VM; one that was refused has none.
func (m *machine) remove(vm string) error {
	pod, ok := m.pods[vm]
	if !ok {
		return nil
	}
	delete(m.pods, vm)
	if m.numa != nil {
		if err := m.numa.RemoveContainer(vm); err != nil {
			return fmt.Errorf("remove %s: %w", vm, err)
		}
	}
	return m.policy.RemoveContainer(logr.Discard(), m.state, string(pod.UID), container)
}

// admit returns why the pod was refused; the empty text is success.
func (m *machine) admit(pod *v1.Pod) string {
	if m.numa != nil {
		result := m.numa.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
		if !result.Admit {
			return result.Message
		}
		return ""
	}
	err := m.policy.Allocate(logr.Discard(), m.state, pod, &pod.Spec.Containers[0])
	if err != nil {
		return err.Error()
	}
	return ""
}

// hints is the static policy as the Topology Manager wants to see it; in a kubelet the CPU Manager stands between them.
type hints struct {
	m *machine
}

func (h hints) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return h.m.policy.GetTopologyHints(logr.Discard(), h.m.state, pod, c)
}

func (h hints) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return h.m.policy.GetPodTopologyHints(logr.Discard(), h.m.state, pod)
}

func (h hints) Allocate(pod *v1.Pod, c *v1.Container) error {
	return h.m.policy.Allocate(logr.Discard(), h.m.state, pod, c)
}

func (h hints) AllocatePod(pod *v1.Pod) error {
	return h.m.policy.AllocatePod(logr.Discard(), h.m.state, pod)
}

// newPod makes a pod that gets exclusive CPUs: integer CPUs, and requests that equal limits.
func newPod(vm string, vcpus int) *v1.Pod {
	amounts := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(vcpus), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(1<<30, resource.BinarySI),
	}
	pod := &v1.Pod{}
	pod.Name = vm
	pod.UID = types.UID(vm)
	pod.Spec.Containers = []v1.Container{{
		Name:      container,
		Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts},
	}}
	return pod
}

// machineInfo says what cAdvisor would report on such a machine. It is told of every last-level cache, also where that is
// an L2, which cAdvisor itself would not report.
func machineInfo(table []cpuRow) *cadvisor.MachineInfo {
	cores := map[int]*cadvisor.Core{}
	nodes := map[int][]int{}
	packages := map[int]bool{}
	for _, row := range table {
		packages[row.Package] = true
		core, ok := cores[row.Core]
		if !ok {
			core = &cadvisor.Core{
				Id:           row.Core,
				SocketID:     row.Package,
				UncoreCaches: []cadvisor.Cache{{Id: row.LLC, Type: "Unified", Level: 3}},
			}
			cores[row.Core] = core
			nodes[row.Node] = append(nodes[row.Node], row.Core)
		}
		core.Threads = append(core.Threads, row.CPU)
	}
	info := &cadvisor.MachineInfo{NumCores: len(table), NumPhysicalCores: len(cores), NumSockets: len(packages)}
	for _, id := range sortedKeys(nodes) {
		node := cadvisor.Node{Id: id}
		for _, core := range nodes[id] {
			node.Cores = append(node.Cores, *cores[core])
		}
		info.Topology = append(info.Topology, node)
	}
	return info
}

func sortedKeys(of map[int][]int) []int {
	keys := []int{}
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

var _ topologymanager.HintProvider = hints{}
