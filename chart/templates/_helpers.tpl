{{- define "image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "extender.image" -}}
{{ include "image" (merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image) }}
{{- end }}

{{- /* The labels of an object: (list $ NAME). */ -}}
{{- define "labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/part-of: runtimeclass-extender
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}

{{- /* The metadata of an object in the release's namespace: (list $ NAME-OF-THE-PROGRAM [NAME]). */ -}}
{{- define "metadata" -}}
metadata:
  name: {{ if gt (len .) 2 }}{{ index . 2 }}{{ else }}{{ index . 1 }}{{ end }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
{{- end }}

{{- define "clusterMetadata" -}}
metadata:
  name: {{ if gt (len .) 2 }}{{ index . 2 }}{{ else }}{{ index . 1 }}{{ end }}
  labels:
    {{- include "labels" . | nindent 4 }}
{{- end }}

{{- /* What every pod has: (list $ NAME). */ -}}
{{- define "pod" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
serviceAccountName: {{ $name }}
priorityClassName: {{ $root.Values.priorityClassName }}
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
nodeSelector:
  {{- toYaml $root.Values.nodeSelector | nindent 2 }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  # Two nodes, if two nodes accept the pods; otherwise both pods run on one.
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: DoNotSchedule
    nodeTaintsPolicy: Honor
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ $name }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ $name }}
{{- end }}

{{- define "containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /* Probes of the listener of --ops-bind. Argument: the path of the startup probe. */ -}}
{{- define "probes" -}}
startupProbe:
  httpGet: {path: {{ . }}, port: ops}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /livez, port: ops}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: ops}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{- /* An upgrade removes no replica before a new one is ready: (list NAME REPLICAS). */ -}}
{{- define "replicas" -}}
replicas: {{ index . 1 }}
selector:
  matchLabels:
    app.kubernetes.io/name: {{ index . 0 }}
strategy:
  rollingUpdate:
    maxUnavailable: 0
    maxSurge: 1
{{- end }}

{{- /* (list $ NAME REPLICAS) */ -}}
{{- define "disruptionBudget" -}}
{{- if gt (int (index . 2)) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "metadata" (list (index . 0) (index . 1)) }}
spec:
  minAvailable: 1
  # Pods that are not ready must not block a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ index . 1 }}
{{- end }}
{{- end }}

{{- define "metricsService" -}}
---
# Prometheus scrapes the plain-HTTP port of --ops-bind. Headless, so that it scrapes each replica.
apiVersion: v1
kind: Service
metadata:
  name: {{ index . 1 }}-metrics
  namespace: {{ (index . 0).Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
    app.kubernetes.io/component: metrics
spec:
  clusterIP: None
  selector:
    app.kubernetes.io/name: {{ index . 1 }}
  ports:
    - name: ops
      port: 8080
      targetPort: ops
{{- end }}

{{- define "serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "metadata" . }}
{{- end }}

{{- /* (list $ NAME-OF-THE-PROGRAM NAME SUBJECT-IN-YAML) */ -}}
{{- define "serviceRights" -}}
# The rights of the service, the same for each way to run it.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
{{ include "clusterMetadata" . }}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list, watch]
  # get: look up a class that the cache does not have yet
  - apiGroups: [node.k8s.io]
    resources: [runtimeclasses]
    verbs: [get, list, watch]
  # get: /explain?pod=; list: also for what runs on the nodes; list, watch: --distrust, --watch-pods;
  # list, patch: --requeue-pods, which the policy below restricts to one annotation
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, patch]
  # --distrust reports suspect handlers as Events of their nodes
  - apiGroups: [""]
    resources: [events]
    verbs: [create]
  # /explain?pod= reports whether the pod's namespace allows its class
  - apiGroups: [""]
    resources: [namespaces]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
{{ include "clusterMetadata" . }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ index . 2 }}}
subjects:
  - {{ index . 3 }}
{{- end }}

{{- /* A service account as a subject: (list $ NAME). */ -}}
{{- define "account" -}}
{kind: ServiceAccount, name: {{ index . 1 }}, namespace: {{ (index . 0).Release.Namespace }}}
{{- end }}

{{- /* (list $ NAME-OF-THE-PROGRAM NAME USER) */ -}}
{{- define "requeueGuard" -}}
# RBAC can't allow annotations only: users who may patch pods may also change a container's image.
# This policy lets the service change only one annotation of a pod. --requeue-pods needs it to make
# kube-scheduler try the pod again.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
{{ include "clusterMetadata" . }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [pods]
        operations: [UPDATE]
  matchConditions:
    - name: by-the-extender
      expression: request.userInfo.username == {{ index . 3 | quote }}
  variables:
    - name: before
      expression: oldObject.metadata.?annotations.orValue({})
    - name: after
      expression: object.metadata.?annotations.orValue({})
  validations:
    - expression: object.spec == oldObject.spec
      message: the RuntimeClass extender may not change a pod's spec
    - expression: >-
        object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?finalizers == oldObject.metadata.?finalizers
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
      message: the RuntimeClass extender may not change a pod's labels, finalizers or owners
    - expression: >-
        variables.after.all(key, key == "runtimeclass-extender/retry"
        || (key in variables.before && variables.before[key] == variables.after[key]))
        && variables.before.all(key, key in variables.after)
      message: the RuntimeClass extender may change one annotation of its own only
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "clusterMetadata" . }}
spec:
  policyName: {{ index . 2 }}
  validationActions: [Deny]
{{- end }}

{{- define "accountName" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ index . 1 }}
{{- end }}

{{- /* Connections from the pods to the API server and the DNS, if networkPolicy.apiServer is set. */ -}}
{{- define "egress" -}}
{{- with .Values.networkPolicy.apiServer }}
egress:
  # kube-apiserver: its Service has port 443, its endpoints mostly 6443.
  - to:
      {{- range . }}
      - ipBlock: {cidr: {{ . | quote }}}
      {{- end }}
    ports:
      - {protocol: TCP, port: 443}
      - {protocol: TCP, port: 6443}
  - to:
      - namespaceSelector:
          matchLabels:
            kubernetes.io/metadata.name: kube-system
    ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
{{- end }}
{{- end }}

{{- /* (list $ NAME PORTS-OF-PROMETHEUS INGRESS-IN-YAML) */ -}}
{{- define "networkPolicy" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "metadata" (list $root (index . 1)) }}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ index . 1 }}
  policyTypes: [Ingress{{ if $root.Values.networkPolicy.apiServer }}, Egress{{ end }}]
  ingress:
    {{- with index . 3 }}
    {{- . | nindent 4 }}
    {{- end }}
    # The namespace of your Prometheus{{ if and $root.Values.pages $root.Values.networkPolicy.apiServer }}, and the API server's proxy{{ end }}. Kubelet's probes always pass.
    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: {{ $root.Values.monitoring.namespace }}
        {{- if $root.Values.pages }}
        {{- range $root.Values.networkPolicy.apiServer }}
        - ipBlock: {cidr: {{ . | quote }}}
        {{- end }}
        {{- end }}
      ports:
        {{- range index . 2 }}
        - {protocol: TCP, port: {{ . }}}
        {{- end }}
  {{- include "egress" $root | nindent 2 }}
{{- end }}
{{- end }}

