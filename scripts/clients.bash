# The clients in four languages that take part in scripts/chaos and scripts/soak, built for them: `prepare_clients` builds, and sets
# `programs` to the options that say where everything is. Sourced.
export CARGO_TARGET_DIR="$PWD/target"
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

# prepare_clients SERVER BUILT [OPTION...]: SERVER is a server to test, or empty for the one that is built here, with these options of
# cargo. If BUILT is not empty, cargo has built everything.
prepare_clients() {
  local place="$CARGO_TARGET_DIR/chaos" debug="$CARGO_TARGET_DIR/debug" lacking server=$1 built=$2
  shift 2
  lacking=$(missing rust cc readelf python node npm | listed)
  [[ -z "$lacking" ]] || { echo "$0: this machine lacks: $lacking" >&2; return 1; }
  local packages=(--package chaos --package statestore-ffi --package statestore-python)
  [[ -n "$server" ]] || packages+=(--package statestored "$@")
  [[ -n "$built" ]] || cargo build --quiet --locked "${packages[@]}"
  mkdir -p "$place/python" "$place/lib"
  # Under the name that is in it.
  ln -sf "$debug/libstatestore.so" "$place/lib/$(soname "$debug/libstatestore.so")"
  cc -std=gnu11 -O1 -g -Wall -Wextra -Werror -Iinclude tests/chaos/clients/client.c -o "$place/client-c" \
    -L"$debug" -lstatestore -lpthread -Wl,-rpath,"$place/lib"
  cc -shared -fPIC -O1 tests/disk/disk.c -o "$place/disk.so" -ldl
  # As a wheel has it, without a wheel.
  rm -rf "$place/python/statestore"
  cp -r bindings/python/python/statestore "$place/python/statestore"
  cp "$debug/libstatestore_python.so" "$place/python/statestore/_native.abi3.so"
  (
    cd bindings/node
    [[ -x node_modules/typescript/bin/tsc ]] || npm ci --no-audit --no-fund --loglevel=error
    if [[ -n "$built" ]]; then
      node scripts/build.mjs --built
      node node_modules/typescript/bin/tsc -p face
    else
      npm run --silent build >/dev/null
    fi
  )
  programs=(
    --server "${server:-$debug/statestored}" --c "$place/client-c" --disk "$place/disk.so"
    --python-path "$place/python" --node-package "$PWD/bindings/node"
  )
}

soname() {
  readelf -d "$1" | sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p'
}
