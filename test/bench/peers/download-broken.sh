#!/bin/bash
# Downloads over connections that break: download-broken.sh ADDRESS FILE
set -euo pipefail
for _ in 1 2 3 4 5 6 7 8; do curl -fsS -H 'X-API-KEY: fake-personal-key-5f1d' -C - -o "$2" "$1" 2> /dev/null && break; done
