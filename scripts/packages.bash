# The step "packages" of scripts/test: installs the Debian packages that the chosen steps need; by itself, those of "all". Sourced by it.

# Whether the step can install anything here.
is_debian() {
  has dpkg-query && has apt-get
}

# installable STEP...: those needs of the steps, described as `missing` does, that the step "packages" can install.
installable() {
  local need
  for need in $(for step in "$@"; do echo ${needs[$step]}; done) node npm jdk sanitizers; do
    case "$need" in
      node | npm | jdk | sanitizers) ;;
      *) [[ -n "${debian_packages[$need]-}" ]] || continue ;;
    esac
    echo "${needs_called[$need]-$need}"
  done
}

step_packages() {
  is_debian || { echo "not a Debian system: nothing is installed"; return; }
  local need lacking=() as_root=() service wanted=("${chosen[@]}")
  # By itself, the step is for all that follows.
  [[ "${chosen[*]}" != packages ]] || wanted=(${first[all]} ${lane_a[all]} ${lane_b[all]})
  for need in $(for step in "${wanted[@]}"; do printf '%s\n' ${needs[$step]}; done | sort -u); do
    has "$need" || lacking+=("$need")
  done
  ((${#lacking[@]})) || { echo "nothing is missing"; return; }
  if ((EUID != 0)); then
    has sudo || { echo "neither root nor sudo is available to install: ${lacking[*]}; run as root: scripts/test packages ${chosen[*]}" >&2; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  local packages=()
  # Some names depend on the release, whose lists are here only now.
  mapfile -t packages < <(for need in "${lacking[@]}"; do packages_of "$need"; done | tr ' ' '\n' | sort -u)
  echo "installing: ${packages[*]}"
  # Tests start services of their own. The system's would take their ports, so they must not start.
  local -A services=([mosquitto]=mosquitto [prometheus]=prometheus [redis-server]=redis-server [etcd-server]=etcd [haproxy]=haproxy)
  for package in "${packages[@]}"; do
    service=${services[$package]-}
    [[ -n "$service" && -d /run/systemd/system ]] || continue
    "${as_root[@]}" systemctl mask "$service.service"
    echo "the service $service is masked; to use it: systemctl unmask --now $service.service"
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"
}

# packages_of NEED: its Debian packages in this release.
packages_of() {
  local version
  case "$1" in
    # The runtime has clang's version in its name, unless clang depends on a package that has it.
    sanitizers)
      version=$(apt-cache depends clang | sed -nE 's/^ *Depends: clang-([0-9]+)$/\1/p')
      apt-cache show "libclang-rt-$version-dev" &>/dev/null && echo "libclang-rt-$version-dev" || echo clang
      ;;
    node | npm)
      is_at_least 20 "$(apt-cache show --no-all-versions nodejs 2>/dev/null | sed -n 's/^Version: //p')" && echo nodejs npm
      ;;
    jdk)
      for version in 21 17; do
        apt-cache show "openjdk-$version-jdk-headless" &>/dev/null && { echo "openjdk-$version-jdk-headless"; return; }
      done
      ;;
    *) echo "${debian_packages[$1]-}" ;;
  esac
}
