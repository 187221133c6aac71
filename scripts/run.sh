#!/usr/bin/env bash
# Builds vtopo and does its main jobs on this very machine: look, decide, prove, place. `make run` calls it after setup.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/say.sh

export VTOPO_KERNEL=${VTOPO_KERNEL:-$PWD/target/guest-kernel/vmlinuz}
export CARGO_TARGET_DIR=target
vtopo=./target/release/vtopo

heading() { printf '\n%s%s%s\n' "$say_bold" "$*" "$say_off"; }

show_and_run cargo build --release --package cli

# A VM as wide as the machine, but not wider than a guest boots fast under software emulation.
vcpus=$(nproc)
((vcpus <= 8)) || vcpus=8

heading "1. what this machine looks like"
show_and_run $vtopo host

heading "2. the virtual topology that fits it, for a VM with $vcpus vCPUs and 4 GiB"
show_and_run $vtopo shape --vcpus "$vcpus" --memory 4G --explain

heading "3. proof: boot that VM flat and shaped, and compare what the guest kernels see"
show_and_run $vtopo verify --vcpus "$vcpus" --memory 4G --rule flat,auto

heading "4. the same for a machine with many caches: two EPYC 7702, where 8 vCPUs need two of them"
show_and_run $vtopo verify --vcpus 8 --memory 16G --host epyc-7702-2s --rule flat,auto

# Three VMs that ask for half as much CPU again as that VM had: somebody has to share.
half=$(((vcpus + 1) / 2))
heading "5. where three VMs with $half vCPUs go on this machine, and what the kernel alone would do"
show_and_run $vtopo place --vm "${half}x512M*3" --policy linux-default,best

heading "6. the same for 30 VMs on two EPYC 7702, as ESXi before and since 7.0 U2 would and as vtopo does"
show_and_run $vtopo place --host epyc-7702-2s --vm "8x64G*30" --policy spread,llc,best

cat <<TEXT

Next, try:
  $vtopo host epyc-7702-2s                                            a machine you do not have
  $vtopo shape --vcpus 16 --memory 64G --host epyc-7702-2s --explain  the shape for it, with reasons
  $vtopo shape --vcpus 16 --memory 64G --emit libvirt                 the XML to give to libvirt
  $vtopo check VM.xml --host epyc-7702-2s                             what is wrong with a VM you have
  $vtopo place VM.xml ANOTHER.xml --explain                           where VMs you have belong, with reasons
  $vtopo --help
TEXT
