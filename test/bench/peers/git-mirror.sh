#!/bin/bash
# Mirrors Git repositories, four at a time: clones and checks them out, or fetches changes.
#   git-mirror.sh ADDRESS DIRECTORY NAME...   NAME.git is cloned from ADDRESS/NAME.git
set -euo pipefail
export ADDRESS=$1 DIRECTORY=$2
shift 2
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

one() {
  local bare="$DIRECTORY/$1.git"
  if [ -e "$bare" ]; then
    git --git-dir "$bare" fetch -q
  else
    git clone -q --mirror "$ADDRESS/$1.git" "$bare"
    mkdir -p "$DIRECTORY/mirror/$1"
  fi
  git --git-dir "$bare" --work-tree "$DIRECTORY/mirror/$1" reset -q --hard main
}
export -f one

mkdir -p "$DIRECTORY"
printf '%s\0' "$@" | xargs -0 -P 4 -n 1 bash -euo pipefail -c 'one "$1"' one
