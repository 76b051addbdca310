{{- define "weir.volumeMounts" -}}
{{- if not (include "weir.usesXds" .) }}
- { name: rules, mountPath: /etc/weir/rules, readOnly: true }
{{- end }}
{{- if include "weir.overlayConfigMap" . }}
- { name: overlay, mountPath: /etc/weir/overlay, readOnly: true }
{{- end }}
{{- if include "weir.tlsSecret" . }}
- { name: tls, mountPath: /etc/weir/tls, readOnly: true }
{{- end }}
{{- if include "weir.xdsSecret" . }}
- { name: xds-tls, mountPath: /etc/weir/xds-tls, readOnly: true }
{{- end }}
{{- if .Values.redis.tls.existingSecret }}
- { name: redis-tls, mountPath: /etc/weir/redis-tls, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "weir.volumes" -}}
{{- if not (include "weir.usesXds" .) }}
- name: rules
  configMap: { name: {{ include "weir.rulesConfigMap" . }} }
{{- end }}
{{- with include "weir.overlayConfigMap" . }}
- name: overlay
  configMap: { name: {{ . }} }
{{- end }}
{{- with include "weir.tlsSecret" . }}
- name: tls
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with include "weir.xdsSecret" . }}
- name: xds-tls
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.redis.tls.existingSecret }}
- name: redis-tls
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
