# shellcheck shell=bash
# The kernel that `vtopo verify` boots: Debian's newest cloud kernel, downloaded and unpacked, never installed.
# Sourced by setup.sh. `rm -r target/guest-kernel` and a new setup fetch a newer one.

GUEST_KERNEL=target/guest-kernel

provide_guest_kernel() {
    [[ -z ${VTOPO_KERNEL:-} && ! -s $GUEST_KERNEL/vmlinuz ]] || return 0
    local scratch=target/guest-kernel.new
    rm -rf "$scratch"
    mkdir -p "$scratch"
    if [[ $(package_tool) == apt ]]; then
        unpack_newest_kernel "$scratch"
    else
        copy_own_kernel "$scratch"
    fi || die "no guest kernel: set VTOPO_KERNEL to a bzImage for x86-64, then type the same again"
    rm -rf "$GUEST_KERNEL"
    mv "$scratch" "$GUEST_KERNEL"
}

guest_kernel_version() {
    if [[ -n ${VTOPO_KERNEL:-} ]]; then echo "$VTOPO_KERNEL"; else cat "$GUEST_KERNEL/version"; fi
}

# Fetches the newest kernel package among the suites that apt knows, and takes the kernel out of it.
unpack_newest_kernel() {
    local directory=$1 package
    package=$(newest_kernel_package)
    if [[ -z $package ]]; then
        warn "apt knows no cloud kernel: type 'sudo apt-get update', then the same again"
        return 1
    fi
    say "apt-get download $package, and unpack its kernel into $GUEST_KERNEL (it is not installed)"
    download_kernel "$package" "$directory"
}

newest_kernel_package() {
    local meta
    for meta in linux-image-cloud-amd64 linux-image-virtual; do # Debian's name, Ubuntu's name.
        apt-cache show "$meta" 2>/dev/null |
            awk '/^Version:/ { version = $2 }
                 /^Depends:/ && match($0, /linux-image-[0-9][^ ,]*/) { print version, substr($0, RSTART, RLENGTH) }' |
            sort -V | tail -n 1 | cut -d' ' -f2
    done | head -n 1
}

# Debian 14's linux-image packages are empty and depend on a linux-binary package that has the kernel.
download_kernel() {
    local package=$1 directory=$2 file inner
    fetch_package "$package" "$directory" || return 1
    file=$(echo "$directory"/*.deb)
    if ! take_kernel "$file" "$directory"; then
        inner=$(dpkg-deb -f "$file" Depends | grep -o 'linux-binary-[0-9][^ ,]*' | head -n 1)
        rm -f "$file"
        [[ -n $inner ]] || return 1
        fetch_package "$inner" "$directory" || return 1
        file=$(echo "$directory"/*.deb)
        take_kernel "$file" "$directory" || return 1
    fi
    rm -f "$file"
}

# As root, apt would otherwise warn that its own user `_apt` cannot write here.
fetch_package() {
    (cd "$2" && apt_quiet download -o APT::Sandbox::User="$(id -un)" "$1")
}

# Takes the kernel out of package file $1, whose members are ./boot/vmlinuz-RELEASE or ./usr/lib/modules/RELEASE/vmlinuz.
take_kernel() {
    local path
    path=$(dpkg-deb --fsys-tarfile "$1" | tar -t | grep -E '^\./(boot/vmlinuz-|usr/lib/modules/[^/]*/vmlinuz$)') || return 1
    dpkg-deb --fsys-tarfile "$1" | tar -xO "$path" >"$2/vmlinuz" || return 1
    sed -E 's:^\./boot/vmlinuz-::; s:^\./usr/lib/modules/([^/]*)/vmlinuz$:\1:' <<<"$path" >"$2/version"
}

# Other distributions: this machine's own kernel will do, where a user may read it.
copy_own_kernel() {
    local release file
    release=$(uname -r)
    for file in "/lib/modules/$release/vmlinuz" "/boot/vmlinuz-$release"; do
        [[ -r $file ]] || continue
        say "copy $file to $GUEST_KERNEL"
        install -m 644 "$file" "$1/vmlinuz" && echo "$release" >"$1/version"
        return
    done
    warn "cannot read a kernel of release $release in /lib/modules or /boot"
    return 1
}
