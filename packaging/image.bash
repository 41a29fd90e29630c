# The server, and the component for Dapr, as container images. Sourced by scripts/package.

# On the images that are made on the way.
temporary_label=org.libstatestore.temporary=1

make_image() {
  local build base
  build=$(first_of docker.io/library/rust:1-slim-bookworm make_build_base)
  base=$(first_of gcr.io/distroless/cc-debian12:nonroot make_base)
  image_of statestored packaging/Containerfile
  image_of statestore-dapr packaging/statestore-dapr.Containerfile
  # The archives are what is wanted; what is on the way is not for the next ones, whose files may be others.
  buildah images --quiet --filter "label=$temporary_label" | sort -u | xargs -r buildah rmi --force >/dev/null
}

# image_of NAME FILE: the archive of one image, on the bases `build` and `base`.
image_of() {
  local archive="$out/$1-$version-image.tar"
  rm -f "$archive"
  buildah build --isolation chroot --layers=false --build-arg "BUILD_BASE=$build" --build-arg "BASE=$base" --build-arg "PROFILE=$profile" \
    --timestamp "$SOURCE_DATE_EPOCH" --file "$2" --tag "$1:$version" . >"$work/image.log" 2>&1 ||
    { cat "$work/image.log" >&2; fail "the image of $1 cannot be built"; }
  buildah push --quiet "$1:$version" "oci-archive:$archive:$1:$version" >&2
  buildah rmi --force "$1:$version" >/dev/null
}

# first_of IMAGE OTHERWISE: the image of a registry, or where that is out of reach, what the function makes of Debian's packages, which
# is good enough to try the Containerfile.
first_of() {
  if buildah pull --quiet "$1" >/dev/null 2>&1; then echo "$1"; return; fi
  echo "$1 cannot be had; of Debian's packages instead: not for a registry" >&2
  "$2"
}

# The compiler of this machine in a root file system of Debian.
make_build_base() {
  local tree="$work/image/build"
  rm -rf "$tree"
  mkdir -p "$tree"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,gcc,libc6-dev bookworm "$tree/root.tar"
  cp -r --reflink=auto "$(rustc --print sysroot)" "$tree/rust"
  rm -rf "$tree/rust/share"
  # Whoever stands between this machine and the network is known there too.
  import "$tree" statestored-build-base "$tree/root.tar" / "$tree/rust" /usr/local/rust \
    /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt \
    --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

# The C library, and nothing that can be run.
make_base() {
  local tree="$work/image/base"
  rm -rf "$tree"
  mkdir -p "$tree"
  mmdebstrap --quiet --variant=extract --include=libc6,libgcc-s1,ca-certificates bookworm "$tree/root.tar"
  import "$tree" statestored-base "$tree/root.tar" /
}

# import FOLDER NAME [SOURCE TARGET]... [--OPTION...]: an image with these files.
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
  # Its user, its files, but a port that is free.
  printf '#!/bin/sh\nexec buildah run --isolation chroot %s -- /usr/bin/statestored --data-dir /data --listen tcp://127.0.0.1:0\n' \
    "$container" >"$scratch/start"
  chmod +x "$scratch/start"
  compile statestore-cli
  in_image "$scratch/start" set greeting hello >/dev/null
  # Another start, the same folder.
  [[ "$(in_image "$scratch/start" get greeting)" == hello ]] || fail "the server in the image forgot what it was told"
  packed statestored "$container"
}

# What connects to its socket is spoken to in HTTP/2, and it ends when it is told to.
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
  [[ "$line" == "listening on /shared/statestore.sock" ]] || fail "the component in the image says: $line"
  python3 - "$sockets/statestore.sock" <<'END' || fail "nobody answers in the image of the component"
import socket, sys

with socket.socket(socket.AF_UNIX) as stream:
    stream.settimeout(60)
    stream.connect(sys.argv[1])
    # The preface and empty settings; the answer begins with settings as well.
    stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    sys.exit(stream.recv(9)[3] != 4)
END
  exec {ready}<&-
  pkill -TERM --uid 65532 --full --exact -- "$program --socket-mode 666"
  wait "$pid" || fail "the component in the image ended with exit code $?"
  packed statestore-dapr "$container"
}

# unpacked NAME WORDS: a container of an image that was made, whose user and entry point are these.
unpacked() {
  local container words
  container=$(buildah from "oci-archive:$out/$1-$version-image.tar")
  words=$(buildah inspect --type container --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' "$container")
  [[ "$words" == "$2" ]] || fail "the image of $1 is not what it was: $words"
  echo "$container"
}

# packed NAME CONTAINER: leaves nothing of it behind.
packed() {
  buildah rm "$2" >/dev/null
  buildah rmi --force "$1:$version" >/dev/null
}

# in_image START WORD...: one command for the server that START starts and that ends then.
in_image() {
  local line pid
  exec {ready}< <(exec "$1" 2>"$scratch/statestored.log")
  pid=$!
  shift
  IFS= read -r -t 60 line <&"$ready" || fail "the image does not start: $(cat "$scratch/statestored.log")"
  STATESTORE_URL="mqtt://${line#listening on tcp://}" "$(built)/statestore" "$@"
  exec {ready}<&-
  # By its user as well: not as root.
  pkill -TERM --uid 65532 --full --exact -- "/usr/bin/statestored --data-dir /data --listen tcp://127.0.0.1:0"
  wait "$pid" || fail "the server in the image ended with exit code $?"
}
