# Steps that compile for other systems and processors, and run there what this machine or an emulator can. Sourced by scripts/test.

# The oldest glibc that programs for Linux run with, as in scripts/package. RISC-V has had one since 2.27.
declare -A oldest_glibc=([aarch64]=2.17 [armv7]=2.17 [riscv64gc]=2.27)
outcomes=()

# cross_tools: zig, which compiles C and links for each target, and maturin, in the releases' versions.
cross_tools() {
  host=$(rustc -vV | sed -n 's/^host: //p') native='' work="$CARGO_TARGET_DIR/packaging"
  mkdir -p "$work"
  source packaging/tools.bash
  compilers
}

# add_target TARGET: installs its standard library if that is absent. Fails where there is no rustup.
add_target() {
  [[ ! -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]] || return 0
  has rustup && rustup --quiet target add "$1" && return 0
  echo "left out: $1: its standard library is not installed (rustup target add $1)"
  return 1
}

# cross TARGET OPTION...: compiles and links for a target; the files are in $CARGO_TARGET_DIR/TARGET/cross.
cross() {
  local version=
  [[ "$1" != *-linux-gnu* ]] || version=.${oldest_glibc[${1%%-*}]}
  say "$1: ${*:2}"
  cargo zigbuild --locked --profile cross --target "$1$version" "${@:2}"
}

# outcome TARGET PART STATE BY: a row of the table at the end of the step.
outcome() { outcomes+=("$(printf '  %-31s %-21s %-31s %s' "$@")"); }

# linked TARGET BY FILE...: a row for each file, with its size.
linked() {
  local file
  for file in "${@:3}"; do outcome "$1" "${file##*/}" "built, linked, $(($(stat -c %s "$file") / 1000)) kB" "$2"; done
}

# tested TARGET PART BY COMMAND...: runs tests, and adds a row with their number. Failed tests do not end the step before its other tests.
tested() {
  local target=$1 part=$2 by=$3 log="$work/tests.log"
  shift 3
  say "$target: $part, by $by"
  "$@" 2>&1 | tee "$log" || failed=1
  outcome "$target" "$part" "run: $(python3 scripts/count_tests.py "$log" | tail -n 1)" "$by"
}

print_outcomes() {
  echo
  printf '%s\n' "${outcomes[@]}"
}

# cli_tests PROGRAM [SKIPPED...]: the tests of the command line as "build" has compiled them, with another program.
cli_tests() {
  local program=$1 skipped=() name
  shift
  for name in "$@"; do skipped+=(--skip "$name"); done
  STATESTORE_BIN="$program" cargo_test --test cli -- "${skipped[@]}"
}

# protocol_tests PROGRAM ARGUMENT...: tests of the protocol, against another server.
protocol_tests() { (cd tests/mqtt && STATESTORED_BIN="$1" "$python/bin/pytest" "${@:2}"); }

# The server and the command line as static programs, which run here; what Python and Node load, for Alpine.
musl() {
  local target=x86_64-unknown-linux-musl folder file
  folder="$CARGO_TARGET_DIR/$target/cross"
  add_target "$target" || return 0
  cross "$target" --package statestored --package statestore-cli
  for file in "$folder"/statestore{d,}; do
    ! readelf -l "$file" | grep -c INTERP >/dev/null || { echo "$file needs shared libraries" >&2; return 1; }
  done
  linked "$target" zig "$folder"/statestore{d,}
  tested "$target" server "this machine" protocol_tests "$folder/statestored" . --ignore test_recordings.py
  # A static program ignores LD_PRELOAD, which puts the disk of this test under it.
  tested "$target" "command line" "this machine" cli_tests "$folder/statestore" admin::a_backup_is_synced_to_disk

  # A shared library needs the shared C library.
  RUSTFLAGS="${RUSTFLAGS-} -Ctarget-feature=-crt-static" cross "$target" --package statestore-ffi --package statestore-node
  for file in "$folder"/libstatestore{,_node}.so; do
    echo "$(basename "$file") needs $(needed_by "$file")"
    [[ " $(needed_by "$file") " != *" libc.so.6 "* ]] || { echo "$file needs glibc" >&2; return 1; }
  done
  linked "$target" zig "$folder"/libstatestore{,_node}.so
  rm -rf "$work/musllinux"
  scripts/package wheels --target "$target" --profile cross --out "$work/musllinux"
  tool auditwheel auditwheel==6.8.2
  # That of the server has no library.
  file=$(echo "$work/musllinux"/statestore-*.whl)
  auditwheel show "$file" | tee "$work/audit"
  grep -q musllinux_1_2_x86_64 "$work/audit" || { echo "$file is no wheel for musllinux_1_2" >&2; return 1; }
  linked "$target" auditwheel "$file"
}

# needed_by FILE: the shared libraries that a file for Linux names.
needed_by() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | paste -sd ' '; }

# Tests of the command line that QEMU cannot run: it starts itself again by /proc/self/exe, which the kernel cannot run; and one with
# LD_PRELOAD.
unemulated=(descendants:: locks:: scripts:: terminal:: a_backup_is_synced_to_disk)

