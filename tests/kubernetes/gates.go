//go:build ignore

// Prints the feature gates of the Kubernetes whose go.mod is in the current folder, as JSON:
// {"NAME": {"stage": "BETA", "isOn": true}, …}.
package main

import (
	"encoding/json"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/kubernetes/pkg/features"
)

type gate struct {
	Stage string `json:"stage"`
	IsOn  bool   `json:"isOn"`
}

func main() {
	found := map[string]gate{}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		found[string(name)] = gate{stage, spec.Default}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
