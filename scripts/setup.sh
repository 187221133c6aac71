#!/usr/bin/env bash
# Installs what vtopo needs, once; a second run finds everything there and takes well under a second.
#
#   scripts/setup.sh                 what building and running need: Rust (checked only), packages, a guest kernel
#   scripts/setup.sh test            what only the tests use; where that cannot be had, tests skip and say so
#   scripts/setup.sh packages        only the packages of the first line, the part that needs root
#   scripts/setup.sh test-packages   only the packages of the second line
#
# Exit code 0: all there. 2: something is missing that could not be installed; the text says what to type.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/say.sh
. scripts/packages.sh
. scripts/guest-kernel.sh

# One need a line: what | Debian, Ubuntu | dnf | pacman | zypper. `have_WHAT` in packages.sh tells whether it is there,
# however it came to the machine. libc.a is for the guest's init, which is linked statically.
RUN_NEEDS='
cc      | gcc             | gcc                 | gcc             | gcc
libc_a  | libc6-dev       | glibc-static        | glibc           | glibc-devel-static
pkgconf | pkg-config      | pkgconf-pkg-config  | pkgconf         | pkgconf-pkg-config
hwloc   | libhwloc-dev    | hwloc-devel         | hwloc           | hwloc-devel
udev    | libudev-dev     | systemd-devel       | systemd-libs    | systemd-devel
qemu    | qemu-system-x86 | qemu-system-x86-core | qemu-system-x86 | qemu-x86
numactl | numactl         | numactl             | numactl         | numactl
lscpu   | util-linux      | util-linux          | util-linux      | util-linux
'
TEST_NEEDS='
libvirt    | libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-log libvirt-clients | libvirt-daemon-driver-qemu libvirt-client | libvirt | libvirt-daemon-driver-qemu libvirt-client
xmllint    | libxml2-utils | libxml2         | libxml2   | libxml2-tools
tini       | tini          | tini            | tini      | tini
lstopo     | hwloc         | hwloc           | hwloc     | hwloc
rsvg       | librsvg2-bin  | librsvg2-tools  | librsvg   | rsvg-convert
shellcheck | shellcheck    | ShellCheck      | shellcheck | ShellCheck
'

main() {
    case ${1:-run} in
    run)
        require_rust
        require_packages
        provide_guest_kernel
        say "ready: QEMU $(qemu_version), hwloc $(pkg-config --modversion hwloc), guest kernel $(guest_kernel_version)"
        ;;
    test)
        require_rust_components
        want_test_packages
        ;;
    packages) require_packages ;;
    test-packages) want_test_packages ;;
    *) die "unknown argument '$1': use one of run, test, packages, test-packages" ;;
    esac
}

# Rust comes from rustup, not from here: distributions ship older ones, and a toolchain is the user's choice.
require_rust() {
    local want have
    want=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
    command -v cargo >/dev/null || die "cargo is missing: install Rust $want with rustup, then type the same again"
    have=$(cargo --version | cut -d' ' -f2)
    at_least "$want" "$have" ||
        die "Rust $want or newer is needed, found $have: type 'rustup update', then the same again"
}

require_rust_components() {
    local missing=()
    cargo fmt --version >/dev/null 2>&1 || missing+=(rustfmt)
    cargo clippy --version >/dev/null 2>&1 || missing+=(clippy)
    ((${#missing[@]})) || return 0
    command -v rustup >/dev/null || die "cargo has no ${missing[*]}: install them beside your Rust"
    say "rustup component add ${missing[*]}"
    rustup component add "${missing[@]}" || die "rustup could not add ${missing[*]}"
}

require_packages() {
    provide_packages "$RUN_NEEDS" packages || exit 2
    at_least "$QEMU_MIN" "$(qemu_version)" ||
        warn "QEMU $(qemu_version) cannot show a guest every cache shape; QEMU $QEMU_MIN or newer can"
}

want_test_packages() {
    provide_packages "$TEST_NEEDS" test-packages || warn "tests that need what is missing will skip and say so"
}

main "$@"
