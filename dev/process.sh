# shellcheck shell=bash disable=SC2154 # name, dir, port: see below
# The life of one service, from nothing to answering and back. dev/services sources this file, then the
# service's own from dev/service/, in a subshell with `name`, `dir` and `offset` set. A service's file sets
#
#   port           where it answers, with `offset` added
#   missing        prints the Debian packages that it lacks
#   prepare        fetches and initialises what is not there yet; may be interrupted and called again
#   start          launches it with `daemon`
#   ready          succeeds once it answers to the project's credentials
#   environment    prints the variables to reach it by, NAME=VALUE a line
#   stop_signal    (optional) what ends it in good order
#
# Everything lives in `dir`: `log`, `*.pid`, what was fetched in `dist`, and the data beside it. A process
# is ours if its working folder lies in `dir`: pid files outlive crashes, and pids come round again.

stop_signal=TERM
ready_within_s=90
missing() { :; }
prepare() { :; }

# Runs a command that outlives this shell: a session of its own, no inherited descriptors.
daemon() { # PID_FILE COMMAND…
    local pid_file=$1
    rm -f "$pid_file"
    # shellcheck disable=SC2016 # expanded by the new shell
    (cd "$dir" && exec setsid -f bash -c '
        for fd in /proc/$$/fd/*; do
            fd=${fd##*/}
            if ((fd > 2)); then eval "exec $fd>&-"; fi
        done
        echo $$ >"$0.new" && mv "$0.new" "$0"
        exec "$@"' "$@") </dev/null >>"$dir/log" 2>&1
    wait_until 10 test -s "$pid_file"
}

# Sets `as_user`, the command prefix by which root becomes USER; empty for anyone else. A USER who cannot
# reach the folder (a checkout below a private home) may also read and search everywhere; the secure bit lets
# access(2), which RabbitMQ asks, see it the same way.
drop_root_to() { # USER
    as_user=()
    ((EUID == 0)) || return 0
    as_user=(setpriv "--reuid=$1" "--regid=$(id -g "$1")" --init-groups)
    "${as_user[@]}" test -x "$dir" ||
        as_user+=(--securebits=+no_setuid_fixup --inh-caps=+dac_read_search --ambient-caps=+dac_read_search)
}

wait_until() { # SECONDS COMMAND…
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}

# Maven, one at a time: its store of what it has fetched is not made for several.
maven() { flock -w 900 "$data/maven.lock" mvn -B -ntp "$@"; }

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Prints the pid in a pid file, if that process is still ours.
our_pid() { # PID_FILE
    local pid folder
    pid=$(cat "$1" 2>/dev/null) && folder=$(readlink "/proc/$pid/cwd") || return 1
    [[ $folder/ == "$dir"/* ]] && echo "$pid"
}

running() { our_pid "$dir/pid" >/dev/null; }
gone() { ! running; }

up() {
    local began=$SECONDS
    if port_open "$port" && ready; then
        running || say "$name: in use as it is at 127.0.0.1:$port, started from another folder"
        return
    fi
    if gone; then
        port_open "$port" && die "$name: another program has port $port, and it does not answer as" \
            "ours would. End it, or set DLO_DEV_PORT_OFFSET=100 to move every port"
        mkdir -p "$dir"
        [[ ! -f $dir/log ]] || mv "$dir/log" "$dir/log.1"
        prepare >>"$dir/log" 2>&1 </dev/null
        start
    fi
    if ! wait_until "$ready_within_s" ready_or_gone || ! ready; then die "$name did not come up"; fi
    say "$name: up after $((SECONDS - began)) s"
}

ready_or_gone() { ready || gone; }

down() {
    local file pid
    if ! running && port_open "$port"; then
        say "$name: left alone, not started from this folder"
    fi
    # The service first, then its helpers.
    for file in "$dir"/pid "$dir"/*.pid; do
        pid=$(our_pid "$file") || continue
        kill -s "$stop_signal" "$pid"
        wait_until 30 ended "$file" || kill -KILL "$pid"
        wait_until 5 ended "$file" || die "$name: process $pid does not end"
        rm -f "$file"
    done
}

ended() { ! our_pid "$1" >/dev/null; }

# As a power cut would: the service and its children, without a word.
crash() {
    local pid children
    pid=$(our_pid "$dir/pid") || die "$name is not running from this folder"
    children=$(cat "/proc/$pid/task/$pid/children")
    # shellcheck disable=SC2086 # a list of pids
    kill -KILL "$pid" $children 2>/dev/null || true
    wait_until 10 gone || die "$name: process $pid does not end"
}

# Removes data, and with --all what was fetched too. Nothing is mounted here outside the services' own
# mount namespaces; should that ever be untrue, a recursive removal must not walk into it.
wipe() { # [--all]
    [[ -d $dir ]] || return 0
    if findmnt -rno TARGET | grep -F -- "$dir/" >&2; then
        die "$name: something is mounted below $dir; unmount it first"
    fi
    local keep=()
    [[ ${1-} == --all ]] || keep=(! -name dist)
    find "$dir" -xdev -mindepth 1 -maxdepth 1 "${keep[@]}" -exec rm -rf --one-file-system -- {} +
}

state() {
    if ! port_open "$port" || ! ready; then
        if running; then echo starting; else echo down; fi
    elif running; then
        echo up
    else
        echo "up, not from this folder"
    fi
}

# Prints the environment in the shell's words, if the service answers.
environment_if_up() {
    if port_open "$port" && ready; then exports; fi
}

exports() { environment | sed -E "s/^([^=]+)=(.*)/export \1='\2'/"; }
