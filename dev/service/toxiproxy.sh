# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# Toxiproxy: cuts and slows connections in fault tests; proxies are made through its HTTP API.

port=$((26474 + offset))

missing() { need curl curl; }

prepare() {
    [[ ! -x $dir/dist/server ]] || return 0
    command -v go >/dev/null || die "toxiproxy is built with Go: install Go 1.23 or newer"
    GOBIN=$dir/dist go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
}

start() {
    drop_root_to nobody
    daemon "$dir/pid" "${as_user[@]}" "$dir/dist/server" -host 127.0.0.1 -port "$port"
}

ready() { curl -fs --noproxy '*' -m 5 -o /dev/null "http://127.0.0.1:$port/version"; }

environment() { echo "DLO_TEST_TOXIPROXY_URL=http://127.0.0.1:$port"; }
