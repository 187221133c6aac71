import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.cloudbus.cloudsim.allocationpolicies.VmAllocationPolicy;
import org.cloudbus.cloudsim.allocationpolicies.VmAllocationPolicyBestFit;
import org.cloudbus.cloudsim.allocationpolicies.VmAllocationPolicyFirstFit;
import org.cloudbus.cloudsim.allocationpolicies.VmAllocationPolicySimple;
import org.cloudbus.cloudsim.brokers.DatacenterBrokerSimple;
import org.cloudbus.cloudsim.core.CloudSim;
import org.cloudbus.cloudsim.datacenters.DatacenterSimple;
import org.cloudbus.cloudsim.hosts.Host;
import org.cloudbus.cloudsim.hosts.HostSimple;
import org.cloudbus.cloudsim.provisioners.ResourceProvisionerSimple;
import org.cloudbus.cloudsim.resources.Pe;
import org.cloudbus.cloudsim.resources.PeSimple;
import org.cloudbus.cloudsim.schedulers.vm.VmSchedulerSpaceShared;
import org.cloudbus.cloudsim.vms.Vm;
import org.cloudbus.cloudsim.vms.VmSimple;
import org.cloudsimplus.util.Log;

/**
 * Places the VMs of a file (vmid,cpu,memory,time,type) with CloudSim Plus and prints what came of it as one line of JSON.
 * Arguments: FILE HOSTS CPUS GIB ALGORITHM simulate|play. Statistics of hosts and VMs are off, and so is the log.
 */
public final class Placement {
    private static final double MIPS = 1_000;
    /** Never binds: bandwidth and disks are not part of the requests. */
    private static final long PLENTY = 1L << 40;

    private record Request(String name, int cpus, long gib, double on, double off) {}

    public static void main(final String[] args) throws IOException {
        Log.setLevel(ch.qos.logback.classic.Level.OFF);
        final long start = System.nanoTime();
        final List<Request> requests = read(Path.of(args[0]));
        final long read = System.nanoTime();
        final VmAllocationPolicy policy = policy(args[4]);
        final int[] hostOf = switch (args[5]) {
            case "simulate" -> simulate(requests, hosts(args), policy);
            case "play" -> play(requests, hosts(args), policy);
            default -> throw new IllegalArgumentException("no way " + args[5]);
        };
        final long end = System.nanoTime();
        final long placed = Arrays.stream(hostOf).filter(host -> host >= 0).count();
        System.out.printf(
            "{\"vms\": %d, \"placed\": %d, \"refused\": %d, \"hash\": \"%016x\", \"read_ns\": %d, \"place_ns\": %d}%n",
            hostOf.length, placed, hostOf.length - placed, hash(hostOf), read - start, end - read);
    }

    /** CloudSim Plus calls next-fit first-fit, and worst-fit simple. First-fit proper is a search that we give it. */
    private static VmAllocationPolicy policy(final String name) {
        return switch (name) {
            case "next-fit" -> new VmAllocationPolicyFirstFit();
            case "best-fit" -> new VmAllocationPolicyBestFit();
            case "worst-fit" -> new VmAllocationPolicySimple();
            case "first-fit" -> new VmAllocationPolicySimple((policy, vm) -> policy.getHostList().stream()
                .filter(host -> host.isSuitableForVm(vm))
                .findFirst());
            default -> throw new IllegalArgumentException("no algorithm " + name);
        };
    }

