#!/usr/bin/env bash
# Runs the gate with the inputs of action.yml as variables; writes outputs and summary of the job.
set -euo pipefail

arguments=("$BASELINE" "$CANDIDATE" --out "$OUT" --margin "$MARGIN" --alpha "$ALPHA" --power "$POWER")
arguments+=(--limit-usd "$LIMIT_USD")
if [[ -n "${CONFIG:-}" ]]; then arguments+=(--config "$CONFIG"); fi
if [[ -n "${JUDGES:-}" ]]; then arguments+=(--judges "$JUDGES"); fi
if [[ -n "${LIMIT:-}" ]]; then arguments+=(--limit "$LIMIT"); fi
while IFS= read -r change; do
  if [[ -n "${change// /}" ]]; then arguments+=(--set "$change"); fi
done <<<"${SET:-}"

code=0
scenewright gate "${arguments[@]}" || code=$?

# 0 not worse, 1 worse and 4 undecided have a result; the others have told why there is none.
case "$code" in
  0 | 1 | 4) python "$(dirname "${BASH_SOURCE[0]}")/summary.py" "$OUT" ;;
  *) exit "$code" ;;
esac
if [[ "$code" == 4 && "${UNDECIDED:-fail}" == pass ]]; then
  echo "::warning title=scenewright gate::undecided"
  exit 0
fi
exit "$code"
