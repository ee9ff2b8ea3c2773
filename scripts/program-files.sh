# Sourced by scripts/make-package and scripts/make-archive, after scripts/setup.sh. Collects the files to install.

# stage_program DIR linux-x64|linux-arm64
# The program, its packages and its Node. They are named one by one, so other files in the folder are excluded (data,
# tests, the repository).
stage_program() {
  installed=$1
  platform=$2
  mkdir -p "$installed/scripts" "$installed/docs" "$installed/node_modules" "$installed/dist/program"
  cp -R "$root/bin" "$root/src" "$root/package.json" "$root/package-lock.json" "$installed/"
  cp "$root/scripts/setup.sh" "$installed/scripts/"
  cp "$root"/docs/*.md "$installed/docs/" # the server shows them to agents
  cp -RL "$bundles/current" "$installed/dist/program/"
  rm "$installed/dist/program/current/made"
  printf '%s\n' "$platform" >"$installed/dist/program/current/packaged" # nothing is bundled at the first start

  # All packages that are not for development, without their own tests. Packages for browsers are not needed, because
  # their files are bundled already. The lockfile lists nested packages separately.
  "$node" -e '
    const { cpSync, readFileSync } = require("node:fs");
    const { basename, dirname, join } = require("node:path");
    const [root, installed] = process.argv.slice(1);
    const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
    const other = /^node_modules\/(node-linux-|@esbuild\/|@xterm\/|idiomorph$)/;
    for (const [place, { dev }] of Object.entries(packages)) {
      if (place === "" || dev || other.test(place)) continue;
      const from = join(root, place);
      const isLeft = (file) => /^(node_modules|test|bench|benchmark|\..*)$/.test(basename(file)) && dirname(file) === from;
      cpSync(from, join(installed, place), { recursive: true, filter: (file) => !isLeft(file) });
    }
  ' "$root" "$installed"
  stage_node "$installed/node_modules/node-$platform" "$platform"
  cp "$root/package-lock.json" "$installed/node_modules/.installed-runtime" # nothing is installed at the first start
}

# stage_node DIR PLATFORM: for another architecture, Node comes from the registry, in the lockfile's version.
stage_node() {
  fetched=''
  from=$root/node_modules/node-$2
  if [ ! -x "$from/bin/node" ]; then
    fetched=$(mktemp -d)
    fetch_package "node-$2" "$fetched"
    from=$fetched/package
  fi
  mkdir -p "$1/bin"
  ln "$from/bin/node" "$1/bin/node" 2>/dev/null || cp "$from/bin/node" "$1/bin/node"
  cp "$from/LICENSE" "$from/package.json" "$1/"
  [ -z "$fetched" ] || rm -rf "$fetched"
}

# fetch_package NAME DIR: leaves it in DIR/package
fetch_package() {
  entry=$("$node" -p 'const { version, integrity } = require(process.argv[1]).packages[`node_modules/${process.argv[2]}`]; `${version} ${integrity}`' "$root/package-lock.json" "$1")
  if ! file=$(cd "$2" && with_npm_cache npm pack --silent --prefer-offline "$1@${entry% *}"); then
    say "npm could not fetch $1@${entry% *}. Check the network and npm's registry, then try again."
    exit 1
  fi
  found=sha512-$(openssl dgst -sha512 -binary "$2/$file" | openssl base64 -A)
  if [ "$found" != "${entry#* }" ]; then
    say "$1@${entry% *} is not what package-lock.json names (${entry#* }, and it is $found). Check npm's registry."
    exit 1
  fi
  tar -C "$2" --no-same-owner -xzmf "$2/$file"
}

# set_modes DIR: sets the release's modes, independent of the umask of the user who makes it.
set_modes() {
  find "$1" -type d ! -perm 755 -exec chmod 755 {} +
  find "$1" -type f -perm /111 ! -perm 755 -exec chmod 755 {} +
  find "$1" -type f ! -perm /111 ! -perm 644 -exec chmod 644 {} +
}
