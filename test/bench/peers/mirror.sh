#!/bin/bash
# The mirror that an operator would write: every repository is downloaded whole, unpacked beside the mirror and moved in.
#   mirror.sh BASE_URL DIRECTORY [flush]     flush: sync -f at the end
set -euo pipefail
export BASE_URL=$1 DIRECTORY=$2

one() {
  local id=$1 name=$2 new
  new=$(mktemp -d "$DIRECTORY/new/XXXXXX")
  curl -fsS -H 'X-API-KEY: fake-personal-key-5f1d' "$BASE_URL/repos/$id/contents?branch=main" | bsdtar -x -C "$new" -f -
  mkdir -p "$(dirname "$DIRECTORY/mirror/$name")"
  if [ -e "$DIRECTORY/mirror/$name" ]; then mv "$DIRECTORY/mirror/$name" "$new.old"; fi
  mv "$new" "$DIRECTORY/mirror/$name"
}
export -f one

mkdir -p "$DIRECTORY/mirror" "$DIRECTORY/new"
curl -fsS -H 'X-API-KEY: fake-personal-key-5f1d' "$BASE_URL/repos" |
  jq -r '.[] | .id, .full_name' | tr '\n' '\0' |
  xargs -0 -P 4 -n 2 bash -euo pipefail -c 'one "$1" "$2"' one
if [ "${3:-}" = flush ]; then sync -f "$DIRECTORY"; fi
