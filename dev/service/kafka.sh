# shellcheck shell=bash disable=SC2034,SC2154 # shared with dev/process.sh
# Apache Kafka from Maven, in KRaft mode: broker and controller in one process.
#
# Listeners: port (plain), +1 (controller), +2 SASL_PLAINTEXT, +3 SSL, +4 SASL_SSL. SASL knows the users dlo, who may do
# everything, reader, who may read but not write, and guest, who may nothing; each one's password is the name.

port=$((23092 + offset))
heap=768m
node=$dir/node # what it may write to
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1)),SASL_PLAINTEXT://127.0.0.1:$((port + 2))
listeners+=,SSL://127.0.0.1:$((port + 3)),SASL_SSL://127.0.0.1:$((port + 4))

missing() {
    [[ -d $dir/dist ]] || need mvn maven
    need java default-jre-headless
}

fetch() {
    [[ ! -d $dir/dist ]] || return 0
    rm -rf "$dir/dist.new"
    maven -q -f "$root/dev/service/kafka.pom.xml" dependency:copy-dependencies -DoutputDirectory="$dir/dist.new"
    mv "$dir/dist.new" "$dir/dist"
}

cluster_id() { head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '='; }
java_tool() { java -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$dir/dist/*" "$@"; }

prepare() {
    fetch
    mkdir -p "$node"
    certificate
    settings "$node/data" >"$node/server.properties"
    [[ ! -d $node/data ]] || return 0
    # A folder that is only half formatted must not be taken for a formatted one.
    rm -rf "$node/data.new"
    settings "$node/data.new" >"$node/format.properties"
    java_tool kafka.tools.StorageTool format -t "$(cluster_id)" -c "$node/format.properties" \
        --add-scram 'SCRAM-SHA-512=[name=dlo,password=dlo]' \
        --add-scram 'SCRAM-SHA-512=[name=reader,password=reader]' \
        --add-scram 'SCRAM-SHA-512=[name=guest,password=guest]'
    mv "$node/data.new" "$node/data"
}

settings() { # DATA_FOLDER
    cat "$root/dev/service/kafka.properties" - <<-END
	log.dirs=$1
	node.id=1
	controller.quorum.voters=1@127.0.0.1:$((port + 1))
	listeners=$listeners
	ssl.keystore.type=PKCS12
	ssl.keystore.location=$node/tls/server.p12
	ssl.keystore.password=dlo-dlo
	END
}

# Signed by itself: clients are given the certificate as their authority.
certificate() {
    [[ ! -d $node/tls ]] || return 0
    rm -rf "$node/tls.new"
    mkdir "$node/tls.new"
    local store=(-keystore "$node/tls.new/server.p12" -storetype PKCS12 -storepass dlo-dlo -alias server)
    keytool -genkeypair "${store[@]}" -keyalg EC -dname CN=localhost -ext san=dns:localhost,ip:127.0.0.1 -validity 3650
    keytool -exportcert "${store[@]}" -rfc -file "$node/tls.new/ca.pem"
    mv "$node/tls.new" "$node/tls"
}

start() {
    launch
    # ACLs are records in the log: given to a broker that runs.
    [[ ! -f $node/acls ]] || return 0
    wait_until "$ready_within_s" ready_or_gone && ready || return 0
    java_tool org.apache.kafka.tools.AclCommand --bootstrap-server "127.0.0.1:$port" --add \
        --allow-principal User:reader --operation Read --topic '*' --group '*' >>"$dir/log" 2>&1 && touch "$node/acls"
}

launch() {
    drop_root_to nobody
    rm -rf "$node/tmp"
    mkdir "$node/tmp"
    if ((EUID == 0)); then chown -R nobody "$node"; fi
    daemon "$dir/pid" "${as_user[@]}" java -Xms64m "-Xmx$heap" -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData \
        -Djava.io.tmpdir="$node/tmp" -Dorg.slf4j.simpleLogger.showDateTime=true \
        -Dorg.slf4j.simpleLogger.dateTimeFormat='yyyy-MM-dd HH:mm:ss.SSS' \
        -Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn \
        -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn \
        -cp "$dir/dist/*" kafka.Kafka "$node/server.properties"
}

# Asks for metadata (version 4, of no topic, by nobody): a broker that serves names at least itself. Kafka's own tools
# would take a second and a half for that.
ready() {
    local length id throttle brokers=0
    read -r length id throttle brokers < <(
        exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$port"
        printf '\0\0\0\17\0\3\0\4\0\0\0\1\377\377\0\0\0\0\0' >&3
        timeout 5 od -An -v --endian=big -tu4 -N16 <&3
    ) && ((brokers > 0))
}

environment() {
    echo "DLO_TEST_KAFKA_BROKERS=127.0.0.1:$port"
    echo "DLO_TEST_KAFKA_SASL_BROKERS=127.0.0.1:$((port + 2))"
    echo "DLO_TEST_KAFKA_USER=dlo"
    echo "DLO_TEST_KAFKA_PASSWORD=dlo"
    echo "DLO_TEST_KAFKA_READER=reader"
    echo "DLO_TEST_KAFKA_READER_PASSWORD=reader"
    echo "DLO_TEST_KAFKA_GUEST=guest"
    echo "DLO_TEST_KAFKA_GUEST_PASSWORD=guest"
    # The certificate is known only where it was made.
    if running; then
        echo "DLO_TEST_KAFKA_SSL_BROKERS=127.0.0.1:$((port + 3))"
        echo "DLO_TEST_KAFKA_SASL_SSL_BROKERS=127.0.0.1:$((port + 4))"
        echo "DLO_TEST_KAFKA_CA=$node/tls/ca.pem"
    fi
    echo "DLO_KAFKA_BROKERS=127.0.0.1:$port"
    echo "DLO_KAFKA_TOPICS=payments-dlt"
}
