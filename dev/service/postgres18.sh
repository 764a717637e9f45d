# shellcheck shell=bash disable=SC2154 # shared with dev/process.sh
# shellcheck source=dev/postgres_binaries.sh
source "$root/dev/postgres_binaries.sh" 18 18.1.0
