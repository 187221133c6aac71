# shellcheck shell=bash
# How to see which needs are there and how to install the others. Sourced by setup.sh.
# Installs on Debian and its relatives; on other distributions it prints what to type.

# smp-cache, with which a guest gets its LLCs as planned, came with QEMU 10.0.
# Used by setup.sh too.
QEMU_MIN=10

have_cc() { command -v cc; }
have_libc_a() { [[ -e $(cc -print-file-name=libc.a) ]]; }
have_pkgconf() { command -v pkg-config; }
have_hwloc() { pkg-config --exists hwloc; }
have_udev() { pkg-config --exists libudev; }
have_qemu() { at_least "$QEMU_MIN" "$(qemu_version)" || { [[ -n $(qemu_version) ]] && ! qemu_can_be_newer; }; }
have_numactl() { command -v numactl; }
have_lscpu() { command -v lscpu; }
have_libvirt() { command -v virsh && { command -v libvirtd || command -v virtqemud; }; }
have_xmllint() { command -v xmllint; }
have_tini() { command -v tini; }
have_lstopo() { command -v lstopo-no-graphics; }
have_rsvg() { command -v rsvg-convert; }
have_shellcheck() { command -v shellcheck; }

# True when the needs in table $1 are all there, at the latest after installing them; else it has said why not.
# $2 is the argument of setup.sh that does the same as root.
provide_packages() {
    local tool packages
    tool=$(package_tool)
    packages=$(missing_packages "$1" "$tool")
    [[ -n $packages ]] || return 0
    case $tool in
    apt) ;;
    dnf | zypper) no_install "type 'sudo $tool install $packages', then the same again" ;;
    pacman) no_install "type 'sudo pacman -S --needed $packages', then the same again" ;;
    *) no_install "install what your distribution calls $packages, then type the same again" ;;
    esac || return 1
    if ((EUID)); then
        no_install "missing: $packages. Root installs them: type 'sudo scripts/setup.sh $2', then the same again"
        return 1
    fi
    # shellcheck disable=SC2086 # Package names, split on purpose.
    apt_install $packages || return 1
    packages=$(missing_packages "$1" "$tool")
    [[ -z $packages ]] || no_install "still missing after installing: $packages"
}

no_install() {
    warn "$*"
    return 1
}

package_tool() {
    local tool
    for tool in apt-get dnf pacman zypper; do
        if command -v "$tool" >/dev/null; then
            echo "${tool%-get}"
            return
        fi
    done
    echo none
}

# Prints, on one line, the packages of the needs in table $1 that are not there, by the names that tool $2 knows.
missing_packages() {
    local column=1 fields missing=()
    case $2 in dnf) column=2 ;; pacman) column=3 ;; zypper) column=4 ;; esac
    while IFS='|' read -ra fields; do
        [[ -n ${fields[*]} ]] || continue
        # shellcheck disable=SC2206 # Words, split on purpose.
        "have_${fields[0]// /}" >/dev/null 2>&1 || missing+=(${fields[column]})
    done <<<"$1"
    echo "${missing[*]}"
}

