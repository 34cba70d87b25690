#!/bin/sh
# Makes everything that goes out with a model release, and stops at the first thing that is not right.
#
#     release.sh SPEC PLAN [LAST]
#
# SPEC is a clock spec, PLAN the plan to make (its folder fills with what to publish), LAST the plan of the last release.
# Exit codes are those of cadencec: 0 ok, 1 the work failed, 2 usage or spec error, 3 differs, incompatible, or a gate.
#
# From the environment:
#     TARGET      cpu (the default) or cuda
#     EVENTS      how many events are replayed beside the stock model (1000)
#     GATES       what may not happen since LAST ("memory,+5% changed:numerics")
#     SIGN_KEY    a private key (PEM) to sign with, and
#     PUBLIC_KEY  its public half, which the signature is checked with
set -eu

spec=$1 plan=$2 last=${3:-}
mkdir -p "$(dirname "$plan")"

cadencec compile "$spec" --target "${TARGET:-cpu}" -o "$plan" ${SIGN_KEY:+--sign "$SIGN_KEY"}
cadencec check "$plan" --full ${PUBLIC_KEY:+--policy "$PUBLIC_KEY"}
cadencec verify "$plan" --spec "$spec" --events "${EVENTS:-1000}"
cadencec report "$plan" --spec "$spec" -o "$plan.html"
cadencec inspect "$plan" --sbom > "$plan.cdx.json"

if [ -n "$last" ]; then
    set --
    for gate in ${GATES:-memory,+5% changed:numerics}; do
        set -- "$@" --fail-on "$gate"
    done
    cadencec diff "$last" "$plan" --html "$plan.diff.html" "$@"
fi
