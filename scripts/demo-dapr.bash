# The part `dapr` of scripts/demo. Sourced by it.

# daprd without the components that are compiled into it. It is kept for the next time.
prepare_dapr() {
  local began=$SECONDS
  echo "Building daprd (some minutes the first time) ..."
  CARGO_PROFILE_DEV_DEBUG=0 cargo build --locked -p statestore-dapr
  (cd tests/dapr/daprd && CGO_ENABLED=0 GOCACHE="$CARGO_TARGET_DIR/go/build" go build -o "$CARGO_TARGET_DIR/go/daprd" .)
  echo "It took $((SECONDS - began)) s."
  PATH="$CARGO_TARGET_DIR/go:$PATH"
}

start_daprd() {
  local ports='import socket; all = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]; print(*[one.getsockname()[1] for one in all])'
  local http grpc internal metrics
  read -r http grpc internal metrics < <(python3 -c "$ports")
  echo "\$ daprd --app-id demo --resources-path $scratch/components --dapr-http-port $http &"
  daprd --mode standalone --app-id demo --resources-path "$scratch/components" --dapr-http-port "$http" --dapr-grpc-port "$grpc" \
    --dapr-internal-grpc-port "$internal" --dapr-listen-addresses 127.0.0.1 --dapr-internal-grpc-listen-address 127.0.0.1 \
    --metrics-listen-address 127.0.0.1 --metrics-port "$metrics" >>"$scratch/log" 2>&1 &
  daprd_pid=$!
  curl --silent --retry 20 --retry-delay 1 --retry-connrefused --fail "http://127.0.0.1:$http/v1.0/healthz/outbound" || fail "daprd does not begin"
  STATE=http://127.0.0.1:$http/v1.0/state/store
  echo "\$ STATE=$STATE"
}

demo_dapr() {
  say "A server, the component, and daprd, which finds it by its socket"
  start_server
  export DAPR_COMPONENTS_SOCKETS_FOLDER="$scratch/sockets"
  echo "\$ DAPR_COMPONENTS_SOCKETS_FOLDER=$DAPR_COMPONENTS_SOCKETS_FOLDER statestore-dapr &"
  start component statestore-dapr --log error
  next_line component
  echo "$line"
  mkdir "$scratch/components"
  cat >"$scratch/components/store.yaml" <<YAML
apiVersion: dapr.io/v1alpha1
kind: Component
metadata:
  name: store
spec:
  type: state.statestore
  version: v1
  metadata:
  - name: url
    value: $STATESTORE_URL
  - name: keyPrefix
    value: none
YAML
  show 0 'cat "$scratch/components/store.yaml"'
  start_daprd

  say "Save a value, and see it with the command line as well"
  show 0 "curl -sSf \$STATE -d '[{\"key\": \"stock\", \"value\": 42}]'"
  show 0 'statestore get stock'
  echo

  say "Who read it and writes with its ETag succeeds; who comes second with the same one does not"
  show 0 'etag=$(curl -sSf -D - -o /dev/null $STATE/stock | sed -nE "s/^etag: ([^\r]*).*/\1/Ip"); echo "$etag"'
  show 0 'curl -sSf $STATE -d "[{\"key\": \"stock\", \"value\": 41, \"etag\": \"$etag\"}]"'
  show 22 'curl -sSf $STATE -d "[{\"key\": \"stock\", \"value\": 40, \"etag\": \"$etag\"}]"'

  say "A transaction with that ETag changes nothing, one with the current ETag everything"
  local order='{"operations": [{"operation": "upsert", "request": {"key": "order", "value": "one"}}, {"operation": "upsert", "request": {"key": "stock", "value": 40, "etag": "'\''"$etag"'\''"}}]}'
  show 22 "curl -sSf \$STATE/transaction -d '$order'"
  show 1 'statestore get order'
  show 0 'etag=$(curl -sSf -D - -o /dev/null $STATE/stock | sed -nE "s/^etag: ([^\r]*).*/\1/Ip")'
  show 0 "curl -sSf \$STATE/transaction -d '$order'"
  show 0 'statestore get order; echo; statestore get stock'
  echo

  echo '$ kill %daprd; kill %statestore-dapr'
  kill -TERM "$daprd_pid"
  wait "$daprd_pid" || fail "daprd ended with exit code $?"
  daprd_pid=
  kill -TERM "$component_pid"
  finish component
  unset DAPR_COMPONENTS_SOCKETS_FOLDER
  stop_server
}
