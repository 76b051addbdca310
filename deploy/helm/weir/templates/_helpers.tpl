{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The preset ai-gateway-quota uses the name that Envoy AI Gateway expects. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if eq .Values.preset "ai-gateway-quota" -}}
envoy-ai-gateway-ratelimit
{{- else if contains (include "weir.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "weir.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
Pods of the preset envoy-gateway have the labels that Envoy Gateway's own Service selects, so that its proxies reach
them under the name that they know. The label keys are the same as ours, but the values differ.
*/}}
{{- define "weir.podLabels" -}}
{{- if eq .Values.preset "envoy-gateway" -}}
app.kubernetes.io/name: envoy-ratelimit
app.kubernetes.io/component: ratelimit
app.kubernetes.io/managed-by: envoy-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- else -}}
{{ include "weir.selectorLabels" . }}
{{- end -}}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "weir.usesXds" -}}
{{- if has .Values.preset (list "envoy-gateway" "ai-gateway-quota") -}}true{{- end -}}
{{- end -}}

{{- define "weir.hasRedis" -}}
{{- if or .Values.redis.url (and .Values.redis.existingSecret .Values.redis.urlKey) -}}true{{- end -}}
{{- end -}}

{{/* Whether counters are shared: also if variables name the store. */}}
{{- define "weir.hasStore" -}}
{{- $own := include "weir.ownVariables" . | fromYaml -}}
{{- if or (include "weir.hasRedis" .) (hasKey $own "REDIS_URL") (eq (get $own "BACKEND_TYPE" | lower) "memcache") -}}
true
{{- end -}}
{{- end -}}

{{- define "weir.rulesConfigMap" -}}
{{- default (printf "%s-rules" (include "weir.fullname" .)) .Values.rules.existingConfigMap -}}
{{- end -}}

