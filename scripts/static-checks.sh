# Sourced by scripts/test and scripts/check, with $root set and the project's programs on the PATH.

# Formatting, lint with types, and types, side by side. tsc skips what it has checked before. $gently is a
# command that lets others go first, if there are some.
static_checks() {
  ${gently-} oxfmt --check >&2 &
  formatting=$!
  ${gently-} oxlint --type-aware --deny-warnings &
  lint=$!
  ${gently-} tsc --incremental --tsBuildInfoFile node_modules/.cache/types.tsbuildinfo &
  types=$!
  ${gently-} tsc -p src/ui/browser & # the scripts of pages run in a browser, without Node
  browser=$!
  failed=0
  for check in $formatting $lint $types $browser; do wait "$check" || failed=1; done
  return $failed
}

# Every process that is started loads hundreds of sources; their types are stripped and they are compiled once.
cache_sources() {
  NODE_COMPILE_CACHE=${NODE_COMPILE_CACHE-$root/node_modules/.cache/headrace}
  export NODE_COMPILE_CACHE
}
