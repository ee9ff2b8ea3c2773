# Sourced by bin/headrace and the other scripts in this folder. Installs everything that the program needs and
# this machine lacks, and sets $node to the right Node. Messages go to standard error, because standard output
# is for the requested command.

say() { printf '%s\n' "$*" >&2; }

# install_packages runtime|all
# The copy of the lockfile inside node_modules shows which lockfile was installed, and how much of it. npm writes its
# own file there at the end. If that file has no such copy next to it, the user installed the packages, and `npm ci`
# would remove them first.
install_packages() {
  packages_current "$1" && return 0
  if ! command -v npm >/dev/null 2>&1; then
    say "headrace needs npm to install its packages. Install Node.js 20 or newer with npm, then try again."
    exit 1
  fi
  if ! [ -w "$root" ] || { [ -e "$root/node_modules" ] && ! [ -w "$root/node_modules" ]; }; then
    say "headrace has to install its packages, and $root cannot be written by this user, or is read-only."
    say "Start it once from a folder that can be written, or as the owner of this one: npm ci"
    exit 1
  fi
  exec 9<"$root/package-lock.json"
  flock 9 # a second start at the same time waits here, and then finds the packages installed
  if ! packages_current "$1"; then
    omit=''
    [ "$1" = runtime ] && omit='--omit=dev'
    if [ ! -e "$root/node_modules/.package-lock.json" ] || ls "$root"/node_modules/.installed-* >/dev/null 2>&1; then
      say "headrace: installing its packages (once)"
      # If the packages for development are installed, they stay.
      grep -qs '"dev": true' "$root/node_modules/.package-lock.json" && omit=''
      # Exactly the versions in the lockfile, or an error if it and package.json differ.
      (cd "$root" && with_npm_cache npm ci $omit --loglevel=error 9<&-) >&2
    elif ! (cd "$root" && npm ls $omit 9<&-) >/dev/null 2>&1; then
      say "The packages in $root/node_modules are not those that headrace needs, and it did not install them itself."
      say "Install the right ones with:  npm ci"
      exit 1
    fi
    installed=runtime
    [ -z "$omit" ] && installed=all
    cp "$root/package-lock.json" "$root/node_modules/.installed-$installed"
  fi
  exec 9<&-
}

# npm caches its downloads in the home folder, and fails if that is not writable.
with_npm_cache() {
  kept=${npm_config_cache:-$(npm config get cache)}
  if mkdir -p "$kept" 2>/dev/null && [ -w "$kept" ]; then
    "$@"
    return
  fi
  npm_config_cache=$(mktemp -d)
  export npm_config_cache
  if "$@"; then status=0; else status=$?; fi
  rm -rf "$npm_config_cache"
  return "$status"
}

packages_current() {
  cmp -s "$root/package-lock.json" "$root/node_modules/.installed-all" && return 0
  [ "$1" = runtime ] && cmp -s "$root/package-lock.json" "$root/node_modules/.installed-runtime"
}

# The npm packages that ship Node's own binaries are pinned in the lockfile like everything else.
find_node() {
  case $(uname -m) in
    x86_64 | amd64) node_platform=linux-x64 ;;
    aarch64 | arm64) node_platform=linux-arm64 ;;
    *) node_platform=none ;;
  esac
  node=$root/node_modules/node-$node_platform/bin/node
  [ -x "$node" ] && return 0
  packaged=$root/dist/program/current/packaged
  if [ -e "$packaged" ]; then
    say "This headrace is for $(cat "$packaged"), and this machine is $(uname -m)."
    case $node_platform in
      none) say "There is none for this kind of machine. Clone the repository, with Node.js 24 or newer." ;;
      *) say "Download the one for $node_platform." ;;
    esac
    exit 1
  fi
  node=$(command -v node || true)
  if [ -z "$node" ] || [ "$("$node" -p 'parseInt(process.versions.node)')" -lt 24 ]; then
    say "headrace needs Node.js 24 or newer, and brings none for this kind of machine ($(uname -m)). Install it and try again."
    exit 1
  fi
}

# bundle_program [COMMAND]
# Sets $program to the file that Node runs. The bundle has the hundreds of modules, and the packages that are always
# needed, in a few large files. It starts in half the time and takes 30 MB less. After a source has changed, it is made
# again. The bundle before it stays for processes that still run it. If nothing can be written, the sources are used.
bundle_program() {
  bundles=$root/dist/program
  program=$bundles/current/main.js
  bundle_current && return 0
  if [ "${1-}" = doctor ]; then # it changes nothing
    program=$root/src/main.ts
    return 0
  fi
  exec 9<"$root/package-lock.json"
  flock 9
  # Every user who may read the sources may read the bundle.
  bundle_current || (umask 022 && make_bundle) 2>/dev/null || program=$root/src/main.ts
  exec 9<&-
}

