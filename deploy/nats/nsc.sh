#!/bin/sh
# Creates the roles as users of an operator's account, with credentials files, by
# nsc (github.com/nats-io/nsc). See README.md.
# Written by a test from the table in shared/bus/roles.go; to update it:
#   go test ./shared/bus -run TestRolesOfAServer -update
#
# usage: nsc.sh DIR    the operator must exist
set -eu
dir=${1:?a directory for the credentials files}
umask 077
mkdir -p "$dir"

nsc add account --name TOCSIN
nsc edit account --name TOCSIN --js-disk-storage 4G --js-mem-storage 256M --js-streams -1 --js-consumer -1
nsc add account --name DASHBOARDS
nsc edit account --name DASHBOARDS --conns 2048
services=$(nsc describe account --name TOCSIN --field sub | tr -d '"')
nsc add export --account TOCSIN --name live-0 --subject 'live.alerts.>'
nsc add import --account DASHBOARDS --name live-0 --src-account "$services" --remote-subject 'live.alerts.>' --local-subject 'live.alerts.>'
nsc add export --account TOCSIN --name live-1 --subject 'live.notices.>'
nsc add import --account DASHBOARDS --name live-1 --src-account "$services" --remote-subject 'live.notices.>' --local-subject 'live.notices.>'
nsc add export --account TOCSIN --name look-0 --service --response-type Stream --response-threshold 5s --subject '$JS.API.DIRECT.GET.ALERTS'
nsc add import --account DASHBOARDS --name look-0 --service --src-account "$services" --remote-subject '$JS.API.DIRECT.GET.ALERTS' --local-subject '$JS.API.DIRECT.GET.ALERTS'
nsc add export --account TOCSIN --name look-1 --service --response-type Stream --response-threshold 5s --subject '$JS.API.DIRECT.GET.KV_silences.$KV.silences.*'
nsc add import --account DASHBOARDS --name look-1 --service --src-account "$services" --remote-subject '$JS.API.DIRECT.GET.KV_silences.$KV.silences.*' --local-subject '$JS.API.DIRECT.GET.KV_silences.$KV.silences.*'

nsc add user --account TOCSIN --name ingest \
  --allow-pub-response=1 --response-ttl 2s \
  --allow-sub '$SRV.>,query.health,_INBOX_ingest.>' \
  --allow-pub 'telemetry.>,intake.ci,intake.alerts,ci.result.>,delivery.>,$JS.API.STREAM.INFO.*,$JS.API.DIRECT.GET.CI,$JS.API.STREAM.MSG.DELETE.CI,$JS.API.DIRECT.GET.DELIVERIES.delivery.>'
nsc generate creds --account TOCSIN --name ingest >"$dir/ingest.creds"

nsc add user --account TOCSIN --name detector \
  --allow-pub-response=1 --response-ttl 2s \
  --allow-sub '$SRV.>,query.health,query.events,query.status,query.noise,query.vitals,query.partition.>,_INBOX_detector.>' \
  --allow-pub 'alerts.>,intake.noise,intake.tick,$JS.API.INFO,$JS.API.STREAM.INFO.*,$JS.API.STREAM.NAMES,$JS.FC.>,$JS.ACK.>,$JS.API.CONSUMER.*.TELEMETRY.>,$JS.API.CONSUMER.MSG.NEXT.TELEMETRY.>,$JS.API.CONSUMER.*.ALERTS.>,$JS.API.CONSUMER.MSG.NEXT.ALERTS.>,$O.detector.>,$JS.API.DIRECT.GET.OBJ_detector.>,$JS.API.CONSUMER.*.OBJ_detector.>,$JS.API.CONSUMER.MSG.NEXT.OBJ_detector.>,$JS.API.STREAM.PURGE.OBJ_detector,$JS.API.STREAM.MSG.GET.OBJ_detector,$KV.owners.>,$JS.API.DIRECT.GET.KV_owners,$JS.API.DIRECT.GET.KV_owners.>,$JS.API.STREAM.MSG.DELETE.KV_owners,query.partition.>'
nsc generate creds --account TOCSIN --name detector >"$dir/detector.creds"

nsc add user --account TOCSIN --name gateway \
  --allow-pub-response=1 --response-ttl 2s \
  --allow-sub '$SRV.>,query.health,_INBOX_gateway.>' \
  --allow-pub 'notices.>,$SRV.>,query.events,query.status,query.noise,query.vitals,query.health,investigate.*,$JS.API.INFO,$JS.API.STREAM.INFO.*,$JS.API.STREAM.NAMES,$JS.FC.>,$JS.ACK.>,$JS.API.CONSUMER.*.ALERTS.>,$JS.API.CONSUMER.MSG.NEXT.ALERTS.>,$JS.API.CONSUMER.*.CI.>,$JS.API.CONSUMER.MSG.NEXT.CI.>,$JS.API.CONSUMER.*.NOTICES.>,$JS.API.CONSUMER.MSG.NEXT.NOTICES.>,$JS.API.DIRECT.GET.ALERTS,$JS.API.DIRECT.GET.ALERTS.>,$KV.gateways.>,$JS.API.DIRECT.GET.KV_gateways.>,$KV.silences.>,$JS.API.DIRECT.GET.KV_silences,$JS.API.DIRECT.GET.KV_silences.>,$JS.API.CONSUMER.*.KV_silences.>,$JS.API.CONSUMER.MSG.NEXT.KV_silences.>,$JS.API.CONSUMER.*.KUBERNETES.>,$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.>,$JS.API.DIRECT.GET.KUBERNETES,$JS.API.DIRECT.GET.KUBERNETES.>,$JS.API.CONSUMER.*.KV_kubewatch.>,$JS.API.CONSUMER.MSG.NEXT.KV_kubewatch.>,$JS.API.DIRECT.GET.KV_kubewatch,$JS.API.DIRECT.GET.KV_kubewatch.>'
