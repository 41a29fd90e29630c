# npm packages. Sourced by scripts/package.

make_npm() {
  local made="$work/npm"
  compile statestore-node
  rm -rf "$made"
  mkdir -p "$made"
  stripped "$(built)/$(library_of statestore_node)" "$made/statestore.node"
  materials statestore-node "$made/materials/addon"
  local server=()
  if [[ "$target" != *-windows-* ]]; then
    compile statestored
    stripped "$(built)/statestored" "$made/statestored"
    materials statestored "$made/materials/server"
    server=(--server "$made/statestored")
  fi
  (
    cd bindings/node
    npm ci --no-audit --no-fund --loglevel=error
    npx --no-install tsc -p face
    node scripts/pack.mjs "$made/packages" "$made/statestore.node" "${server[@]}" --materials "$made/materials" >"$made/names"
    node ../node-red/scripts/pack.mjs "$made/packages" >>"$made/names"
  )
  cp "$made/packages"/*.tgz "$out"
}

check_npm() {
  local project package
  new_work_dir
  project="$scratch/project"
  mkdir "$project"
  echo '{ "private": true }' >"$project/package.json"
  (cd "$project" && npm install --offline --no-audit --no-fund --loglevel=error "$work/npm/packages"/*.tgz)
  for package in "$project"/node_modules/@statestore/*-*; do
    for name in LICENSE-MIT LICENSE-APACHE THIRD-PARTY-NOTICES.txt README.md; do
      [[ -s "$package/$name" ]] || fail "$package has no $name"
    done
    check_sbom "$package"/*.cdx.json
  done
  for package in "$project"/node_modules/{statestore,node-red-contrib-statestore,@statestore/*}; do
    node --eval 'for (const name of ["homepage", "bugs", "repository", "license", "publishConfig"])
      if (require(process.argv[1])[name] === undefined) throw new Error(`${process.argv[1]} has no ${name}`)' "$package/package.json"
  done
  if [[ "$target" == *-windows-* ]]; then check_npm_alone "$project"; else check_npm_with_server "$project"; fi
  (cd "$project" && node --eval 'require("node-red-contrib-statestore/context")({ url: "mqtt://127.0.0.1" })')
  check_time_to_load "$project"
}

check_npm_with_server() {
  local project=$1
  serve "$(cd "$project" && node --print 'require("@statestore/server").statestoredPath')"
  quickstart js >"$project/program.mjs"
  prints_hello node "$project/program.mjs"
  end_server
  # Only the server of the package.
  quickstart js | sed -e '1i import { startServer } from "statestore/testing"; const server = await startServer();' \
    -e "s#\"$url\"#server.url#" -e '$a await server.stop();' >"$project/test.mjs"
  (unset STATESTORED && prints_hello node "$project/test.mjs")
}

# There is no server for Windows, so this checks that the client loads and sends a CONNECT packet.
check_npm_alone() {
  cat >"$1/program.cjs" <<'JS'
const { createServer } = require("node:net");
const { connect } = require("statestore");
const server = createServer((socket) => socket.once("data", (data) => {
  console.log(data[0] === 0x10 ? "hello" : `not a CONNECT packet: ${data[0]}`);
  process.exit();
}));
server.listen(0, "127.0.0.1", () => connect(`mqtt://127.0.0.1:${server.address().port}`).catch(() => {}));
JS
  prints_hello node "$1/program.cjs"
}

# Checks that loading takes at most 30 ms besides the start of Node.
check_time_to_load() {
  node --eval '
    const { spawnSync } = require("node:child_process");
    const [, project, profile] = process.argv;
    const least = (program) => Math.min(...Array.from({ length: 20 }, () => {
      const report = `; const used = process.resourceUsage(); console.log((used.userCPUTime + used.systemCPUTime) / 1000)`;
      return Number(spawnSync(process.execPath, ["--eval", program + report], { cwd: project, encoding: "utf8" }).stdout);
    }));
    const took = least("require(\"statestore\")") - least("");
    console.log(`require("statestore") takes ${took.toFixed(1)} ms`);
    process.exit(took > 30 && profile !== "dev" ? 1 : 0);
  ' "$1" "$profile"
}