{{- define "weir.overlayConfigMap" -}}
{{- if .Values.overlay.existingConfigMap -}}
{{- .Values.overlay.existingConfigMap -}}
{{- else if .Values.overlay.files -}}
{{- printf "%s-overlay" (include "weir.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "weir.tlsSecret" -}}
{{- if eq .Values.preset "envoy-gateway" -}}
{{- default "envoy-rate-limit" .Values.xds.existingSecret -}}
{{- else -}}
{{- .Values.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "weir.xdsSecret" -}}
{{- if eq .Values.preset "envoy-gateway" -}}
{{- default "envoy-rate-limit" .Values.xds.existingSecret -}}
{{- else if eq .Values.preset "ai-gateway-quota" -}}
{{- .Values.xds.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "weir.gracePeriodSeconds" -}}
{{- add .Values.drain.preStopSeconds .Values.drain.delaySeconds .Values.drain.timeoutSeconds 5 -}}
{{- end -}}

{{/* Variables under `env` and `extraEnv` as YAML; one from a Secret or a ConfigMap is empty. */}}
{{- define "weir.ownVariables" -}}
{{- $own := dict -}}
{{- range $name, $value := .Values.env -}}
{{- /* Helm parses integers as floats, and 1000000 would become 1e+06. */ -}}
{{- if and (kindIs "float64" $value) (eq $value (float64 (int64 $value))) }}{{ $value = int64 $value }}{{ end -}}
{{- $_ := set $own $name (toString $value) -}}
{{- end -}}
{{- range .Values.extraEnv }}{{ $_ := set $own .name (default "" .value | toString) }}{{ end -}}
{{ toYaml $own }}
{{- end -}}

{{/* The port that a variable sets: include "weir.containerPort" (list . "GRPC_PORT" "8081"). The last number counts: `:9090`. */}}
{{- define "weir.containerPort" -}}
{{- $written := get (include "weir.ownVariables" (index . 0) | fromYaml) (index . 1) -}}
{{- default (index . 2) (regexFind "[0-9]+$" $written) -}}
{{- end -}}

{{- define "weir.debugScheme" -}}
{{- ternary "https" "http" (not (empty (get (include "weir.ownVariables" . | fromYaml) "DEBUG_TLS_CERT"))) -}}
{{- end -}}

{{- define "weir.hasMetricsPort" -}}
{{- $own := include "weir.ownVariables" . | fromYaml -}}
{{- if or (eq .Values.preset "envoy-gateway") (eq (get $own "USE_PROMETHEUS" | lower) "true") -}}true{{- end -}}
{{- end -}}

{{- define "weir.metricsPort" -}}
{{- include "weir.containerPort" (list . "PROMETHEUS_ADDR" (ternary "19001" "9090" (eq .Values.preset "envoy-gateway"))) -}}
{{- end -}}

{{- define "weir.hasSites" -}}
{{- if get (include "weir.ownVariables" . | fromYaml) "SITE" -}}true{{- end -}}
{{- end -}}

{{/* Unless set: what one worker needs, for each of them. The control process has its share of it. */}}
{{- define "weir.resources" -}}
{{- if .Values.resources -}}
{{ toYaml .Values.resources }}
{{- else -}}
{{- $workers := int .Values.workers -}}
requests:
  cpu: {{ mul 250 $workers }}m
  memory: {{ mul 256 $workers }}Mi
limits:
  memory: {{ mul 512 $workers }}Mi
{{- end -}}
{{- end -}}

{{/* Variables from the preset and the values. Variables under `env` take precedence. */}}
{{- define "weir.environment" -}}
{{- $env := dict
  "DRAIN_DELAY" (printf "%vs" .Values.drain.delaySeconds)
  "DRAIN_TIMEOUT" (printf "%vs" .Values.drain.timeoutSeconds)
  "USE_STATSD" "false" -}}
{{- if gt (int .Values.workers) 1 }}{{ $_ := set $env "WORKERS" (toString .Values.workers) }}{{ end -}}
{{- if eq .Values.preset "envoy-gateway" -}}
{{- $_ := merge $env (dict
  "CONFIG_TYPE" "GRPC_XDS_SOTW"
  "CONFIG_GRPC_XDS_SERVER_URL" (default "envoy-gateway:18001" .Values.xds.url)
  "CONFIG_GRPC_XDS_NODE_ID" (default "envoy-ratelimit" .Values.xds.nodeId)
  "FORCE_START_WITHOUT_INITIAL_CONFIG" "true"
  "USE_PROMETHEUS" "true"
  "PROMETHEUS_ADDR" ":19001") -}}
{{- else if eq .Values.preset "ai-gateway-quota" -}}
{{- $_ := merge $env (dict
  "CONFIG_TYPE" "GRPC_XDS_SOTW"
  "CONFIG_GRPC_XDS_SERVER_URL" (default "ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local:18002" .Values.xds.url)
  "CONFIG_GRPC_XDS_NODE_ID" (default "envoy-ai-gateway-ratelimit" .Values.xds.nodeId)) -}}
{{- else -}}
{{- $_ := set $env "RULES_PATH" "/etc/weir/rules" -}}
{{- end -}}
{{- if include "weir.overlayConfigMap" . }}{{ $_ := set $env "RULES_OVERLAY" "/etc/weir/overlay" }}{{ end -}}
{{- if include "weir.xdsSecret" . -}}
{{- $_ := merge $env (dict
  "CONFIG_GRPC_XDS_SERVER_USE_TLS" "true"
  "CONFIG_GRPC_XDS_CLIENT_TLS_CERT" "/etc/weir/xds-tls/tls.crt"
  "CONFIG_GRPC_XDS_CLIENT_TLS_KEY" "/etc/weir/xds-tls/tls.key"
  "CONFIG_GRPC_XDS_SERVER_TLS_CACERT" "/etc/weir/xds-tls/ca.crt") -}}
{{- end -}}
{{- if include "weir.tlsSecret" . -}}
{{- $_ := merge $env (dict
  "GRPC_SERVER_USE_TLS" "true"
  "GRPC_SERVER_TLS_CERT" "/etc/weir/tls/tls.crt"
  "GRPC_SERVER_TLS_KEY" "/etc/weir/tls/tls.key") -}}
{{- if .Values.tls.verifyClients }}{{ $_ := set $env "GRPC_CLIENT_TLS_CACERT" "/etc/weir/tls/ca.crt" }}{{ end -}}
{{- end -}}
{{- if include "weir.hasRedis" . -}}
{{- $_ := set $env "REDIS_TYPE" .Values.redis.type -}}
{{- if .Values.redis.url }}{{ $_ := set $env "REDIS_URL" .Values.redis.url }}{{ end -}}
{{- if .Values.redis.tls.enabled }}{{ $_ := set $env "REDIS_TLS" "true" }}{{ end -}}
{{- if .Values.redis.tls.existingSecret -}}
{{- $_ := set $env "REDIS_TLS_CACERT" "/etc/weir/redis-tls/ca.crt" -}}
{{- if .Values.redis.tls.clientCertificate -}}
{{- $_ := merge $env (dict "REDIS_TLS_CLIENT_CERT" "/etc/weir/redis-tls/tls.crt" "REDIS_TLS_CLIENT_KEY" "/etc/weir/redis-tls/tls.key") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $own := include "weir.ownVariables" . | fromYaml -}}
{{- range $name := keys .Values.env }}{{ $_ := set $env $name (get $own $name) }}{{ end -}}
{{- range .Values.extraEnv }}{{ $_ := unset $env .name }}{{ end -}}
{{- range $name := keys $env | sortAlpha }}
- name: {{ $name }}
  value: {{ get $env $name | quote }}
{{- end }}
{{- with .Values.redis }}
{{- if and .existingSecret .urlKey }}
- name: REDIS_URL
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .urlKey }} } }
{{- end }}
{{- if and .existingSecret .authKey }}
- name: REDIS_AUTH
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .authKey }} } }
{{- end }}
{{- end }}
{{- with .Values.adminToken }}
{{- if .existingSecret }}
- name: ADMIN_TOKEN
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .key }} } }
{{- end }}
{{- end }}
{{- end -}}