nsc generate creds --account TOCSIN --name gateway >"$dir/gateway.creds"

nsc add user --account DASHBOARDS --name dashboard \
  --allow-sub 'live.alerts.>,live.notices.>,_INBOX.>' \
  --allow-pub '$JS.API.DIRECT.GET.ALERTS,$JS.API.DIRECT.GET.KV_silences.$KV.silences.*'
nsc generate creds --account DASHBOARDS --name dashboard >"$dir/dashboard.creds"

nsc add user --account TOCSIN --name kubewatch \
  --allow-pub-response=1 --response-ttl 2s \
  --allow-sub '$SRV.>,query.health,_INBOX_kubewatch.>' \
  --allow-pub 'kubernetes.>,intake.alerts,$JS.API.INFO,$JS.API.STREAM.INFO.*,$JS.API.STREAM.NAMES,$JS.FC.>,$JS.ACK.>,$JS.API.CONSUMER.*.KUBERNETES.>,$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.>,$JS.API.DIRECT.GET.KUBERNETES,$JS.API.DIRECT.GET.KUBERNETES.>,$KV.clusters.>,$JS.API.DIRECT.GET.KV_clusters,$JS.API.DIRECT.GET.KV_clusters.>,$KV.kubewatch.>,$JS.API.DIRECT.GET.KV_kubewatch,$JS.API.DIRECT.GET.KV_kubewatch.>'
nsc generate creds --account TOCSIN --name kubewatch >"$dir/kubewatch.creds"

nsc add user --account TOCSIN --name investigator \
  --allow-pub-response=1 --response-ttl 1m0s \
  --allow-sub '$SRV.>,query.health,investigate.*,live.investigations.>,_INBOX_investigator.>' \
  --allow-pub 'alerts.>,live.investigations.>,query.events,query.status,query.noise,query.vitals,query.health,$JS.API.INFO,$JS.API.STREAM.INFO.*,$JS.API.STREAM.NAMES,$JS.FC.>,$JS.ACK.>,$JS.API.CONSUMER.*.ALERTS.>,$JS.API.CONSUMER.MSG.NEXT.ALERTS.>,$JS.API.DIRECT.GET.ALERTS,$JS.API.DIRECT.GET.ALERTS.>,$JS.API.STREAM.MSG.GET.ALERTS,$JS.API.CONSUMER.*.KUBERNETES.>,$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.>,$JS.API.DIRECT.GET.KUBERNETES,$JS.API.DIRECT.GET.KUBERNETES.>,$JS.API.CONSUMER.*.CI.>,$JS.API.CONSUMER.MSG.NEXT.CI.>,$JS.API.CONSUMER.*.KV_silences.>,$JS.API.CONSUMER.MSG.NEXT.KV_silences.>,$JS.API.DIRECT.GET.KV_silences,$JS.API.DIRECT.GET.KV_silences.>,investigation.>,$JS.API.CONSUMER.*.INVESTIGATIONS.>,$JS.API.CONSUMER.MSG.NEXT.INVESTIGATIONS.>,$JS.API.DIRECT.GET.INVESTIGATIONS,$JS.API.DIRECT.GET.INVESTIGATIONS.>,$JS.API.STREAM.MSG.GET.INVESTIGATIONS,$JS.API.STREAM.PURGE.INVESTIGATIONS,$JS.API.CONSUMER.*.INVESTIGATION_TEXTS.>,$JS.API.CONSUMER.MSG.NEXT.INVESTIGATION_TEXTS.>,$JS.API.DIRECT.GET.INVESTIGATION_TEXTS,$JS.API.DIRECT.GET.INVESTIGATION_TEXTS.>,$JS.API.STREAM.MSG.GET.INVESTIGATION_TEXTS,$JS.API.STREAM.PURGE.INVESTIGATION_TEXTS,$JS.API.CONSUMER.*.INVESTIGATION_QUEUE.>,$JS.API.CONSUMER.MSG.NEXT.INVESTIGATION_QUEUE.>,$JS.API.DIRECT.GET.INVESTIGATION_QUEUE,$JS.API.DIRECT.GET.INVESTIGATION_QUEUE.>,$JS.API.STREAM.MSG.GET.INVESTIGATION_QUEUE,$JS.API.STREAM.PURGE.INVESTIGATION_QUEUE,$KV.investigator.>,$JS.API.DIRECT.GET.KV_investigator,$JS.API.DIRECT.GET.KV_investigator.>,$KV.investigator-leases.>,$JS.API.DIRECT.GET.KV_investigator-leases,$JS.API.DIRECT.GET.KV_investigator-leases.>,$KV.investigator-answers.>,$JS.API.DIRECT.GET.KV_investigator-answers,$JS.API.DIRECT.GET.KV_investigator-answers.>,$JS.API.STREAM.MSG.GET.KV_investigator-answers,$KV.investigator-keys.>,$JS.API.DIRECT.GET.KV_investigator-keys,$JS.API.DIRECT.GET.KV_investigator-keys.>,$JS.API.STREAM.MSG.GET.KV_investigator-keys,$JS.API.STREAM.MSG.DELETE.KV_investigator-keys'
nsc generate creds --account TOCSIN --name investigator >"$dir/investigator.creds"

nsc add user --account TOCSIN --name provisioner \
  --allow-sub '_INBOX_provisioner.>' \
  --allow-pub '$JS.API.>'
nsc generate creds --account TOCSIN --name provisioner >"$dir/provisioner.creds"
