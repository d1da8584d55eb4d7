{{- /* The second scheduler's KubeSchedulerConfiguration. */ -}}
{{- define "kubeSchedulerConfiguration" -}}
{{- $instead := eq .Values.plugin "instead" -}}
{{- $marked := .Values.secondScheduler.marked -}}
# {{ $instead | ternary "Instead of" "Beside" }} the RuntimeClass admission plugin, for pods with schedulerName: runtimeclass-scheduler.
{{- if $marked }}
# kube-scheduler calls the service only for pods that request runtimeclass-extender/pod. The policy
# runtimeclass-scheduler-mark adds this request to each pod of this scheduler with a RuntimeClass
# (docs/scheduler-cost.md).
{{- end }}
{{- if not $instead }}
# While the service does not answer, pods are placed without it, by the nodeSelector and tolerations
# that the plugin has merged into them.
{{- else if $marked }}
# While the service does not answer, marked pods stay Pending. All other pods are placed.
{{- else }}
# While the service does not answer, all pods of this scheduler stay Pending, also those without a
# RuntimeClass.
{{- end }}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kube-scheduler/kubeconfig.yaml
leaderElection:
  leaderElect: true
  resourceName: runtimeclass-scheduler
  resourceNamespace: {{ .Release.Namespace }}
{{- if $instead }}
# By default kube-scheduler stops filtering when enough nodes fit, and only then calls its
# extenders. The service may refuse all these nodes although another node would fit. So
# kube-scheduler must filter all nodes.
percentageOfNodesToScore: 100
{{- end }}
profiles:
  - schedulerName: runtimeclass-scheduler
    {{- if $instead }}
    pluginConfig:
      - name: DefaultPreemption
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: DefaultPreemptionArgs
          # Preemption samples nodes too.
          minCandidateNodesPercentage: 100
    {{- end }}
extenders:
  - urlPrefix: http://127.0.0.1:8888
    filterVerb: filter
    preemptVerb: preempt
    {{- if or $marked .Values.secondScheduler.prioritize }}
    prioritizeVerb: prioritize
    weight: 3
    {{- else }}
    # Add these two lines (secondScheduler.prioritize=true) if only labels, and no taint, reserve
    # nodes for a class. Pods without a class then prefer other nodes. The second HTTP call for each
    # pod lowers the pods per second (docs/scheduler-cost.md).
    # prioritizeVerb: prioritize
    # weight: 3
    {{- end }}
    # Send names instead of whole nodes. With false, kube-scheduler 1.33 and later scores nodes as
    # if they were idle (kubernetes/kubernetes#141781).
    nodeCacheCapable: true
    # The slowest answer takes 1.1 s (looking up a class at the API server).
    httpTimeout: 2s
    {{- if $instead }}
    # Without the admission plugin, only the service refuses nodes that can't run the pod's class.
    # So kube-scheduler must not continue without it.
    {{- end }}
    ignorable: {{ not $instead }}
    {{- if $marked }}
    managedResources:
      - name: runtimeclass-extender/pod
        ignoredByScheduler: true # no node has it
    {{- else }}
    # No managedResources: with them, kube-scheduler calls the service only for marked pods.
    {{- end }}
{{- end }}
