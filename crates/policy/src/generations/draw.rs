//! Pseudo-random draws: what a scheduler leaves to chance, the same in every run.

/// A number for one decision about a vCPU. FNV-1a over the VM's name, then the finaliser of `SplitMix64` over name, vCPU
/// and generation (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014). Another generation of
/// plans draws anew; another order of the VMs does not.
pub(super) fn draw(name: &str, vcpu: u32, generation: u64) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    finalise(finalise(hash ^ finalise(generation)) ^ u64::from(vcpu))
}

/// One of `choices`, by a draw; `None` when there is none.
pub(super) fn pick<T: Copy>(choices: &[T], draw: u64) -> Option<T> {
    let n = u64::try_from(choices.len()).ok().filter(|&n| n > 0)?;
    let index = usize::try_from(draw % n).ok()?;
    choices.get(index).copied()
}

fn finalise(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
