# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# Another PostgreSQL than Debian's, from the binaries that Maven has for embedding; sourced with MAJOR VERSION by
# the files in dev/service/. Built without lz4: what uses it must do without here.

# shellcheck source=dev/service/postgres.sh
source "$root/dev/service/postgres.sh"
major=$1 version=$2
port=$((23400 + major + offset))
variable=DLO_TEST_POSTGRES${major}_URL
admin_variable=DLO_TEST_POSTGRES${major}_ADMIN_URL

binaries() { echo "$dir/dist/bin"; }

missing() {
    [[ -d $dir/dist ]] || need mvn maven
    need xz xz-utils
    need psql postgresql-client
}

fetch() {
    [[ ! -d $dir/dist ]] || return 0
    rm -rf "$dir/jar" "$dir/dist.new"
    mkdir -p "$dir/dist.new"
    (cd "$dir" && maven dependency:unpack -DoutputDirectory="$dir/jar" \
        -Dartifact="io.zonky.test.postgres:embedded-postgres-binaries-linux-$(dpkg --print-architecture):$version")
    tar -xJf "$dir"/jar/*.txz -C "$dir/dist.new"
    rm -r "$dir/jar"
    mv "$dir/dist.new" "$dir/dist"
}
