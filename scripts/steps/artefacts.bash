# Steps that build packages by themselves, as they are released. Sourced by scripts/test.

# alone: the target folder of packages that are built by themselves. It begins with a copy of what "build" has compiled of the dependencies,
# without libraries that have no hash in their names. Not with links: a file that is made again here would be newer there, too.
alone() {
  local folder="$apart/debug" part
  if [[ ! -d "$folder" && -d "$CARGO_TARGET_DIR/debug/.fingerprint" ]]; then
    mkdir -p "$folder/deps"
    for part in .fingerprint build; do cp -a --reflink=auto "$CARGO_TARGET_DIR/debug/$part" "$folder/"; done
    find "$CARGO_TARGET_DIR/debug/deps" -type f \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.d' -o -name 'lib*-*.so' \) -exec cp -p --reflink=auto -t "$folder/deps" {} +
  fi
  echo "$apart"
}

step_wheel() {
  local folder
  folder=$(alone)
  local -x CARGO_TARGET_DIR=$folder
  local maturin="$CARGO_TARGET_DIR/maturin" version=1.16.0 wheels="$CARGO_TARGET_DIR/wheels" venv="$CARGO_TARGET_DIR/wheel-venv"
  if [[ "$("$maturin/bin/maturin" --version 2>/dev/null)" != "maturin $version" ]]; then
    python3 -m venv --clear "$maturin"
    "$maturin/bin/pip" install -q --disable-pip-version-check "maturin==$version"
  fi
  rm -rf "$wheels"
  local package
  for package in bindings/python bindings/python/server; do
    # The profile of the other tests, for which most is compiled already. Releases are made without the option.
    (cd "$package" && "$maturin/bin/maturin" build --quiet --locked --profile dev --compatibility linux --out "$wheels")
  done
  python3 -m venv --clear "$venv"
  # uWSGI as a wheel; tests/test_uwsgi.py is skipped without it.
  "$venv/bin/pip" install -q --disable-pip-version-check -r bindings/python/tests/requirements.txt pyuwsgi==2.0.30.post1
  "$venv/bin/pip" install -q --disable-pip-version-check --no-index --find-links "$wheels" 'statestore[server]'
  (
    cd bindings/python
    # The tests find the server that the extra `server` installed.
    unset STATESTORED
    "$venv/bin/pytest"
    "$venv/bin/python" -m mypy.stubtest statestore --allowlist tests/stubtest_allowed.txt
    "$venv/bin/mypy" --strict --cache-dir "$CARGO_TARGET_DIR/mypy" examples tests/typed.py
    "$venv/bin/pyright" --pythonpath "$venv/bin/python" examples
  )
  python_others "$wheels"
}

# python_others WHEELS: the same tests with every other CPython on this machine; one wheel is for all of them.
python_others() {
  local wheels="$1" own minor interpreter venv tested=() lacking=()
  own=$(python3 -c 'import sys; print(sys.version_info.minor)')
  for minor in 10 11 12 13 14; do
    interpreter="python3.$minor" venv="$CARGO_TARGET_DIR/wheel-venv-3.$minor"
    if [[ "$minor" == "$own" ]]; then tested+=("3.$minor"); continue; fi
    "$interpreter" -c 'import venv, ensurepip' 2>/dev/null || { lacking+=("3.$minor"); continue; }
    tested+=("3.$minor")
    echo "with $("$interpreter" --version)"
    "$interpreter" -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r bindings/python/tests/requirements.txt
    "$venv/bin/pip" install -q --disable-pip-version-check --no-index --find-links "$wheels" 'statestore[server]'
    (cd bindings/python && unset STATESTORED && "$venv/bin/pytest")
  done
  echo "tested with CPython ${tested[*]}; not here: ${lacking[*]:-none}"
}

step_npm() {
  local server
  server=$(program statestored)
  (
    cd bindings/node
    npm ci --no-audit --no-fund --loglevel=error
    CARGO_TARGET_DIR=$(alone) npm run build
    STATESTORED="$server" npm test
  )
}

# Without optimisation and without what compiles everything once more: `scripts/package --check` does both, in a long time.
step_package() {
  local artefacts=(wheels npm library crates)
  ! is_debian || artefacts+=(debian)
  CARGO_TARGET_DIR=$(alone) scripts/package "${artefacts[@]}" --check --native --profile dev --out "$CARGO_TARGET_DIR/dist"
}

step_recipes() {
  local folder recipes
  folder=$(alone)
  recipes="$folder/recipes"
  venv "$recipes" packaging/recipes.txt
  CARGO_TARGET_DIR=$folder "$recipes/bin/python" packaging/recipes.py
}

step_demo() {
  CARGO_TARGET_DIR=$(alone) scripts/demo </dev/null
}

step_compilers() {
  STATESTORED_BIN=$(program statestored) CARGO_TARGET_DIR=$(alone) tests/c/run compilers
}

step_sanitizers() {
  STATESTORED_BIN=$(program statestored) CARGO_TARGET_DIR=$(alone) tests/c/run sanitizers
}

step_provider() {
  CARGO_TARGET_DIR=$(alone) cargo test --locked --package provider --test without_ring
}

# against FOLDER: the protocol, the vendor's client and the C suites against the programs of a folder.
against() {
  venv "$python" tests/mqtt/requirements.txt
  STATESTORED_BIN="$1/statestored" "$python/bin/pytest" tests/mqtt
  over_each "$1/statestored" memory durable
}

# Without engines, as packages have it; the trained programs have them.
step_release() {
  cargo build --locked --release --package statestored --package statestore-cli
  against "$CARGO_TARGET_DIR/release"
  scripts/install --prefix "$CARGO_TARGET_DIR/release-prefix" --features test-panic
  STATESTORED_BIN="$CARGO_TARGET_DIR/release/statestored" tests/c/run suites "$CARGO_TARGET_DIR/release-prefix"
  STATESTORED_BIN="$CARGO_TARGET_DIR/release/statestored" tests/c/run memcheck
}

step_trained() {
  scripts/train
  against "$CARGO_TARGET_DIR/trained/engines"
}
