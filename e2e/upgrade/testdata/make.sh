#!/bin/bash
# make.sh TOCSIN OUT: makes a state directory below OUT with a tocsin binary, and packs it. It takes eleven minutes.
set -e
BIN=$1 OUT=$2
export TOCSIN_STATE_DIR=$OUT/dir XDG_CONFIG_HOME=$OUT/config
export TOCSIN_OTLP_ADDR=127.0.0.1:0 TOCSIN_DASHBOARD_ADDR=127.0.0.1:0 TOCSIN_NATS_ADDR=127.0.0.1:0 TOCSIN_NATS_WS_ADDR=127.0.0.1:0 TOCSIN_INGEST_ADDR=127.0.0.1:0
rm -rf $TOCSIN_STATE_DIR; mkdir -p $TOCSIN_STATE_DIR
$BIN up >$OUT/up.out 2>$OUT/up.log &
PID=$!
for i in $(seq 100); do [ -s $TOCSIN_STATE_DIR/runtime.json ] && break; sleep 0.1; done
URL=$(sed 's/.*"ingest_url":"\([^"]*\)".*/\1/' $TOCSIN_STATE_DIR/runtime.json)
post() { curl -fsS -H 'Content-Type: application/json' -d "$1" $URL/v1/events >/dev/null; }
load() { post "{\"kind\":\"vitals\",\"app\":\"web\",\"url\":\"http://localhost:3000$1\",\"vitals\":{\"lcp_ms\":$2}}"; }
boom() { post '{"kind":"log","app":"web","log":{"level":"error","message":"the cart of order 7 is gone","stack":"Error: the cart is gone\n    at pay (http://localhost:3000/src/cart.js:10:5)"}}'; }
call() { # requests of an agent named upgrade
  { printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"upgrade","version":"1"}}}' '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$@"; sleep 3; } | $BIN gateway --client=upgrade --autostart=false 2>>$OUT/gateway.log
}
boom; boom
for i in $(seq 24); do load /cart $((995 + i % 10)); load /pay $((995 + i % 10)); done
for i in $(seq 30); do post "{\"kind\":\"log\",\"app\":\"web\",\"log\":{\"level\":\"info\",\"message\":\"tick $i\"}}"; done
load /pay 3000
post '{"kind":"circuit","app":"web","circuit":{"name":"db","state":"open"}}'
post '{"kind":"memory","app":"web","memory":{"used_bytes":950,"limit_bytes":1000}}'
curl -fsS -H 'Content-Type: application/json' -d '{"status":"failure","name":"build","ref":"main","commit":"abc","summary":"2 tests failed"}' $URL/ci-result >/dev/null
call '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"configure","arguments":{"action":"noise","noise_action":"auto_detect","app":"web"}}}' > $OUT/noise1.json
sleep 660 # so that the events of web span more than ten minutes
boom
for i in $(seq 24); do load /cart $((995 + i % 10)); done
for i in $(seq 30); do post "{\"kind\":\"log\",\"app\":\"web\",\"log\":{\"level\":\"info\",\"message\":\"tick $i\"}}"; done
load() { post "{\"kind\":\"vitals\",\"app\":\"shop\",\"url\":\"http://localhost:3000$1\",\"vitals\":{\"lcp_ms\":$2}}"; }
for i in $(seq 24); do load /cart $((995 + i % 10)); done
post '{"kind":"log","app":"shop","log":{"level":"error","message":"the shelf of order 7 is gone","stack":"Error: the shelf is gone\n    at pick (http://localhost:3000/src/shelf.js:10:5)"}}'
post '{"kind":"circuit","app":"shop","circuit":{"name":"stock","state":"open"}}'
for i in $(seq 30); do post "{\"kind\":\"log\",\"app\":\"shop\",\"log\":{\"level\":\"info\",\"message\":\"tack $i\"}}"; done
call '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"configure","arguments":{"action":"noise","noise_action":"auto_detect","app":"shop"}}}' > $OUT/noise3.json
sleep 5
call '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"configure","arguments":{"action":"noise","noise_action":"list","app":"web"}}}' > $OUT/noise2.json
call '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"observe","arguments":{}}}' > $OUT/observe.json
$BIN tail --json --last=100 > $OUT/tail.json & T=$!; sleep 3; kill $T
kill $PID
wait $PID || true
tar --sort=name --owner=0 --group=0 --numeric-owner --exclude=./lock -C $OUT/dir -cf - . | gzip -9n > $OUT/state.tar.gz
