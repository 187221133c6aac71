//! Achtemichuk's two tables, "Virtual Machine vCPU and vNUMA Rightsizing - Rules of Thumb", 2017: a host of two
//! packages with 10 cores and 128 GiB each.

use super::super::Release::V6_5;
use super::*;

fn fits(sockets: u32, cores_per_socket: u32) -> Advice {
    Advice::Fits {
        sockets,
        cores_per_socket,
    }
}

fn advice(vcpus: u32, gib: u64) -> Advice {
    let (vm, host) = (vm(&format!("{vcpus} gib={gib}")), host("2x10/128"));
    advise(&vm.request(&host, V6_5))
}

#[test]
fn table_a_memory_fits_a_node() {
    for vcpus in 1..=20 {
        let expected = match vcpus {
            1..=10 => fits(1, vcpus),
            12 | 14 | 16 | 18 | 20 => fits(2, vcpus / 2),
            odd => Advice::SubOptimal {
                fewer: Some(odd - 1),
                more: Some(odd + 1),
            },
        };
        assert_eq!(advice(vcpus, 128), expected, "{vcpus} vCPUs");
    }
}

#[test]
fn table_b_memory_needs_two_nodes() {
    for vcpus in 1..=20 {
        let expected = if vcpus % 2 == 0 {
            fits(2, vcpus / 2)
        } else {
            Advice::SubOptimal {
                fewer: Some(vcpus - 1).filter(|&fewer| fewer > 0),
                more: Some(vcpus + 1),
            }
        };
        assert_eq!(advice(vcpus, 192), expected, "{vcpus} vCPUs");
    }
}

/// ESXi's own node count agrees with table A, and ignores memory where table B does not.
#[test]
fn esxi_sizes_by_vcpus_alone() {
    let host = host("2x10/128");
    for vcpus in (1..=20).filter(|vcpus| *vcpus <= 10 || vcpus % 2 == 0) {
        let nodes = if vcpus <= 10 { 1 } else { 2 };
        for gib in [128, 192] {
            let shape = vm(&format!("{vcpus} gib={gib}")).on(&host, V6_5);
            assert_eq!(
                shape.topology.numa_nodes.len(),
                nodes,
                "{vcpus} vCPUs, {gib} GiB"
            );
        }
    }
}

#[test]
fn a_better_size_is_told_beside_the_shape() {
    let rightsizing = |shape: &Shape| {
        let found = shape
            .rejected
            .iter()
            .find(|reason| reason.code == "rightsizing");
        found.map(|reason| reason.text.clone())
    };
    let host = host("2x10/128");
    let told = rightsizing(&vm("8 gib=192").on(&host, V6_5)).unwrap();
    assert!(told.contains("2 x 4 with 2 vNUMA nodes"), "{told}");
    assert_eq!(rightsizing(&vm("8 cps=8 gib=64").on(&host, V6_5)), None);
}

#[test]
fn numbers_that_never_fit_end_the_search() {
    assert_eq!(
        advice(101, 64),
        Advice::SubOptimal {
            fewer: Some(20),
            more: None
        },
    );
    assert_eq!(
        advice(0, 64),
        Advice::SubOptimal {
            fewer: None,
            more: Some(1)
        }
    );
}

#[test]
fn an_odd_number_above_a_node_is_sub_optimal_even_where_it_divides() {
    let (vm, host) = (vm("9"), host("4x4"));
    let expected = Advice::SubOptimal {
        fewer: Some(8),
        more: Some(12),
    };
    assert_eq!(
        advise(&vm.request(&host, V6_5)),
        expected,
        "3 x 3 would divide"
    );
}
