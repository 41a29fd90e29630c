# The crates for Rust. Sourced by scripts/package.

crates=(--package statestore-protocol --package statestore)

make_crates() {
  cargo package --quiet --locked --allow-dirty --no-verify "${crates[@]}"
  cp "$CARGO_TARGET_DIR"/package/statestore-{protocol-,}"$version".crate "$out"
}

check_crates() {
  local crate text
  # Everything but the upload: the registry's rules, and that each builds from what is in its archive, which compiles everything.
  [[ -n "$native" ]] || cargo publish --quiet --locked --allow-dirty --dry-run "${crates[@]}"
  for crate in "$out"/statestore-{protocol-,}"$version".crate; do
    for text in LICENSE-MIT LICENSE-APACHE README.md; do
      tar --list --file "$crate" | grep -q "/$text\$" || fail "$crate has no $text"
    done
  done
}
