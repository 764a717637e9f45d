# shellcheck shell=bash
# What dev/services, ./demo and ./test share: words for people, and the system's packages.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# Prints PACKAGE where COMMAND is not to be found.
need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || echo "$2"
}

# Prints what the build lacks: librdkafka is compiled, and linked with the system's OpenSSL and zlib. It is C, and its
# configure script still gives up without a C++ compiler.
build_needs() {
    need cc gcc
    need c++ g++
    need make make
    need pkg-config pkg-config
    local library
    for library in openssl:libssl-dev zlib:zlib1g-dev; do
        pkg-config --exists "${library%:*}" 2>/dev/null || echo "${library#*:}"
    done
}

# Installs Debian packages where this user may, and says how to get them where not. A policy file
# keeps apt from starting the system's own services, which would be in nobody's interest here.
apt_install() { # LOG PACKAGE…
    local log=$1 policy=/usr/sbin/policy-rc.d sudo=()
    shift
    local by_hand="apt-get install -y --no-install-recommends $*"
    command -v apt-get >/dev/null || die "missing: $* (and no apt-get to install it with)"
    if ((EUID)); then
        sudo -n true 2>/dev/null || die "missing: $*; get it with: sudo $by_hand"
        sudo=(sudo -n)
    fi
    say "installing $*"
    (
        if [[ ! -e $policy ]]; then
            trap '"${sudo[@]}" rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
            "${sudo[@]}" chmod +x "$policy"
        fi
        apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy -o DPkg::Lock::Timeout=300)
        "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"
    ) </dev/null >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "could not install $*; the whole output is in $log"
    }
}
