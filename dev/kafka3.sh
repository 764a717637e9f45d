# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# One of three Kafka nodes that form a cluster, each broker and controller; sourced with its number by the files in
# dev/service/. Plain listeners only. Two of the three must run for any of them to answer.

# shellcheck source=dev/service/kafka.sh
source "$root/dev/service/kafka.sh"
number=$1
first_port=$((23061 + offset)) # of each node: clients, then controllers
port=$((first_port + 2 * (number - 1)))
heap=256m

# The same for all three, whichever is formatted first or anew.
cluster_id() { echo dlo-three-kafka-nodesA; }
certificate() { :; }
start() { launch; }

settings() { # DATA_FOLDER
    cat "$root/dev/service/kafka.properties" - <<-END
	log.dirs=$1
	node.id=$number
	controller.quorum.voters=1@127.0.0.1:$((first_port + 1)),2@127.0.0.1:$((first_port + 3)),3@127.0.0.1:$((first_port + 5))
	listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
	default.replication.factor=3
	min.insync.replicas=2
	offsets.topic.replication.factor=3
	transaction.state.log.replication.factor=3
	transaction.state.log.min.isr=2
	share.coordinator.state.topic.replication.factor=3
	share.coordinator.state.topic.min.isr=2
	END
}

environment() {
    echo "DLO_TEST_KAFKA3_BROKERS=127.0.0.1:$first_port,127.0.0.1:$((first_port + 2)),127.0.0.1:$((first_port + 4))"
}
