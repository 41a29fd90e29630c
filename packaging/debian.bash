# Debian packages. Sourced by scripts/package.

make_debian() {
  # The packaged server includes etcd and Redis, for services on several machines.
  local made="$work/debian" source tree libdir abi program shell server=statestored:etcd,redis
  source="$made/libstatestore-$version"
  tree="$source/tree"
  rm -rf "$made"
  mkdir -p "$tree/usr/bin"
  libdir="lib/$(dpkg-architecture --host-arch "$(debian_arch)" --query DEB_HOST_MULTIARCH)"
  # Symbols are dh_strip's, which puts them into packages of their own.
  STRIP=true install_library "$tree" /usr "$libdir"
  abi=$(basename "$(echo "$tree/usr/$libdir"/libstatestore.so.*.*.*)" | sed -E 's/.*\.so\.(0\.[0-9]+|[1-9][0-9]*).*/\1/')
  compile "$server" statestore-cli statestore-dapr
  for program in statestored statestore statestore-dapr; do with_symbols "$(built)/$program" "$tree/usr/bin/$program"; done
  for package in statestore-ffi "$server" statestore-cli statestore-dapr; do
    materials "$package" "$tree/notices/${package%:*}"
    mv "$tree/notices/${package%:*}"/THIRD-PARTY-NOTICES{.txt,}
  done
  # These programs run on this machine, for any target.
  cargo run --quiet --locked --package statestore-manual -- "$tree/man"
  for shell in bash/statestore zsh/_statestore fish/statestore.fish; do
    mkdir -p "$tree/completions/${shell%/*}"
    cargo run --quiet --locked --package statestore-cli -- completions "${shell%/*}" >"$tree/completions/$shell"
  done
  cp -r packaging/debian "$source/debian"
  cp packaging/statestored.service "$source/debian/statestored.service"
  install -D -m 644 packaging/statestore-dapr.service "$tree/examples/statestore-dapr.service"
  install -D -m 644 packaging/statestored.toml "$tree/etc/statestored/statestored.toml"
  sed -i "s/@ABI@/$abi/" "$source/debian"/{control,libstatestore.install}
  mv "$source/debian/libstatestore.install" "$source/debian/libstatestore$abi.install"
  printf 'libstatestore (%s-1) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' "$version" "$version" \
    "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$(date --rfc-email --date "@$SOURCE_DATE_EPOCH")" >"$source/debian/changelog"
  [[ "$profile" != dev ]] || export COMPRESSION=-Zgzip\ -z1
  (cd "$source" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps --host-arch "$(debian_arch)" >"$made/log" 2>&1) ||
    { cat "$made/log" >&2; fail "the packages cannot be built"; }
  cp "$made"/*.deb "$out"
}

# with_symbols FILE COPY: copies a program with the names of its functions and without lines, which optimised programs lack.
with_symbols() {
  if [[ "$profile" == dev ]]; then strip --strip-debug -o "$2" "$1"; else cp "$1" "$2"; fi
}

debian_arch() {
  case "$target" in
    x86_64-*) echo amd64 ;;
    aarch64-*) echo arm64 ;;
    *) fail "Debian has no name here for $target" ;;
  esac
}

check_debian() {
  local debs="$work/debian" release
  new_work_dir
  # Lintian needs minutes for an unoptimised static library.
  if [[ "$profile" == dev ]]; then
    lintian --fail-on error "$debs"/libstatestore[0-9]*.deb "$debs"/statestore*.deb
  else
    lintian --fail-on error "$debs"/*.changes
  fi
  dpkg-deb --extract "$(echo "$debs"/libstatestore[0-9]*-dbgsym_*.d*eb)" "$scratch/symbols"
  # It reads to the end: readelf would fail otherwise.
  readelf --symbols --wide "$(find "$scratch/symbols" -name '*.debug')" | grep --count '_ZN.*statestore' >/dev/null ||
    fail "the package of the symbols of libstatestore has none"
  rm -r "$scratch/symbols"
  cp "$debs"/*.deb packaging/trial-debian.sh "$scratch"
  url='$url'
  quickstart c >"$scratch/program.c"
  chmod -R a+rX "$scratch"
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  local mirror=http://deb.debian.org/debian
  if grep --quiet '^ID=ubuntu$' /etc/os-release; then
    mirror=http://archive.ubuntu.com/ubuntu
    # Other architectures have their own mirror.
    [[ "$(dpkg --print-architecture)" == amd64 ]] || mirror=http://ports.ubuntu.com/ubuntu-ports
  fi
  # A temporary root file system.
  mmdebstrap --quiet --variant=minbase --include=adduser,gcc,libc6-dev,pkg-config,procps,systemd \
    --customize-hook="mkdir \"\$1/trial\" && cp $scratch/* \"\$1/trial\" && chroot \"\$1\" sh /trial/trial-debian.sh" \
    "$release" /dev/null "$mirror"
}
