# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# RabbitMQ from Debian (3.10 in Debian 12): a node of the project's own with its own epmd, apart from the system's.

port=$((23672 + offset))
prefix=DLO_TEST_RABBITMQ
node=$dir/node       # the node's folder
seen_node=$node      # and its name to the node
programs=/usr/lib/rabbitmq/bin

fetch() { :; }

missing() {
    [[ -x $programs/rabbitmq-server ]] || echo rabbitmq-server
    need curl curl
}

prepare() {
    fetch
    mkdir -p "$node"
    cp "$root/dev/service/rabbitmq.plugins" "$node/enabled_plugins"
    cat "$root/dev/service/rabbitmq.conf" - >"$node/rabbitmq.conf" <<-END
	listeners.tcp.default = 127.0.0.1:$port
	management.tcp.ip = 127.0.0.1
	management.tcp.port = $((port + 1))
	END
}

start() {
    drop_root_to rabbitmq
    if ((EUID == 0)); then chown -R rabbitmq "$node"; fi
    launch "${as_user[@]}"
}

launch() { # COMMAND_PREFIX…
    # Debian's settings are for Debian's node: no rabbitmq-env.conf. As under systemd, the start script
    # becomes the node instead of waiting for it.
    local settings=(
        HOME="$seen_node"
        RABBITMQ_CONF_ENV_FILE=/nonexistent RUNNING_UNDER_SYSTEMD=true
        RABBITMQ_NODENAME=dlo@localhost
        RABBITMQ_MNESIA_BASE="$seen_node/mnesia" RABBITMQ_LOG_BASE="$seen_node/log" RABBITMQ_LOGS=-
        RABBITMQ_CONFIG_FILE="$seen_node/rabbitmq.conf" RABBITMQ_ENABLED_PLUGINS_FILE="$seen_node/enabled_plugins"
        RABBITMQ_GENERATED_CONFIG_DIR="$seen_node/generated"
        RABBITMQ_DIST_PORT=$((port + 2))
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
        ERL_EPMD_PORT=$((port + 3)) ERL_EPMD_ADDRESS=127.0.0.1
    )
    our_pid "$dir/epmd.pid" >/dev/null || daemon "$dir/epmd.pid" "$@" env "${settings[@]}" epmd
    daemon "$dir/pid" "$@" env "${settings[@]}" "$programs/rabbitmq-server"
}

# The management API comes before the AMQP port when the node boots.
ready() {
    port_open "$port" &&
        curl -fs --noproxy '*' -m 5 -u guest:guest -o /dev/null "http://127.0.0.1:$((port + 1))/api/whoami"
}

environment() {
    echo "${prefix}_URL=amqp://guest:guest@127.0.0.1:$port/%2f"
    echo "${prefix}_MANAGEMENT_URL=http://guest:guest@127.0.0.1:$((port + 1))"
    [[ $name != rabbitmq ]] || echo "DLO_RABBITMQ_URL=amqp://guest:guest@127.0.0.1:$port/%2f"
}
