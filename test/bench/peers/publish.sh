#!/bin/bash
# Makes DIRECTORY/published a copy of a tree: publish.sh link|rsync TREE DIRECTORY
# Standard input: the paths of the changed files, each ended by a NUL byte; only `link` reads them.
# The tree before stays as DIRECTORY/old.*, for readers that are still in it.
set -euo pipefail
way=$1 tree=$2
cd "$3"

case $way in
  link)
    cp -al published new
    (cd "$tree" && xargs -0 cp -a --parents --remove-destination -t "$3/new")
    ;;
  rsync) rsync -a --link-dest="$3/published" "$tree/" new ;;
esac
mv published "$(mktemp -u old.XXXXXX)"
mv new published
