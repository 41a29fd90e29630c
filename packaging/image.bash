# Container images of the server and of the component for Dapr. Sourced by scripts/package.

# Label of intermediate images.
temporary_label=org.libstatestore.temporary=1

make_image() {
  local build base
  build=$(first_of docker.io/library/rust:1-slim-bookworm make_build_base)
  base=$(first_of gcr.io/distroless/cc-debian12:nonroot make_base)
  image_of statestored packaging/Containerfile
  image_of statestore-dapr packaging/statestore-dapr.Containerfile
  # Only the archives are kept: the next build can have other files.
  buildah images --quiet --filter "label=$temporary_label" | sort -u | xargs -r buildah rmi --force >/dev/null
}

# image_of NAME FILE: builds the archive of an image, on the bases `build` and `base`.
image_of() {
  local archive="$out/$1-$version-image.tar"
  rm -f "$archive"
  buildah build --isolation chroot --layers=false --build-arg "BUILD_BASE=$build" --build-arg "BASE=$base" --build-arg "PROFILE=$profile" \
    --timestamp "$SOURCE_DATE_EPOCH" --file "$2" --tag "$1:$version" . >"$work/image.log" 2>&1 ||
    { cat "$work/image.log" >&2; fail "the image of $1 cannot be built"; }
  buildah push --quiet "$1:$version" "oci-archive:$archive:$1:$version" >&2
  buildah rmi --force "$1:$version" >/dev/null
}

# first_of IMAGE FUNCTION: prints the image of a registry, or without access to it the image that FUNCTION makes from Debian's packages, which
# is sufficient to test the Containerfile.
first_of() {
  if buildah pull --quiet "$1" >/dev/null 2>&1; then echo "$1"; return; fi
  echo "cannot pull $1: using an image of Debian's packages instead, not for publishing" >&2
  "$2"
}

# Makes a root file system of Debian with the compiler of this machine.
make_build_base() {
  local tree="$work/image/build"
  rm -rf "$tree"
  mkdir -p "$tree"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,gcc,libc6-dev bookworm "$tree/root.tar"
  cp -r --reflink=auto "$(rustc --print sysroot)" "$tree/rust"
  rm -rf "$tree/rust/share"
  # The build trusts the same authorities as this machine, for example that of a proxy.
  import "$tree" statestored-build-base "$tree/root.tar" / "$tree/rust" /usr/local/rust \
    /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt \
    --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

# Makes a root file system with the C library and without programs.
make_base() {
  local tree="$work/image/base"
  rm -rf "$tree"
  mkdir -p "$tree"
  mmdebstrap --quiet --variant=extract --include=libc6,libgcc-s1,ca-certificates bookworm "$tree/root.tar"
  import "$tree" statestored-base "$tree/root.tar" /
}

# import FOLDER NAME [SOURCE TARGET]... [--OPTION...]: makes an image with these files.
import() {
  local folder=$1 name=$2 container
  shift 2
  container=$(buildah from scratch)
  while (($#)) && [[ "$1" != --* ]]; do
    buildah add --quiet "$container" "$1" "$2" >/dev/null
    shift 2
  done
  buildah config --label "$temporary_label" "$@" "$container"
  buildah commit --quiet "$container" "$name" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf "$folder"
  echo "localhost/$name"
}

check_image() {
  check_server_image
  check_component_image
}

check_server_image() {
  local container
  new_work_dir
  container=$(unpacked statestored "65532:65532 [/usr/bin/statestored --http http://127.0.0.1:9883 --data-dir /data --listen tcp://0.0.0.0:1883]")
  # The user and files of the image, with a free port.
  printf '#!/bin/sh\nexec buildah run --isolation chroot %s -- /usr/bin/statestored --data-dir /data --listen tcp://127.0.0.1:0\n' \
    "$container" >"$scratch/start"
  chmod +x "$scratch/start"
  compile statestore-cli
  in_image "$scratch/start" set greeting hello >/dev/null
  # A second start with the same folder.
  [[ "$(in_image "$scratch/start" get greeting)" == hello ]] || fail "the server in the image lost the value"
  packed statestored "$container"
}

# Checks that the component speaks HTTP/2 on its socket, and stops on SIGTERM.
check_component_image() {
  local container sockets pid line program=/usr/bin/statestore-dapr
  new_work_dir
  container=$(unpacked statestore-dapr "65532:65532 [$program]")
  sockets="$scratch/sockets"
  install -d -m 777 "$sockets"
  exec {ready}< <(exec buildah run --isolation chroot --volume "$sockets:/shared" --env DAPR_COMPONENTS_SOCKETS_FOLDER=/shared \
    "$container" -- "$program" --socket-mode 666 2>"$scratch/component.log")
  pid=$!
  IFS= read -r -t 60 line <&"$ready" || fail "the image does not start: $(cat "$scratch/component.log")"
  [[ "$line" == "listening on /shared/statestore.sock" ]] || fail "the component in the image printed: $line"
  python3 - "$sockets/statestore.sock" <<'END' || fail "the component in the image does not answer"
import socket, sys

with socket.socket(socket.AF_UNIX) as stream:
    stream.settimeout(60)
    stream.connect(sys.argv[1])
    # The preface and empty SETTINGS; the response begins with SETTINGS too.
    stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    sys.exit(stream.recv(9)[3] != 4)
END
  exec {ready}<&-
  pkill -TERM --uid 65532 --full --exact -- "$program --socket-mode 666"
  wait "$pid" || fail "the component in the image ended with exit code $?"
  packed statestore-dapr "$container"
}

# unpacked NAME WORDS: makes a container of a built image, and checks its user and entry point.
unpacked() {
  local container words
  container=$(buildah from "oci-archive:$out/$1-$version-image.tar")
  words=$(buildah inspect --type container --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' "$container")
  [[ "$words" == "$2" ]] || fail "the image of $1 has the user and entry point $words"
  echo "$container"
}

# packed NAME CONTAINER: removes the container and its image.
packed() {
  buildah rm "$2" >/dev/null
  buildah rmi --force "$1:$version" >/dev/null
}

# in_image START WORD...: runs START, which starts a server, then one command, and stops the server.
in_image() {
  local line pid
  exec {ready}< <(exec "$1" 2>"$scratch/statestored.log")
  pid=$!
  shift
  IFS= read -r -t 60 line <&"$ready" || fail "the image does not start: $(cat "$scratch/statestored.log")"
  STATESTORE_URL="mqtt://${line#listening on tcp://}" "$(built)/statestore" "$@"
  exec {ready}<&-
  # The match by user also checks that it does not run as root.
  pkill -TERM --uid 65532 --full --exact -- "/usr/bin/statestored --data-dir /data --listen tcp://127.0.0.1:0"
  wait "$pid" || fail "the server in the image ended with exit code $?"
}
