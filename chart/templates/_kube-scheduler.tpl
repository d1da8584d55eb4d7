{{- /* The second scheduler's KubeSchedulerConfiguration. */ -}}
{{- define "kubeSchedulerConfiguration" -}}
{{- $instead := eq .Values.plugin "instead" -}}
{{- $marked := .Values.secondScheduler.marked -}}
# {{ $instead | ternary "Instead of" "Beside" }} the RuntimeClass admission plugin, for pods with schedulerName: runtimeclass-scheduler.
{{- if $marked }}
# Only pods that name a RuntimeClass are asked about, once something marks them.
{{- end }}
{{- if not $instead }}
# While the service is away every pod of this scheduler keeps scheduling, on what the plugin has
# merged into it.
{{- else if $marked }}
# While the service is away none of those is placed; others are.
{{- else }}
# While the service is away no pod of this scheduler is placed, with a RuntimeClass or without.
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
# By default kube-scheduler stops looking once enough nodes fit, before it asks its extenders; of
# those the service might refuse every one though another node fits.
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
    # Where nodes are kept for a class by its labels alone, without a taint, add these two lines
    # (secondScheduler.prioritize=true): plain pods then leave them free, and a second call a pod
    # costs pods a second (docs/scheduler-cost.md).
    # prioritizeVerb: prioritize
    # weight: 3
    {{- end }}
    # Names instead of whole nodes. With false, 1.33 and later score nodes as if they were idle
    # (kubernetes/kubernetes#141781).
    nodeCacheCapable: true
    # The slowest answer planned for takes 1.1 s (a class looked up at the API server).
    httpTimeout: 2s
    {{- if $instead }}
    # Nobody else keeps a pod off the nodes that can't run its class.
    {{- end }}
    ignorable: {{ not $instead }}
    {{- if $marked }}
    # Only pods that carry this mark are asked about; the policy runtimeclass-scheduler-mark gives it
    # to pods of this scheduler that name a RuntimeClass (docs/scheduler-cost.md).
    managedResources:
      - name: runtimeclass-extender/pod
        ignoredByScheduler: true # no node has it
    {{- else }}
    # No managedResources: they would hide from the service every pod that is not marked.
    {{- end }}
{{- end }}
