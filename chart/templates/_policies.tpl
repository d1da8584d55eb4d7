{{- /* What allowed-classes and required-class share. */ -}}
{{- define "podRules" -}}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [pods]
  operations: [CREATE]
  scope: Namespaced
{{- end }}

{{- define "templateRules" -}}
- apiGroups: [""]
  apiVersions: [v1]
  resources: [podtemplates, replicationcontrollers]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [apps]
  apiVersions: [v1]
  resources: [daemonsets, deployments, replicasets, statefulsets]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [batch]
  apiVersions: [v1]
  resources: [cronjobs, jobs]
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end }}

{{- define "classVariables" -}}
- name: template
  expression: >-
    request.resource.resource == "pods" ? dyn(object)
    : request.resource.resource == "podtemplates" ? dyn(object).template
    : request.resource.resource == "cronjobs" ? dyn(object).spec.jobTemplate.spec.template
    : dyn(object).spec.template
- name: annotations
  expression: dyn(namespaceObject).metadata.?annotations.orValue({})
# The class that the namespace gives to pods that name none.
- name: default
  expression: >-
    variables.annotations[?"runtimeclass-extender/default-class"].orValue("")
# Whether a template's pods are given it: the conditions of ../default-class. A pod itself has
# been given its class when it comes here.
- name: defaulted
  expression: >-
    request.resource.resource != "pods" && !(variables.default in ["", "false"])
    && !has(variables.template.spec.runtimeClassName)
    && variables.template.?metadata.?annotations[?"runtimeclass-extender/default-class"]
    .orValue("") != "false"
    && !variables.template.?metadata.?annotations[?"kubernetes.io/config.mirror"].hasValue()
    && !variables.template.spec.?hostNetwork.orValue(false)
    && !variables.template.spec.?hostPID.orValue(false)
    && variables.template.spec.?os.?name.orValue("") != "windows"
    && variables.template.spec.?nodeSelector[?"kubernetes.io/os"].orValue("") != "windows"
    && !variables.template.spec.?securityContext.?windowsOptions.hasValue()
    && !(variables.template.spec.?containers.orValue([])
    + variables.template.spec.?initContainers.orValue([]))
    .exists(each, each.?securityContext.?privileged.orValue(false)
    || each.?securityContext.?windowsOptions.hasValue())
- name: class
  expression: >-
    variables.defaulted ? variables.default
    : variables.template.spec.?runtimeClassName.orValue("")
- name: allowed
  expression: >-
    variables.annotations[?"runtimeclass-extender/allowed-classes"].orValue("*").split(",")
    .map(each, each.trim()).filter(each, each != "")
{{- end }}

{{- /* (list $ NAME) */ -}}
{{- define "classBindings" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "clusterMetadata" (list (index . 0) "runtimeclass-policies" (index . 1)) }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
  matchResources:
    resourceRules:
      {{- include "podRules" . | nindent 6 }}
---
# Whoever applies a workload is told at once that its pods will be refused.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "clusterMetadata" (list (index . 0) "runtimeclass-policies" (printf "%s-templates" (index . 1))) }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Warn, Audit]
  matchResources:
    resourceRules:
      {{- include "templateRules" . | nindent 6 }}
{{- end }}

{{- /* (list $ NAME-OF-THE-PROGRAM NAME [NAME-OF-A-SCHEDULER]) */ -}}
{{- define "markPolicy" -}}
# Kubernetes 1.36 or later (v1beta1, and off by default, in 1.34 and 1.35).
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
{{ include "clusterMetadata" . }}
spec:
  failurePolicy: Fail
  # The class may be given by a policy or webhook that comes after this one. kube-apiserver calls
  # a second time only what it has called before: so no condition here asks for a class.
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [pods]
        operations: [CREATE]
        scope: Namespaced
  matchConditions:
    # A static pod or a DaemonSet's of old: kube-scheduler never sees a pod that has its node.
    - name: has-no-node-yet
      expression: "!has(object.spec.nodeName)"
    # While kube-apiserver starts, it has no schema for some seconds and answers 503 to what a
    # mutating policy looks at: what a cluster needs to start is not looked at.
    - name: not-of-the-cluster-itself
      expression: request.namespace != "kube-system" || has(object.spec.runtimeClassName)
    {{- if gt (len .) 3 }}
    # No other scheduler ignores the mark: their pods are left alone, and so is a policy for all.
    - name: of-this-scheduler
      expression: object.spec.schedulerName == {{ index . 3 | quote }}
    {{- end }}
  variables:
    - name: marks
      expression: >-
        object.spec.?runtimeClassName.orValue("") != "" && has(object.spec.containers)
        && object.spec.containers != null && size(object.spec.containers) > 0
    - name: has
      expression: >-
        {"resources": has(object.spec.containers[0].resources),
        "resources/requests": has(object.spec.containers[0].resources)
        && has(object.spec.containers[0].resources.requests),
        "resources/limits": has(object.spec.containers[0].resources)
        && has(object.spec.containers[0].resources.limits)}
  mutations:
    # "add" replaces what is there: the mark is 1, whatever the pod's author has asked for.
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          !variables.marks ? [] :
          ["resources", "resources/requests", "resources/limits"]
          .filter(field, !variables.has[field])
          .map(field, JSONPatch{op: "add", path: "/spec/containers/0/" + field, value: {}})
          + ["requests", "limits"].map(list, JSONPatch{op: "add", value: "1",
          path: "/spec/containers/0/resources/" + list + "/runtimeclass-extender~1pod"})
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
{{ include "clusterMetadata" . }}
spec:
  policyName: {{ index . 2 }}
{{- end }}
