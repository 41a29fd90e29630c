# Steps that look for more kinds of faults: lints, fuzzing, licences, planted faults. Sourced by scripts/test.

# cargo_tool NAME VERSION [OPTION...]: a program from crates.io in `tools`. Not optimised: it would compile for minutes, to run for a second.
cargo_tool() {
  local name=$1 version=$2
  shift 2
  [[ "$("$tools/bin/$name" --version 2>/dev/null)" != "$name "?("v")"$version" ]] || return 0
  CARGO_PROFILE_DEV_DEBUG=0 cargo install "$name" --version "$version" --locked --debug --root "$tools" --target-dir "$tools/build" "$@"
  rm -rf "$tools/build"
}

# Features that the workspace's own compilation does not have. Like it, these compile with clippy: a check would share nothing with what is
# compiled already.
step_lint() {
  with_clippy cargo build "${workspace[@]}" --benches
  local folder
  folder=$(alone)
  local -x CARGO_TARGET_DIR=$folder
  with_clippy cargo build --locked --package statestored
  with_clippy cargo build --locked --package statestore --no-default-features
  with_clippy cargo build --locked --package statestore --no-default-features --features tls
  with_clippy cargo build --locked --package statestore-ffi --no-default-features
}

# The same for a workspace of its own.
step_benchmarks() {
  cargo clippy --locked --manifest-path benchmarks/Cargo.toml --all-targets -- -D warnings
  cargo clippy --locked --manifest-path benchmarks/Cargo.toml --features engines --all-targets -- -D warnings
}

step_docs() {
  local server deploy="$CARGO_TARGET_DIR/deploy-docs"
  server=$(program statestored)
  python3 -m unittest discover --quiet benchmarks/figures
  python3 benchmarks/figures check
  python3 docs/sessions.py "$(dirname "$server")"
  venv "$deploy" deploy/requirements.txt
  "$deploy/bin/python" deploy/check.py
  python3 deploy/capacity.py check
}

# The API documentation of Rust checks all dependencies once more.
step_book() {
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --lib -p statestore-protocol -p statestore -p statestore-intents -p 'statestored*'
  doxygen docs/Doxyfile
  (
    cd bindings/node
    [[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --no-audit --no-fund --loglevel=error
    npm run docs
  )
  cargo_tool mdbook 0.5.4 --no-default-features --features search
  "$tools/bin/mdbook" build docs
}

# Instrumented builds share nothing with the others.
step_fuzz() {
  cargo clippy --all-targets --manifest-path fuzz/Cargo.toml -- -D warnings
  env -u CARGO_TARGET_DIR scripts/fuzz
}

# The advisory database is a git repository on github.com: run `cargo deny check advisories` where that is reachable.
step_deny() {
  cargo_tool cargo-deny 0.20.2
  "$tools/bin/cargo-deny" --locked check licenses bans sources
  # What the vendor's client or the fuzzer has twice is not ours to mend.
  for manifest in "${satellites[@]}"; do
    "$tools/bin/cargo-deny" --manifest-path "$manifest" --config "$PWD/deny.toml" \
      check --allow duplicate licenses bans sources
  done
}

step_planted() {
  local day=$(($(date +%s) / 86400 % 14)) names
  mapfile -t names < <(printf '%s\n' tests/planted/*.patch | sed 's#.*/##; s/\.patch$//' | awk -v day="$day" 'NR % 14 == day')
  scripts/plant "${names[@]}"
}

step_races() {
  if [[ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]]; then
    echo "left out: ThreadSanitizer: rust-src is not installed (rustup component add rust-src)"
    return
  fi
  scripts/tsan
}

step_soak() {
  scripts/soak --hours 0.34
}

step_ignored() {
  cargo_test --test slow_link -- --ignored
  cargo_test --test cli -- --ignored
  cargo_test --test component -- --ignored
}

# The tests of the package run its tour under every runtime that they find.
step_runtimes() {
  local folder="$CARGO_TARGET_DIR/runtimes"
  mkdir -p "$folder"
  cp tests/runtimes/package*.json "$folder"
  npm --prefix "$folder" ci --no-audit --no-fund --loglevel=error
  assemble_node
  local -x PATH="$folder/node_modules/.bin:$PATH"
  bun --version
  deno --version
  (cd bindings/node && STATESTORED=$(program statestored) node --test --test-timeout=600000 --test-reporter=spec test/package.test.mjs test/bundlers.test.mjs)
}
