# Python packages. Sourced by scripts/package.

make_wheels() {
  compilers
  local made="$work/wheels" options=(--locked --profile "$profile") packages=(bindings/python) package crate wheel
  case "$native:$target" in
    1:*) [[ "$target" != *-linux-* ]] || options+=(--compatibility linux) ;;
    :*-gnu*) options+=(--target "$target" --zig --compatibility "manylinux_${glibc/./_}") ;;
    :*-musl*) options+=(--target "$target" --zig --compatibility musllinux_1_2) ;;
  esac
  # There is no server for Windows.
  [[ "$target" == *-windows-* ]] || packages+=(bindings/python/server)
  for package in "${packages[@]}"; do
    case "$package" in */server) crate=statestored ;; *) crate=statestore-python ;; esac
    rm -rf "$made"
    (cd "$package" && maturin build "${options[@]}" --out "$made")
    materials "$crate" "$made/materials"
    for wheel in "$made"/*.whl; do with_materials "$wheel" "$made/materials"; done
    (cd "$package" && maturin sdist --out "$out" 2>/dev/null)
  done
}

# with_materials WHEEL FOLDER: adds the files of FOLDER to the wheel, and puts it into `out`.
with_materials() {
  local content information
  wheel unpack --dest "$1.content" "$1" >/dev/null
  content=$(echo "$1.content"/*) information=$(echo "$1.content"/*/*.dist-info)
  mkdir -p "$information/sboms"
  cp "$2"/*.cdx.json "$information/sboms/"
  cp "$2/THIRD-PARTY-NOTICES.txt" "$information/licenses/"
  sed -i '0,/^License-File: LICENSE$/s//&\nLicense-File: THIRD-PARTY-NOTICES.txt/' "$information/METADATA"
  wheel pack --dest-dir "$out" "$content" >/dev/null
}

check_wheels() {
  local python wheel
  new_work_dir
  tool twine twine==7.0.0
  twine check --strict "$out"/statestore*.whl "$out"/statestore*.tar.gz
  for wheel in "$out"/statestore*.whl; do
    python3 -m zipfile -l "$wheel" >"$scratch/list"
    for name in licenses/LICENSE-MIT licenses/LICENSE-APACHE licenses/THIRD-PARTY-NOTICES.txt; do
      grep -qF "$name" "$scratch/list" || fail "$wheel has no $name"
    done
    # A trained server is larger than one without a profile.
    case "$wheel" in *statestore_server-*) at_most 5 "$wheel" ;; *) at_most 3 "$wheel" ;; esac
    python3 -m zipfile -e "$wheel" "$scratch/content"
  done
  for sbom in "$scratch"/content/*.dist-info/sboms/*.json; do check_sbom "$sbom"; done
  if [[ -z "$native" && "$target" == *-gnu ]]; then
    tool auditwheel auditwheel==6.8.2
    auditwheel show "$out"/statestore-"$version"-*.whl | tee "$scratch/audit"
    grep -q "manylinux_${glibc/./_}" "$scratch/audit" || fail "the wheel needs a newer glibc than $glibc"
  fi
  python3 -m venv "$scratch/venv"
  if [[ "$target" == *-windows-* ]]; then check_wheel_alone; return; fi
  python="$scratch/venv/bin/python"
  "$python" -m pip install -q --disable-pip-version-check --no-index --find-links "$out" "statestore[server]==$version"
  serve "$scratch/venv/bin/statestored"
  quickstart python >"$scratch/program.py"
  prints_hello "$python" "$scratch/program.py"
  check_import_time "$python"
  # This compiles everything again.
  [[ -n "$native" ]] || check_sdist
  end_server
}

# There is no server for Windows, so this checks that the client loads and sends a CONNECT packet.
check_wheel_alone() {
  local python="$scratch/venv/Scripts/python"
  "$python" -m pip install -q --disable-pip-version-check --no-index --find-links "$out" "statestore==$version"
  "$python" - <<'PY'
import socket, statestore

with socket.create_server(("127.0.0.1", 0)) as listener:
    listener.settimeout(20)
    client = statestore.connect(f"mqtt://127.0.0.1:{listener.getsockname()[1]}", lazy=True)
    with listener.accept()[0] as connection:
        packet = connection.recv(16)
    client.close()
assert packet[:1] == b"\x10" and b"MQTT\5" in packet, packet
print("the client sends a CONNECT packet")
PY
}

# Builds and tries the package from the source distribution, outside this repository.
check_sdist() {
  python3 -m venv "$scratch/built"
  (
    cd "$scratch"
    "$scratch/built/bin/pip" install -q --disable-pip-version-check --no-deps --config-settings "build-args=--profile $profile" \
      "$out/statestore-$version.tar.gz"
  )
  prints_hello "$scratch/built/bin/python" "$scratch/program.py"
}

# Checks that the import takes at most 30 ms of processor time besides the start of the interpreter. Other programs do not affect that time.
check_import_time() {
  "$1" - "$1" "$profile" <<'PY'
import os, subprocess, sys

def least(program):
    times = []
    for _ in range(20):
        child = subprocess.Popen([sys.argv[1], "-c", program])
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0, program
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)

took = (least("import statestore") - least("pass")) * 1000
print(f"import statestore takes {took:.1f} ms")
sys.exit(took > 30 and sys.argv[2] != "dev")
PY
}
