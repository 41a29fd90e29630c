# Steps that run the state component for Dapr. Sourced by scripts/test.

# Dapr's suite in Go, twice: with the operation `ttl` and without. No daprd is needed for it.
step_dapr() {
  local binary suite="$CARGO_TARGET_DIR/go"
  binary=$(program statestored)
  (
    cd tests/dapr/conformance
    GOCACHE="$suite/build" go test -c -o "$suite/conformance" .
    STATESTORED="$binary" STATESTORE_DAPR="$(dirname "$binary")/statestore-dapr" "$suite/conformance" -test.timeout 10m -test.v
  )
}

# build_daprd NAME [OPTION...]: daprd in `target/go`. 1.14 is the newest that can be built from the proxy of Go's modules.
build_daprd() {
  local suite="$CARGO_TARGET_DIR/go" name=$1 began=$SECONDS
  shift
  echo "Building $name (four minutes the first time, for both of them) ..."
  (cd tests/dapr/daprd && CGO_ENABLED=0 GOCACHE="$suite/build" go build -o "$suite/$name" "$@" .)
  echo "It took $((SECONDS - began)) s."
}

step_daprd() {
  local binary suite="$CARGO_TARGET_DIR/go" venv="$CARGO_TARGET_DIR/dapr-python" requirements=tests/dapr/sdk/python/requirements.txt
  binary=$(program statestored)
  build_daprd daprd
  if ! cmp -s "$requirements" "$venv/requirements.txt"; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$venv/requirements.txt"
  fi
  # Nothing that the SDK depends on has to do more than to be there.
  npm --prefix tests/dapr/sdk/javascript ci --ignore-scripts --no-audit --no-fund --loglevel=error
  export DAPRD="$suite/daprd" STATESTORED="$binary" STATESTORE_DAPR="$(dirname "$binary")/statestore-dapr"
  python3 tests/dapr/daprd/http_api.py
  python3 tests/dapr/daprd/kills.py
  python3 tests/dapr/daprd/sidecar.py "$venv/bin/python" tests/dapr/sdk/python/test_state.py
  python3 tests/dapr/daprd/sidecar.py npm --prefix tests/dapr/sdk/javascript test
}

step_peers() {
  local binary suite="$CARGO_TARGET_DIR/go"
  binary=$(program statestored)
  build_daprd daprd-peers -tags peers
  DAPRD_PEERS="$suite/daprd-peers" STATESTORED="$binary" STATESTORE_DAPR="$(dirname "$binary")/statestore-dapr" \
    python3 tests/dapr/daprd/peers.py --verbose
}
