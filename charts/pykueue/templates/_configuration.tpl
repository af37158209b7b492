{{/* The Configuration: the text, with the single fields and feature gates laid over it. */}}
{{- define "pykueue.configuration" -}}
{{- $text := fromYaml (.Values.managerConfig.controllerManagerConfigYaml | default "{}") -}}
{{- $base := dict "apiVersion" "config.kueue.x-k8s.io/v1beta2" "kind" "Configuration" "namespace" .Release.Namespace -}}
{{- $made := mergeOverwrite $base $text (.Values.controllerManager.manager.configuration | default dict) -}}
{{- range .Values.controllerManager.featureGates -}}
{{- $_ := set $made "featureGates" (merge (dict .name .enabled) ($made.featureGates | default dict)) -}}
{{- end -}}
{{- if .Values.enableCertManager -}}
{{- $_ := set $made "internalCertManagement" (mergeOverwrite ($made.internalCertManagement | default dict) (dict "enable" false)) -}}
{{- end -}}
{{- toYaml $made -}}
{{- end -}}

{{/* Names of the enabled job kinds, as JSON. */}}
{{- define "pykueue.frameworks" -}}
{{- $configuration := fromYaml (include "pykueue.configuration" .) -}}
{{- $listed := dig "integrations" "frameworks" (list "batch/job") $configuration -}}
{{- if or (has "deployment" $listed) (has "statefulset" $listed) (has "leaderworkerset.x-k8s.io/leaderworkerset" $listed) -}}
{{- $listed = append $listed "pod" -}}
{{- end -}}
{{- toJson (uniq $listed) -}}
{{- end -}}

{{/* File name of a job kind. */}}
{{- define "pykueue.slug" -}}{{- . | replace "/" "-" | replace "." "-" -}}{{- end -}}

{{/* Port of an address, or a default where it has none. */}}
{{- define "pykueue.port" -}}{{- splitList ":" . | last -}}{{- end -}}

{{/* Names of the Service and the Secret of the webhooks, and whether the controller makes certificates, as JSON. */}}
{{- define "pykueue.certificates" -}}
{{- $default := dict "webhookServiceName" "kueue-webhook-service" "webhookSecretName" "kueue-webhook-server-cert" -}}
{{- $configuration := fromYaml (include "pykueue.configuration" .) -}}
{{- $certificates := merge (dict) ($configuration.internalCertManagement | default dict) $default -}}
{{- toJson (set $certificates "enable" (dig "internalCertManagement" "enable" true $configuration)) -}}
{{- end -}}

{{/* All namespaces but the system's and our own, as the JSON of a requirement. */}}
{{- define "pykueue.otherNamespaces" -}}
{{- toJson (dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" .Release.Namespace)) -}}
{{- end -}}
