#!/bin/sh
# Runs the steps of an npm script: sh test/steps.sh ABOUT STEP... -- [ARGUMENT...]
# The arguments are passed to the last step. With --help among them, prints ABOUT and the steps, and runs nothing.
set -e

about=$1 last=$2
shift 2
earlier=
while [ "$1" != -- ]; do
  earlier="$earlier$last
"
  last=$1
  shift
done
shift

for argument; do
  if [ "$argument" = --help ]; then
    printf 'Usage: npm run %s\n\nRuns:\n' "$about"
    printf '%s%s\n' "$earlier" "$last" | sed 's/^/  /'
    exit
  fi
done

sh -ec "$earlier"
exec sh -c "exec $last \"\$@\"" sh "$@"
