# The server as a container image. Sourced by scripts/package.

# On the images that are made on the way.
made_here=org.libstatestore.temporary=1

make_image() {
  local archive="$out/statestored-$version-image.tar" build base
  build=$(first_of docker.io/library/rust:1-slim-bookworm make_build_base)
  base=$(first_of gcr.io/distroless/cc-debian12:nonroot make_base)
  rm -f "$archive"
  buildah build --isolation chroot --layers=false --build-arg "BUILD_BASE=$build" --build-arg "BASE=$base" --build-arg "PROFILE=$profile" \
    --timestamp "$SOURCE_DATE_EPOCH" --file packaging/Containerfile --tag "statestored:$version" . >"$work/image.log" 2>&1 ||
    { cat "$work/image.log" >&2; fail "the image cannot be built"; }
  buildah push --quiet "statestored:$version" "oci-archive:$archive:statestored:$version" >&2
  # The archive is what is wanted; those of this project are not for the next one, whose files may be others.
  buildah rmi --force "statestored:$version" >/dev/null
  buildah images --quiet --filter "label=$made_here" | sort -u | xargs -r buildah rmi --force >/dev/null
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
  buildah config --label "$made_here" "$@" "$container"
  buildah commit --quiet "$container" "$name" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf "$folder"
  echo "localhost/$name"
}

check_image() {
  local container words
  empty_place
  container=$(buildah from "oci-archive:$out/statestored-$version-image.tar")
  words=$(buildah inspect --type container --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' "$container")
  [[ "$words" == "65532:65532 [/usr/bin/statestored --data-dir /data --listen tcp://0.0.0.0:1883]" ]] || fail "the image is not what it was: $words"
  # Its user, its files, but a port that is free.
  printf '#!/bin/sh\nexec buildah run --isolation chroot %s -- /usr/bin/statestored --data-dir /data --listen tcp://127.0.0.1:0\n' \
    "$container" >"$scratch/start"
  chmod +x "$scratch/start"
  compile statestore-cli
  in_image "$scratch/start" set greeting hello >/dev/null
  # Another start, the same folder.
  [[ "$(in_image "$scratch/start" get greeting)" == hello ]] || fail "the server in the image forgot what it was told"
  buildah rm "$container" >/dev/null
  buildah rmi --force "statestored:$version" >/dev/null
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
