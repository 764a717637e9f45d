# shellcheck shell=bash disable=SC2154 # shared with dev/process.sh
# shellcheck source=dev/postgres_binaries.sh
source "$root/dev/postgres_binaries.sh" 17 17.5.0
