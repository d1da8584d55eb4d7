# Two namespaces with policies of their own, and a tenant who would lift them; again and again.
kubectl delete --ignore-not-found namespace team-a team-b
kubectl delete --ignore-not-found clusterrolebinding tenant tenant-assigns
kubectl delete --ignore-not-found clusterrole tenant
kubectl create namespace team-a
kubectl create namespace team-b
allowed=runtimeclass-extender/allowed-classes
kubectl annotate namespace team-a $allowed=crun runtimeclass-extender/default-class=crun
kubectl annotate namespace team-b runtimeclass-extender/required=true
kubectl create clusterrole tenant --verb=get,patch --resource=namespaces
kubectl create clusterrolebinding tenant --clusterrole=tenant --user=tenant
# The role's bindings are known to kube-apiserver a moment later.
until kubectl auth can-i patch namespaces --as=tenant; do sleep 0.1; done
kubectl annotate namespace team-a runtimeclass-extender/default-class- --as=tenant || true
kubectl create clusterrolebinding tenant-assigns --clusterrole=runtimeclass-assigner --user=tenant
until kubectl auth can-i assign runtimeclasses --as=tenant; do sleep 0.1; done
kubectl annotate namespace team-b $allowed=crun --as=tenant
kubectl annotate --overwrite namespace team-a runtimeclass-extender/default-class=crun
