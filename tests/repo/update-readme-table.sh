#!/usr/bin/env bash
# Puts the code's configuration table between the marks in README.md.
# usage: tests/repo/update-readme-table.sh [BUILD TREE]   (default build/dev)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=$(mktemp)
trap 'rm -f "$table"' EXIT
"${1:-build/dev}/bin/print_config_table" >"$table"
sed -i -e "/<!-- configuration table: begin -->/,/<!-- configuration table: end -->/{
  /begin -->/{p; r $table
  }
  /end -->/p
  d
}" README.md
