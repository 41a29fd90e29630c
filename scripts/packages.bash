# The step "packages" of scripts/test: what Debian has of what the other steps need. Sourced by it.

# Whether the step "packages" can install what is missing.
is_debian() {
  has dpkg-query && has apt-get
}

step_packages() {
  is_debian || { echo "not a Debian system: nothing is installed here"; return; }
  local wanted=(
    abigail-tools chromium clang cmake curl debhelper etcd-server faketime g++ haproxy libasio-dev libc6-dbg libc6-dev libmosquitto-dev libssl-dev libuv1-dev make mosquitto mosquitto-clients mosquitto-dev
    libprotobuf-dev nlohmann-json3-dev lintian mmdebstrap openssl pkg-config prometheus protobuf-compiler python3 python3-venv redis-server valgrind
  ) lacking=() package
  # The names of installed packages and of what those provide, one per line, without versions.
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' |
    sed -nE 's/^installed //; T; s/ \([^)]*\)//g; s/, */\n/g; p')
  for package in "${wanted[@]}"; do
    grep -qxF -- "$package" <<<"$installed" || lacking+=("$package")
  done
  if ((${#lacking[@]} == 0)) && has sanitizers && has node && has npm && ! lacks_java; then
    echo "nothing is missing"
    return
  fi
  local as_root=()
  if ((EUID != 0)); then
    has sudo || {
      echo "These packages are missing, and neither root nor sudo is at hand: ${lacking[*]}, clang's runtime for sanitizers" >&2
      echo "As root: scripts/test packages" >&2
      return 1
    }
    as_root=(sudo)
  fi
  # The tests start services of their own. The system's would take their ports, so they are not to start.
  local service
  local -A of=([mosquitto]=mosquitto [prometheus]=prometheus [prometheus-node-exporter]=prometheus [redis-server]=redis-server [etcd]=etcd-server [haproxy]=haproxy)
  for service in "${!of[@]}"; do
    if [[ " ${lacking[*]} " == *" ${of[$service]} "* && -d /run/systemd/system ]]; then
      "${as_root[@]}" systemctl mask "$service.service"
      echo "The service $service is masked; to use it: systemctl unmask --now $service.service"
    fi
  done
  "${as_root[@]}" apt-get update -q
  # These depend on the release, whose lists are here only now.
  mapfile -t -O "${#lacking[@]}" lacking < <(sanitizer_packages; node_packages; java_packages)
  ((${#lacking[@]})) || return 0
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${lacking[@]}"
}

# The runtime of sanitizers has the version of clang in its name. Where there is none of that name, clang depends on a package that has it.
sanitizer_packages() {
  local version
  has sanitizers && return
  version=$(apt-cache depends clang | sed -nE 's/^ *Depends: clang-([0-9]+)$/\1/p')
  apt-cache show "libclang-rt-$version-dev" &>/dev/null && echo "libclang-rt-$version-dev"
}

# Node, if it is missing and the system's is new enough.
node_packages() {
  has node && has npm && return
  is_at_least 20 "$(apt-cache show --no-all-versions nodejs 2>/dev/null | sed -n 's/^Version: //p')" && echo nodejs && echo npm
}

# Whether what only "brokers" needs, and only if it is named as well, is missing: it takes half a gigabyte.
lacks_java() {
  [[ " ${chosen[*]} " == *" brokers "* ]] && ! { has jdk && has mvn; }
}

java_packages() {
  local version
  lacks_java || return 0
  has mvn || echo maven
  if ! has jdk; then
    for version in 21 17; do
      apt-cache show "openjdk-$version-jdk-headless" &>/dev/null && { echo "openjdk-$version-jdk-headless"; return; }
    done
  fi
}
