# shellcheck shell=bash
# How the scripts speak: one line before each thing they do. Sourced, not run.
# Colour only on a terminal, and never with NO_COLOR set (the convention of no-color.org).

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    say_bold=$'\e[1m' say_warn=$'\e[33m' say_off=$'\e[0m'
else
    say_bold='' say_warn='' say_off=''
fi

# What is done next, or what was found.
say() { printf '%s%s:%s %s\n' "$say_bold" "${0##*/}" "$say_off" "$*"; }

# What is not as it should be but does not stop us.
warn() { printf '%s%s: warning:%s %s\n' "$say_warn" "${0##*/}" "$say_off" "$*" >&2; }

# What stops us: wrong use or a failed step, exit code 2 as everywhere in vtopo.
die() {
    printf '%s%s: error:%s %s\n' "$say_warn" "${0##*/}" "$say_off" "$*" >&2
    exit 2
}

# A command, shown as it would be typed, then run.
show_and_run() {
    printf '%s$ %s%s\n' "$say_bold" "$*" "$say_off"
    "$@"
}