{{- /* For a container that serves TLS. */ -}}
{{- define "tlsContainer" -}}
ports:
  - {name: https, containerPort: 8443}
  - {name: ops, containerPort: 8080}
{{ include "probes" "/livez" }}
lifecycle:
  # Clients still call for a moment after the endpoint is removed.
  preStop:
    sleep: {seconds: 5}
{{ include "containerSecurity" . }}
volumeMounts:
  # The whole folder: a single file (subPath) would not change when the Secret changes.
  - name: tls
    mountPath: /tls
    readOnly: true
{{- end }}

{{- define "tlsVolume" -}}
volumes:
  - name: tls
    secret:
      secretName: {{ . }}-tls
      defaultMode: 0440
{{- end }}

{{- define "tlsService" -}}
---
apiVersion: v1
kind: Service
{{ include "metadata" . }}
spec:
  selector:
    app.kubernetes.io/name: {{ index . 1 }}
  ports:
    - name: https
      port: 443
      targetPort: https
{{- end }}

{{- define "issuerAndAuthority" -}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
{{ include "metadata" (list (index . 0) (index . 1) (printf "%s-self-signed" (index . 1))) }}
spec:
  selfSigned: {}
---
# A dedicated CA: clients trust the old and the new certificate while one replaces the other.
apiVersion: cert-manager.io/v1
kind: Certificate
{{ include "metadata" (list (index . 0) (index . 1) (printf "%s-ca" (index . 1))) }}
spec:
  isCA: true
  commonName: {{ index . 1 }}-ca
  secretName: {{ index . 1 }}-ca
  duration: 87600h
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: {{ index . 1 }}-self-signed, kind: Issuer}
---
apiVersion: cert-manager.io/v1
kind: Issuer
{{ include "metadata" (list (index . 0) (index . 1)) }}
spec:
  ca:
    secretName: {{ index . 1 }}-ca
{{- end }}

{{- /* A certificate of cert-manager: (list $ NAME SECRET USAGE HOST-OR-COMMON-NAME-IN-YAML). */ -}}
{{- define "certificate" -}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
{{ include "metadata" . }}
spec:
  secretName: {{ index . 2 }}
  {{ index . 4 }}
  usages: [digital signature, {{ index . 3 }}]
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  issuerRef: {name: {{ index . 1 }}, kind: Issuer}
{{- end }}

{{- /* The certificate of Helm, or the existing one: (list $ NAME SECRET DATA). */ -}}
{{- define "tlsSecret" -}}
---
apiVersion: v1
kind: Secret
{{ include "metadata" . }}
type: kubernetes.io/tls
data:
  {{- toYaml (index . 3) | nindent 2 }}
{{- end }}

{{- define "generated" -}}
{{- $root := index . 0 -}}
{{- $host := index . 2 -}}
{{- $authority := index . 3 -}}
{{- $made := genSignedCertWithKey $host nil (list $host) 3650 $authority (genPrivateKey "ecdsa") -}}
{{- dict "ca.crt" ($authority.Cert | b64enc) "tls.crt" ($made.Cert | b64enc) "tls.key" ($made.Key | b64enc) | toJson }}
{{- end }}
