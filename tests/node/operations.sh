# What Kubernetes' own test does with RuntimeClasses; `bash -euo pipefail` runs it.
class() {
    printf -- '---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nhandler: runc\n'
    printf 'metadata: {name: %s, labels: {test: operations}}\n' "$1"
}
found() { kubectl get runtimeclasses -l test=operations -o jsonpath='{.items[*].metadata.name}'; }
seen() { until grep -q "\"type\":\"$1\"" seen; do sleep 0.1; done; }

for verb in create get list watch update patch delete deletecollection; do
    kubectl get --raw /apis/node.k8s.io/v1 | grep "\"$verb\"" > /dev/null
done
path='/apis/node.k8s.io/v1/runtimeclasses?labelSelector=test%3Doperations'
kubectl get --raw "$path&watch=true&timeoutSeconds=60" > seen &
for each in one two three; do class $each; done | kubectl create -f -
{ class one | kubectl create -f - 2>&1 || true; } | grep AlreadyExists
[[ $(found) == 'one three two' ]]
seen ADDED
kubectl patch runtimeclass one --type=merge -p '{"metadata":{"annotations":{"patched":"true"}}}'
kubectl get runtimeclass one -o yaml | sed 's/patched:/updated: "true"\n    &/' | kubectl replace -f -
[[ $(kubectl get runtimeclass one -o jsonpath='{.metadata.annotations}') == *patched*updated* ]]
seen MODIFIED
kubectl delete runtimeclass one
[[ $(found) == 'three two' ]]
kubectl delete --raw "$path"
[[ -z $(found) ]]
seen DELETED
kill %1