# emulated TARGET MACHINE COMPILER: the server, the command line and the C library for another processor, run by QEMU. Tests and the other
# end of their connections are this machine's, except for the C suites.
emulated() {
  local target=$1 machine=$2 compiler=$3 folder emulator by program
  folder="$CARGO_TARGET_DIR/$target/cross"
  add_target "$target" || return 0
  emulator=("qemu-$machine-static" -L "/usr/${compiler%-gcc}")
  by="$("${emulator[0]}" --version | sed -n '1s/^\([^ ]*\) version \([0-9.]*\).*/\1 \2/p')"
  cross "$target" --package statestored --package statestore-cli --package statestore-ffi --features statestore-ffi/test-panic
  linked "$target" zig "$folder"/statestore{d,} "$folder/libstatestore.so"
  for program in statestored statestore; do
    install -D -m 755 /dev/stdin "$folder/emulated/$program" <<<"#!/bin/sh
exec ${emulator[*]} '$folder/$program' \"\$@\""
  done
  scripts/install --no-build --target "$target" --profile cross --prefix "$folder/prefix"
  STATESTORED_BIN=$(program statestored) tested "$target" "C library" "$by" tests/c/run emulated "$folder/prefix" "$compiler" "${emulator[@]}"
  tested "$target" server "$by" protocol_tests "$folder/emulated/statestored" test_{broker,connect,extensions,limits,patterns}.py \
    test_{process,sessions,storages,store,subscriptions,vectors,wills}.py
  tested "$target" "command line" "$by" cli_tests "$folder/emulated/statestore" "${unemulated[@]}"
}

step_linux() {
  local failed=0 target=riscv64gc-unknown-linux-gnu
  cross_tools
  venv "$python" tests/mqtt/requirements.txt
  musl
  emulated aarch64-unknown-linux-gnu aarch64 aarch64-linux-gnu-gcc
  emulated armv7-unknown-linux-gnueabihf arm arm-linux-gnueabihf-gcc
  if add_target "$target"; then
    cross "$target" --package statestored --package statestore-cli --package statestore-ffi
    linked "$target" zig "$CARGO_TARGET_DIR/$target/cross"/{statestored,statestore,libstatestore.so}
  fi
  print_outcomes
  return "$failed"
}

# apple_linker FOLDER: makes FOLDER/ld64, the linker for macOS that comes with Rust, and descriptions of libSystem for it.
apple_linker() {
  local library zig lld
  zig=$(python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
  lld="$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld"
  mkdir -p "$1"
  # zig's describes ARM64 with pointer authentication, which has the same symbols.
  for library in System c m; do sed -E 's/arm64e(\.x1)?-/arm64-/g' "$zig/lib/libc/darwin/libSystem.tbd" >"$1/lib$library.tbd"; done
  # Build scripts give arguments as for a C compiler.
  install -m 755 /dev/stdin "$1/ld64" <<SH
#!/usr/bin/env bash
arguments=()
for argument in "\$@"; do
  case "\$argument" in
    -Wl,*) IFS=, read -ra parts <<<"\${argument#-Wl,}"; arguments+=("\${parts[@]}") ;;
    *) arguments+=("\$argument") ;;
  esac
done
[[ "\${arguments[0]}" == -flavor ]] || arguments=(-flavor darwin "\${arguments[@]}")
exec "$lld" "\${arguments[@]}"
SH
}

# Apple's linker and SDK are not here. Stubs name the symbols of the system's frameworks that rustls-native-certs needs. zig links programs;
# it does not limit what a library exports, so that another linker makes the C library.
step_macos() {
  local target folder stubs="$PWD/packaging/macos-stubs" linker="$CARGO_TARGET_DIR/macos" files
  local all=(--package statestore --package statestore-ffi --package statestore-python --package statestore-node --package statestore-cli --package statestored)
  # What Rust supports at least on ARM64.
  local -x MACOSX_DEPLOYMENT_TARGET=11.0 CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS="-Lframework=$stubs -Lnative=$stubs"
  cross_tools
  for target in x86_64-apple-darwin aarch64-apple-darwin; do
    add_target "$target" || continue
    say "$target: check"
    cargo-zigbuild check --locked --profile cross --target "$target" "${all[@]}"
    outcome "$target" "clients, server, CLI" checked rustc
  done
  if [[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]]; then
    folder="$CARGO_TARGET_DIR/$target/cross"
    cross "$target" --package statestore-cli
    apple_linker "$linker"
    say "$target: C library"
    cargo-zigbuild rustc --locked --profile cross --target "$target" --package statestore-ffi --crate-type cdylib -- \
      -Clinker="$linker/ld64" -Clinker-flavor=ld64.lld -Lnative="$linker"
    python-zig cc -target "aarch64-macos.$MACOSX_DEPLOYMENT_TARGET" -fno-sanitize=undefined -Iinclude -c ffi/examples/cache.c -o "$linker/cache.o"
    "$linker/ld64" -arch arm64 -platform_version macos "$MACOSX_DEPLOYMENT_TARGET" "$MACOSX_DEPLOYMENT_TARGET" \
      -L"$linker" -lSystem -L"$folder" -lstatestore "$linker/cache.o" -o "$linker/cache"
    files=("$folder"/{statestore,libstatestore.dylib} "$linker/cache")
    packaging/macho.py "$stubs" "${files[@]}"
    linked "$target" "zig, LLD, packaging/macho.py" "${files[@]}"
  fi
  print_outcomes
}