{{/* Rejects invalid values here rather than in the pod. */}}
{{- define "weir.validate" -}}
{{- if not (include "weir.hasStore" .) -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- fail "more than one replica needs redis.url or redis.existingSecret with redis.urlKey: without Redis each pod counts separately" -}}
{{- end -}}
{{- if gt (int .Values.workers) 1 -}}
{{- fail "workers above 1 need redis.url or redis.existingSecret with redis.urlKey" -}}
{{- end -}}
{{- end -}}
{{- $own := include "weir.ownVariables" . | fromYaml -}}
{{- $values := dict
  "DRAIN_DELAY" "drain.delaySeconds, from which the grace period is computed"
  "DRAIN_TIMEOUT" "drain.timeoutSeconds, from which the grace period is computed"
  "WORKERS" "workers, from which the resources are computed" -}}
{{- range $name, $value := $values -}}
{{- if hasKey $own $name }}{{ fail (printf "%s cannot be a variable under env or extraEnv: set %s" $name $value) }}{{ end -}}
{{- end -}}
{{- range $name := list "GRPC_HOST" "HOST" "DEBUG_HOST" -}}
{{- if regexMatch "^(localhost|127\\.|::1$)" (get $own $name) -}}
{{- fail (printf "%s=%s: probes and other pods could not reach the port; networkPolicy restricts who can" $name (get $own $name)) -}}
{{- end -}}
{{- end -}}
{{- if get $own "GRPC_UDS" }}{{ fail "GRPC_UDS: the pod would not listen on the port of its Service" }}{{ end -}}
{{- if and .Values.redis.url .Values.redis.urlKey -}}
{{- fail "set either redis.url or redis.urlKey, not both" -}}
{{- end -}}
{{- if and .Values.console.ingress.enabled (not .Values.console.ingress.host) -}}
{{- fail "console.ingress.enabled needs console.ingress.host" -}}
{{- end -}}
{{- end -}}
