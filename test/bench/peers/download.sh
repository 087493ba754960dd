#!/bin/bash
# Downloads every repository to nowhere, four at a time: download.sh BASE_URL
set -euo pipefail
curl -fsS -H 'X-API-KEY: fake-personal-key-5f1d' "$1/repos" | jq -r '.[] | .id' |
  xargs -P 4 -I '{}' curl -fsS -H 'X-API-KEY: fake-personal-key-5f1d' -o /dev/null "$1/repos/{}/contents?branch=main"
