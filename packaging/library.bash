# Archive of the C and C++ library. Sourced by scripts/package.

# install_library ROOT PREFIX LIBDIR: runs scripts/install for PREFIX, into the folder ROOT.
install_library() {
  compile statestore-ffi
  local folder="$CARGO_TARGET_DIR"
  [[ -n "$native" ]] || folder="$CARGO_TARGET_DIR/$target"
  CARGO_TARGET_DIR="$folder" DESTDIR="$1" scripts/install --prefix "$2" --libdir "$3" --profile "$profile" --no-build
  if [[ "$profile" == dev && "$target" == "$host" ]]; then
    strip --strip-debug "$1$2/$3"/libstatestore.a "$1$2/$3"/libstatestore.so.*.*.*
  fi
}

make_library() {
  local name="libstatestore-$version-$target" made="$work/library"
  rm -rf "$made"
  mkdir -p "$made"
  install_library "$made" "/$name" lib
  materials statestore-ffi "$made/$name/share/doc/statestore"
  tar --create --directory "$made" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$name" |
    gzip --no-name >"$out/$name.tar.gz"
}

check_library() {
  local name="libstatestore-$version-$target" language kind
  new_work_dir
  tar --extract --file "$out/$name.tar.gz" --directory "$scratch"
  for text in LICENSE-MIT LICENSE-APACHE THIRD-PARTY-NOTICES.txt; do
    [[ -s "$scratch/$name/share/doc/statestore/$text" ]] || fail "$name has no $text"
  done
  check_sbom "$scratch/$name/share/doc/statestore/statestore-ffi.cdx.json"
  compile statestored
  serve "$(built)/statestored"
  quickstart c >"$scratch/program.c"
  quickstart cpp >"$scratch/program.cpp"
  export PKG_CONFIG_PATH="$scratch/$name/lib/pkgconfig" LD_LIBRARY_PATH="$scratch/$name/lib"
  for kind in statestore statestore-static; do
    # shellcheck disable=SC2046
    cc "$scratch/program.c" $(pkg-config --cflags --libs "$kind") -o "$scratch/c-$kind"
    # shellcheck disable=SC2046
    c++ -std=c++17 "$scratch/program.cpp" $(pkg-config --cflags --libs "$kind") -o "$scratch/cpp-$kind"
    for language in c cpp; do prints_hello "$scratch/$language-$kind"; done
  done
  unset PKG_CONFIG_PATH LD_LIBRARY_PATH
  end_server
}