make_bundle() {
  mkdir -p "$bundles" && rm -rf "$bundles"/new.* && made=$(mktemp -d "$bundles/new.XXXXXX") || return 1
  # The time stamp comes before anything is read, so a source that changes meanwhile is newer. Packages that only some
  # installations need, or that are loaded by name, are not bundled. Nor are packages of Fastify that are never loaded
  # (src/server/http/server.ts). A process keeps its program text in memory, so comments and indentation are removed.
  # Lines stay short, for stack traces.
  if touch "$made/made" &&
    (cd "$root" && "node_modules/@esbuild/$node_platform/bin/esbuild" src/main.ts --bundle --splitting --platform=node \
      --format=esm --target=node24 --outdir="$made" --log-level=error --define:wayToSources='"../../../src"' \
      --banner:js="import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);" \
      --minify-whitespace --line-limit=120 --legal-comments=external \
      '--external:@aws-sdk/*' '--external:@smithy/*' '--external:@opentelemetry/*' '--external:re2js' \
      --external:@fastify/ajv-compiler --external:@fastify/fast-json-stringify-compiler --external:light-my-request 9<&-) &&
    (cd "$root" && "node_modules/@esbuild/$node_platform/bin/esbuild" src/server/ui/browser/main.ts src/server/ui/browser/changes-worker.ts \
      src/server/ui/browser/shell.ts src/server/ui/browser/passkeys.ts src/server/ui/style.css src/server/ui/terminal.css --bundle --minify --format=esm --entry-names='[name]' --outdir="$made/pages" --log-level=error 9<&-) &&
    printf '{ "type": "module" }\n' >"$made/package.json" && chmod 755 "$made"; then
    name=$(date +%s).$$
    mv "$made" "$bundles/$name" && ln -s "$name" "$bundles/new.$$" && mv -T "$bundles/new.$$" "$bundles/current" || return 1
    find "$bundles" -mindepth 1 -maxdepth 1 -name '[0-9]*' | sort | head -n -2 | while read -r old; do rm -rf "$old"; done
  else
    rm -rf "$made"
    return 1
  fi
}

# An installed package changes only as a whole.
bundle_current() {
  [ -e "$bundles/current/packaged" ] && return 0
  [ -r "$program" ] && [ -e "$bundles/current/made" ] || return 1
  [ -z "$(find "$root/src" "$root/package.json" "$root/package-lock.json" -cnewer "$bundles/current/made" -print -quit)" ]
}

# require_programs program=debian-package …
require_programs() {
  missing_programs=''
  missing_packages=''
  for pair in "$@"; do
    if ! program_present "${pair%%=*}"; then
      missing_programs="$missing_programs ${pair%%=*}"
      missing_packages="$missing_packages ${pair#*=}"
    fi
  done
  [ -z "$missing_packages" ] && return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    say "headrace needs programs that this machine does not have:$missing_programs"
    if command -v apt-get >/dev/null 2>&1; then
      say "Install them with:  sudo apt-get install -y --no-install-recommends$missing_packages"
    else
      say "Install them with this system's package manager (on Debian: apt-get install$missing_packages)"
    fi
    exit 1
  fi
  say "headrace: installing$missing_packages"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  apt_install $missing_packages || {
    say "Could not install them. Try:  apt-get update && apt-get install -y --no-install-recommends$missing_packages"
    exit 1
  }
}

# wish_programs what-for program=debian-package …
# The same for optional programs. If they cannot be installed, the start continues, and a run that needs them reports
# it. A failed installation is retried after a day: without a network, each start would wait for it and report it again.
wish_programs() {
  wished_for=$1
  shift
  missing_packages=''
  for pair in "$@"; do
    program_present "${pair%%=*}" || missing_packages="$missing_packages ${pair#*=}"
  done
  [ -z "$missing_packages" ] && return 0
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  refused=$root/node_modules/.not-installed
  [ -n "$(find "$refused" -mtime -1 2>/dev/null)" ] && grep -qxF -- "$missing_packages" "$refused" && return 0
  say "headrace: installing$missing_packages (for $wished_for)"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  impatient='-o Acquire::Retries=0 -o Acquire::http::Timeout=10'
  apt_install $missing_packages && return 0
  say "Could not install them; it goes on without $wished_for."
  printf '%s\n' "$missing_packages" 2>/dev/null >>"$refused" || true
}

# The first failure usually comes from a missing or old package list, so it is reported only if fresh lists do not help.
# If the lists of one source are unavailable, the lists of the other sources may suffice.
apt_install() {
  apt install -y -qq --no-install-recommends "$@" && return 0
  first_said=$apt_said
  apt update -qq || first_said=$(printf '%s\n%s' "$first_said" "$apt_said")
  apt install -y -qq --no-install-recommends "$@" && return 0
  say "$first_said"
  [ "$apt_said" = "$first_said" ] || say "$apt_said"
  return 1
}

# Prints no output of apt: $apt_said has it, for the caller to report a failure.
# Another program may be installing. apt itself waits for only one of its three locks, and without a message.
apt() {
  apt_waited=0
  until apt_said=$(LC_ALL=C apt-get ${impatient-} "$@" 2>&1 </dev/null); do
    case $apt_said in
      *'Could not get lock'*) ;;
      *) return 1 ;;
    esac
    if [ $apt_waited -eq 0 ]; then say "headrace: another program is installing packages; waiting for it"; fi
    [ $apt_waited -lt 600 ] || return 1
    apt_waited=$((apt_waited + 1))
    sleep 1
  done
}

# On Debian, servers are in folders outside a user's PATH. Without a font, a browser cannot render text. Only Debian's
# own Python can use its libraries.
program_present() {
  case $1 in
    liberation-fonts) ls /usr/share/fonts/truetype/liberation*/*.ttf >/dev/null 2>&1 ;;
    python3-seccomp) /usr/bin/python3 -c 'import seccomp' >/dev/null 2>&1 ;;
    python3-pip) /usr/bin/python3 -c 'import pip' >/dev/null 2>&1 ;;
    python3-swift) /usr/bin/python3 -c 'import swift' >/dev/null 2>&1 ;;
    python3-aiosmtpd) /usr/bin/python3 -c 'import aiosmtpd' >/dev/null 2>&1 ;;
    postgres) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 ;;
  esac
}
