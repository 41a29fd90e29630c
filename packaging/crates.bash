# Rust crates. Sourced by scripts/package.

crates=(--package statestore-protocol --package statestore)

make_crates() {
  cargo package --quiet --locked --allow-dirty --no-verify "${crates[@]}"
  cp "$CARGO_TARGET_DIR"/package/statestore-{protocol-,}"$version".crate "$out"
}

check_crates() {
  local crate content text
  # Everything except the upload: the rules of the registry, and a build of each archive, which compiles everything.
  [[ -n "$native" ]] || cargo publish --quiet --locked --allow-dirty --dry-run "${crates[@]}"
  for crate in "$out"/statestore-{protocol-,}"$version".crate; do
    content=$(tar --list --file "$crate")
    for text in LICENSE-MIT LICENSE-APACHE README.md; do
      [[ "$content" == *"/$text"* ]] || fail "$crate has no $text"
    done
  done
}
