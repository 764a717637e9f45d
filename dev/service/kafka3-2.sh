# shellcheck shell=bash disable=SC2154 # shared with dev/process.sh
# shellcheck source=dev/kafka3.sh
source "$root/dev/kafka3.sh" 2