# Installs the packages named, the newer ones from backports where a release's own are too old.
# Never removes a package and starts no upgrade: what would need either fails, with apt's reason.
apt_install() {
    local suite='' packages=() package
    say "apt-get update, to know what can be installed"
    apt_quiet update || warn "apt-get update failed, going on with the lists that are there"
    if [[ $(release_codename) == bookworm && $* =~ qemu|libvirt ]]; then
        suite=bookworm-backports
        add_suite "$suite" || return 1
    fi
    for package in $(with_relatives "$@"); do
        if [[ $package =~ ^(qemu|seabios|libvirt) && -n $suite ]]; then
            packages+=("$package/$suite")
        elif [[ -n $(apt-cache show "$package" 2>/dev/null) ]]; then
            packages+=("$package")
        else
            warn "$package is not in this release"
        fi
    done
    ((${#packages[@]})) || return 1
    say "apt-get install ${packages[*]}"
    apt_quiet install -y --no-install-recommends --no-remove "${packages[@]}"
}

# The packages named, plus those that must come from the same suite because versions are tied:
# what such a package is split into, and what of the same source is installed already.
with_relatives() {
    {
        printf '%s\n' "$@"
        [[ $(release_codename) == bookworm ]] || return 0
        if [[ " $*" =~ ' qemu-' ]]; then
            printf '%s\n' qemu-system-common qemu-system-data seabios
            installed_of_source qemu
        fi
        if [[ " $*" =~ ' libvirt-' ]]; then
            printf '%s\n' libvirt0 libvirt-common libvirt-daemon-common
            installed_of_source libvirt
        fi
    } | sort -u
}

installed_of_source() {
    # shellcheck disable=SC2016 # dpkg's variables, not the shell's.
    dpkg-query -W -f '${source:Package} ${db:Status-Status} ${Package}\n' |
        awk -v source="$1" '$1 == source && $2 == "installed" { print $3 }'
}

# Makes suite $1 of Debian known to apt: a copy of this machine's own Debian entry (its mirror, its keys, its options)
# with only the suite changed, and a pin so low that nothing else comes from it.
add_suite() {
    local suite=$1 targets entry release source copy
    # shellcheck disable=SC2016 # apt's variables, not the shell's.
    targets=$(apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(COMPONENT) $(RELEASE) $(SOURCESENTRY)' 'Created-By: Packages')
    ! grep -q "^$suite " <<<"$targets" || return 0
    read -r _ _ _ release entry < <(grep -m1 "^${suite%-backports} Debian main " <<<"$targets") ||
        no_install "no entry for Debian ${suite%-backports} in /etc/apt: add $suite by hand, then type the same again" ||
        return 1
    source=${entry%:*}
    copy=/etc/apt/sources.list.d/vtopo-backports.${source##*.}
    say "add $suite as $copy (a copy of $source), pinned at 90 so that nothing else changes"
    if [[ $source == *.sources ]]; then
        copy_stanza "$release" "$suite" <"$source" >"$copy"
    else
        sed -n "${entry##*:}s/[[:space:]]${release}[[:space:]]/ $suite /p" "$source" >"$copy"
    fi
    printf 'Explanation: vtopo needs a newer QEMU; nothing else comes from here unasked.\nPackage: *\nPin: release n=%s\nPin-Priority: 90\n' \
        "$suite" >/etc/apt/preferences.d/vtopo-backports
    apt_quiet update -o Dir::Etc::sourcelist="$copy" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
}

# Copies the first deb822 stanza that has suite $1, with suite $2 in its place.
copy_stanza() {
    awk -v old="$1" -v new="$2" '
        BEGIN { RS = ""; FS = "\n" }
        {
            text = ""; suites = " "; inside = 0
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^#/) continue
                if ($i !~ /^[ \t]/) inside = tolower($i) ~ /^suites:/
                if (inside) suites = suites substr($i, index($i, ":") + 1) " "
                else text = text $i "\n"
            }
            if (index(suites, " " old " ")) { printf "%sSuites: %s\n", text, new; exit }
        }'
}

# apt-get without a word unless it fails. Waits for another apt to finish.
apt_quiet() {
    local log status=0
    log=$(mktemp)
    DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Options::=--force-confold "$@" >"$log" 2>&1 </dev/null || status=1
    ((status == 0)) || tail -n 15 "$log" >&2
    rm -f "$log"
    return $status
}

qemu_version() { qemu-system-x86_64 --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p' || true; }

# Debian 12 has a newer QEMU in its backports; other releases come with the one they have, and Proxmox VE with its own.
qemu_can_be_newer() { [[ $(release_codename) == bookworm ]] && ! dpkg-query -W pve-qemu-kvm >/dev/null 2>&1; }

release_codename() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# True when version $2 is $1 or newer.
at_least() { printf '%s\n' "$1" "$2" | sort -V -C; }
