# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# RabbitMQ 4 from Debian 13: the node runs in a small Debian of its own, fetched from this machine's own mirror.
# Mounts are made in the processes' own mount namespace and end with them, however they end.

# shellcheck source=dev/service/rabbitmq.sh
source "$root/dev/service/rabbitmq.sh"
port=$((24672 + offset))
prefix=DLO_TEST_RABBITMQ4
seen_node=/mnt
debian=$dir/dist

missing() {
    need debootstrap debootstrap
    need curl curl
}

fetch() {
    [[ ! -d $debian ]] || return 0
    ((EUID == 0)) || die "RabbitMQ 4 runs in a chroot: that needs root, or Docker"
    local mirror
    # shellcheck disable=SC2016 # apt expands it
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n '0,/^Debian /s/^Debian //p')
    [[ -n $mirror ]] || die "RabbitMQ 4 comes from a Debian mirror, and apt's sources name none"
    rm -rf --one-file-system "$debian.new"
    unshare --mount debootstrap --variant=minbase --include=rabbitmq-server trixie "$debian.new" "$mirror"
    echo 127.0.0.1 localhost >"$debian.new/etc/hosts"
    rm -f "$debian.new"/var/cache/apt/archives/*.deb
    mv "$debian.new" "$debian"
}

start() {
    # shellcheck disable=SC2016 # expanded by the new shell
    launch unshare --mount bash -ec '
        mount --rbind /proc "$0/proc"
        mount --rbind /dev "$0/dev"
        mount --bind "$1" "$0/mnt"
        chroot "$0" chown -R rabbitmq: /mnt
        exec chroot --userspec=rabbitmq:rabbitmq "$0" "${@:2}"' "$debian" "$node"
}
