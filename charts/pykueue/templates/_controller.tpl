{{/* Lays the values over the Deployment in `object`. */}}
{{- define "pykueue.setDeployment" -}}
{{- $values := .root.Values.controllerManager -}}
{{- $manager := $values.manager -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- with $values.strategy -}}{{- $_ := set $.object.spec "strategy" . -}}{{- end -}}
{{- with $manager.podAnnotations -}}{{- $_ := set $.object.spec.template.metadata "annotations" . -}}{{- end -}}
{{- range $field := list "dnsPolicy" "imagePullSecrets" "nodeSelector" "tolerations" "topologySpreadConstraints" -}}
{{- with index $values $field -}}{{- $_ := set $pod $field . -}}{{- end -}}
{{- end -}}
{{- if $values.hostNetwork -}}{{- $_ := set $pod "hostNetwork" true -}}{{- end -}}
{{- with $manager.priorityClassName -}}{{- $_ := set $pod "priorityClassName" . -}}{{- end -}}
{{- with $manager.podSecurityContext -}}{{- $_ := set $pod "securityContext" (mergeOverwrite $pod.securityContext .) -}}{{- end -}}
{{- with $manager.image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with $manager.resources -}}{{- $_ := set $container "resources" . -}}{{- end -}}
{{- with $manager.containerSecurityContext -}}
{{- $_ := set $container "securityContext" (mergeOverwrite $container.securityContext .) -}}
{{- end -}}
{{- range $probe := list "readinessProbe" "livenessProbe" -}}
{{- with index $values $probe -}}{{- $_ := set $container $probe (mergeOverwrite (index $container $probe) .) -}}{{- end -}}
{{- end -}}
{{- $level := include "pykueue.logLevel" $manager.logLevel -}}
{{- if ne $level "info" -}}{{- $_ := set $container "args" (append $container.args (printf "--log-level=%s" $level)) -}}{{- end -}}
{{- if not .certificates.enable -}}
{{- $configuration := fromYaml (include "pykueue.configuration" .root) -}}
{{- $folders := dict .certificates.webhookSecretName (dig "webhook" "certDir" "/tmp/k8s-webhook-server/serving-certs" $configuration) -}}
{{- if not .root.Values.enableWebhooks -}}{{- $folders = dict -}}{{- end -}}
{{- if .root.Values.enableCertManager -}}{{- $_ := set $folders "pykueue-metrics-cert" "/etc/kueue/metrics/certs" -}}{{- end -}}
{{- range $secret, $folder := $folders -}}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" $secret "secret" (dict "secretName" $secret))) -}}
{{- $mount := dict "name" $secret "mountPath" $folder "readOnly" true -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Lays the values over the Service in `object`. */}}
{{- define "pykueue.setService" -}}
{{- with .values.ports -}}{{- $_ := set $.object.spec "ports" . -}}{{- end -}}
{{- if ne .values.type "ClusterIP" -}}{{- $_ := set .object.spec "type" .values.type -}}{{- end -}}
{{- with .values.labels -}}{{- $_ := set $.object.metadata "labels" (mergeOverwrite $.object.metadata.labels .) -}}{{- end -}}
{{- with .values.annotations -}}{{- $_ := set $.object.metadata "annotations" . -}}{{- end -}}
{{- with .values.ipDualStack -}}
{{- if .enabled -}}
{{- $_ := set $.object.spec "ipFamilies" .ipFamilies -}}
{{- $_ := set $.object.spec "ipFamilyPolicy" .ipFamilyPolicy -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A word of --log-level; Kueue has numbers. */}}
{{- define "pykueue.logLevel" -}}
{{- $level := toString . -}}
{{- if regexMatch "^[0-9]+$" $level -}}{{- ternary "debug" "info" (gt (atoi $level) 2) -}}{{- else -}}{{- $level -}}{{- end -}}
{{- end -}}
