# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# PostgreSQL from Debian: a cluster of the project's own, unknown to Debian's tools and apart from its clusters.
# fsync and synchronous_commit stay on: what the project promises rests on them.

port=$((23432 + offset))
variable=DLO_TEST_DATABASE_URL
admin_variable=DLO_TEST_POSTGRES_ADMIN_URL
stop_signal=INT # "fast": does not wait for open sessions
cluster=$dir/data

binaries() { find /usr/lib/postgresql -path '*/bin/initdb' -printf '%h\n' 2>/dev/null | sort -V | tail -n 1; }
fetch() { :; }

missing() {
    [[ -n $(binaries) ]] || echo postgresql
    need psql postgresql-client
}

# Root may not run the server. `postgres` comes with Debian's package, `nobody` is there without it.
become_owner() {
    local owner=postgres
    id -u "$owner" >/dev/null 2>&1 || owner=nobody
    drop_root_to "$owner"
    if ((EUID == 0)); then chown -R "$owner" "$1"; fi
}

prepare() {
    fetch
    [[ ! -d $cluster ]] || return 0
    echo dlo_admin >"$dir/password" # initdb, not being root, cannot read a pipe of ours
    rm -rf "$cluster.new"
    mkdir "$cluster.new"
    become_owner "$cluster.new"
    "${as_user[@]}" "$(binaries)/initdb" -D "$cluster.new" --username=dlo_admin --pwfile="$dir/password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
    "${as_user[@]}" "$(binaries)/postgres" --single -D "$cluster.new" postgres <"$root/dev/service/postgres.sql"
    mv "$cluster.new" "$cluster"
}

start() {
    # After a kill -9 of the postmaster its children need a moment to notice and let go.
    wait_until 20 unused || die "$name: a process still uses $cluster"
    rm -f "$cluster/postmaster.pid"
    become_owner "$cluster"
    daemon "$dir/pid" "${as_user[@]}" "$(binaries)/postgres" -D "$cluster" -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c max_connections=300 -c 'log_line_prefix=%m [%p] %d '
}

unused() { [[ -z $(find /proc -maxdepth 2 -name cwd -lname "$cluster" 2>/dev/null) ]]; }

ready() {
    [[ $(PGPASSWORD=dlo PGCONNECT_TIMEOUT=5 psql -qAtX -h 127.0.0.1 -p "$port" -U dlo dlo -c 'SELECT 1' 2>/dev/null) == 1 ]]
}

environment() {
    echo "$variable=postgres://dlo:dlo@127.0.0.1:$port/dlo"
    echo "$admin_variable=postgres://dlo_admin:dlo_admin@127.0.0.1:$port/postgres"
    [[ $name != postgres ]] || echo "DLO_DATABASE_URL=postgres://dlo:dlo@127.0.0.1:$port/dlo"
}
