# The steps of the group "front". Sourced by scripts/test.

step_format() {
  cargo fmt --all --check
  for manifest in "${satellites[@]}"; do cargo fmt --all --check --manifest-path "$manifest"; done
  long_files
  python3 docs/links.py check
  python3 docs/blocks.py check
  python3 docs/api.py check
  python3 docs/promises.py check
  python3 docs/prose.py check
  python3 docs/messages.py check
  scripts/layers
  scripts/plant --check
}

# long_files: fails if a source has more than 500 lines. Declarations of types (.pyi, .d.ts) are one file a module, whatever their length.
long_files() {
  local file lines failed=0
  while read -r file; do
    lines=$(wc -l <"$file")
    ((lines <= 500)) || { echo "$file has $lines lines, and 500 at most are wanted: divide it by what it is about" >&2; failed=1; }
  done < <(git ls-files -- '*.rs' '*.py' '*.ts' '*.mts' '*.js' '*.mjs' '*.c' '*.cpp' '*.hpp' '*.sh' '*.bash' '*.lua' 'scripts/*' ':!*.d.ts')
  return "$failed"
}

step_build() {
  with_clippy cargo build "${workspace[@]}" --lib --bins --examples --tests
  python3 docs/options.py check "$(program statestored)"
}

# cargo_test ARGUMENT...: tests of the workspace, as "build" has compiled them.
cargo_test() { with_clippy cargo test "${workspace[@]}" --no-fail-fast "$@"; }

# One invocation, with the selection of the compilation. The tests that are left out take minutes.
step_rust() {
  # Seeds by what they cost.
  local -x SIMULATION_SEEDS=200 SIMULATION_ENGINE_SEEDS=60 SIMULATION_GROUP_SEEDS=25 INTENTS_RUNS=5000
  cargo_test -- --skip the_daily_seeds_hold --skip every_mutation_is_detected --skip long_entries_expire_in_time_with_any_clock
  echo "left out: Rust: the_daily_seeds_hold, every_mutation_is_detected, long_entries_expire_in_time_with_any_clock, seeds from 200 on, of engines from 60, of groups from 25, plans of intents from 5,000 (simulation)"
  echo "left out: Rust: etcd, redis, cluster (engines); without_ring (provider); #[ignore]d tests (ignored)"
}

step_c() {
  assemble_c
  STATESTORED_BIN=$(program statestored) tests/c/run suites "$clients/c"
  echo "left out: C: c99, c_as_cxx17, static, C++, clang, examples (compilers); AddressSanitizer, Memcheck, Helgrind (sanitizers)"
}

step_python() {
  assemble_python
  venv "$CARGO_TARGET_DIR/python-tests" bindings/python/tests/requirements.txt
  (
    cd bindings/python
    STATESTORED=$(program statestored) PYTHONPATH="$clients/python" "$CARGO_TARGET_DIR/python-tests/bin/pytest" --ignore tests/test_leaks.py \
      --deselect tests/test_package.py::test_each_package_has_the_texts_of_its_licences
  )
  echo "left out: Python: test_leaks.py, test_each_package_has_the_texts_of_its_licences, stubtest, mypy and pyright (wheel)"
}

step_node() {
  assemble_node
  (
    cd bindings/node
    mapfile -t files < <(printf '%s\n' test/*.test.mjs | grep -vxE 'test/(full|load)\.test\.mjs')
    STATESTORED=$(program statestored) node --test --test-concurrency=2 --test-timeout=600000 --test-reporter=spec "${files[@]}"
  )
  echo "left out: Node: full.test.mjs, load.test.mjs (npm)"
}

step_nodered() {
  assemble_node
  (
    cd bindings/node-red
    npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
    npm run check
    STATESTORED=$(program statestored) npm test
  )
}

step_protocol() {
  venv "$python" tests/mqtt/requirements.txt
  STATESTORED_BIN=$(program statestored) "$python/bin/pytest" tests/mqtt --ignore tests/mqtt/test_recordings.py
  echo "left out: protocol: test_recordings.py, durable storage, MQTT.js, through Mosquitto (mqtt); over etcd and Redis (engines)"
}
