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
# The namespace's default class.
- name: default
  expression: >-
    variables.annotations[?"runtimeclass-extender/default-class"].orValue("")
# Whether a template's pods would get the default class: the conditions of ../default-class. A pod
# itself already has its class here.
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
# Warn users who apply a workload whose pods would be refused.
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
  # A later policy or webhook may set runtimeClassName. kube-apiserver then runs again only the
  # policies whose matchConditions matched the first time. So no matchCondition may require a class.
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [pods]
        operations: [CREATE]
        scope: Namespaced
  matchConditions:
    # Skip pods that already have spec.nodeName, such as mirror pods: kube-scheduler does not
    # schedule them.
    - name: has-no-node-yet
      expression: "!has(object.spec.nodeName)"
    # For some seconds after its start, kube-apiserver has no schemas and answers 503 for each pod
    # that a mutating policy matches. So the policy skips pods without a class in kube-system.
    - name: not-of-the-cluster-itself
      expression: request.namespace != "kube-system" || has(object.spec.runtimeClassName)
    {{- if gt (len .) 3 }}
    # Only this scheduler ignores the resource, so mark only its pods. Other schedulers would leave
    # marked pods Pending.
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
    # "add" replaces an existing value: the request is always 1.
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