    private static List<Host> hosts(final String[] args) {
        final int count = Integer.parseInt(args[1]);
        final int cpus = Integer.parseInt(args[2]);
        final long mib = 1024 * Long.parseLong(args[3]);
        final List<Host> hosts = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            final List<Pe> pes = new ArrayList<>(cpus);
            for (int cpu = 0; cpu < cpus; cpu++) {
                pes.add(new PeSimple(MIPS));
            }
            final Host host = new HostSimple(mib, PLENTY, PLENTY, pes);
            host.setRamProvisioner(new ResourceProvisionerSimple()).setBwProvisioner(new ResourceProvisionerSimple())
                .setVmScheduler(new VmSchedulerSpaceShared()).setId(i);
            hosts.add(host);
        }
        return hosts;
    }

    private static Vm vm(final List<Request> requests, final int i) {
        final Request it = requests.get(i);
        final Vm vm = new VmSimple(i, MIPS, it.cpus);
        vm.setRam(1024 * it.gib).setBw(1).setSize(1);
        return vm;
    }

    /**
     * The policy alone, called for each arrival and departure in the order of time, without the simulation around it. At one
     * moment departures come first; every VM lives for a second at least.
     */
    private static int[] play(final List<Request> requests, final List<Host> hosts, final VmAllocationPolicy policy) {
        final CloudSim simulation = new CloudSim();
        new DatacenterSimple(simulation, hosts, policy);
        final var broker = new DatacenterBrokerSimple(simulation);
        final Integer[] departures = IntStream.range(0, requests.size()).boxed()
            .filter(i -> requests.get(i).off < Double.MAX_VALUE)
            .sorted(Comparator.comparingDouble(i -> requests.get(i).off)).toArray(Integer[]::new);
        final Vm[] vms = new Vm[requests.size()];
        final int[] hostOf = new int[requests.size()];
        Arrays.fill(hostOf, -1);
        int gone = 0;
        for (int i = 0; i < requests.size(); i++) {
            while (gone < departures.length && requests.get(departures[gone]).off <= requests.get(i).on) {
                final int leaving = departures[gone++];
                if (hostOf[leaving] >= 0) {
                    policy.deallocateHostForVm(vms[leaving]);
                }
                vms[leaving] = null;
            }
            vms[i] = vm(requests, i);
            vms[i].setBroker(broker);
            if (policy.allocateHostForVm(vms[i]).fully()) {
                hostOf[i] = (int) vms[i].getHost().getId();
            }
        }
        return hostOf;
    }

    /** The simulation of VMs that all come at once and stay. By request: the number of its host, -1 if it got none. */
    private static int[] simulate(final List<Request> requests, final List<Host> hosts, final VmAllocationPolicy policy) {
        final CloudSim simulation = new CloudSim();
        new DatacenterSimple(simulation, hosts, policy);
        final var broker = new DatacenterBrokerSimple(simulation);
        // A refused VM is gone, as it is on our side.
        broker.setFailedVmsRetryDelay(-1);
        final int[] hostOf = new int[requests.size()];
        Arrays.fill(hostOf, -1);
        final List<Vm> vms = new ArrayList<>(requests.size());
        for (int i = 0; i < requests.size(); i++) {
            final Vm vm = vm(requests, i);
            final int request = i;
            vm.addOnHostAllocationListener(info -> hostOf[request] = (int) info.getHost().getId());
            vms.add(vm);
        }
        broker.submitVmList(vms);
        simulation.start();
        return hostOf;
    }

    /** FNV-1a with 64 bits over the hosts, four bytes each, the lowest first; -1 is all ones. */
    private static long hash(final int[] hosts) {
        long hash = 0xcbf29ce484222325L;
        for (final int host : hosts) {
            for (int shift = 0; shift < 32; shift += 8) {
                hash = (hash ^ ((host >>> shift) & 0xff)) * 0x100000001b3L;
            }
        }
        return hash;
    }

    /** VMs in the order of their creation; who is never deleted has no end. */
    private static List<Request> read(final Path file) throws IOException {
        final List<Request> requests = new ArrayList<>();
        final Map<String, Integer> running = new HashMap<>();
        for (final String line : Files.readAllLines(file).stream().skip(1).toList()) {
            final String[] fields = line.split(",");
            final double time = Double.parseDouble(fields[3]);
            if (fields[4].equals("0")) {
                running.put(fields[0], requests.size());
                requests.add(new Request(fields[0], Integer.parseInt(fields[1]), Long.parseLong(fields[2]), time,
                    Double.MAX_VALUE));
            } else {
                final int vm = running.remove(fields[0]);
                final Request it = requests.get(vm);
                requests.set(vm, new Request(it.name, it.cpus, it.gib, it.on, time));
            }
        }
        return requests;
    }
}
