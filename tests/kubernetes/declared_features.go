//go:build ignore

// Prints the features that nodes of the Kubernetes whose go.mod is in the current folder may
// declare, and for each Pod of a JSON list on standard input those that kube-scheduler infers:
// {"registry": ["A", …], "needed": [["A"], …]}.
package main

import (
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
)

func main() {
	var pods []v1.Pod
	if err := json.NewDecoder(os.Stdin).Decode(&pods); err != nil {
		panic(err)
	}
	found := struct {
		Registry []string   `json:"registry"`
		Needed   [][]string `json:"needed"`
	}{}
	for _, feature := range features.AllFeatures {
		found.Registry = append(found.Registry, feature.Name())
	}
	for i := range pods {
		needed := []string{}
		for _, feature := range features.AllFeatures {
			if feature.InferForScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pods[i].Spec}) {
				needed = append(needed, feature.Name())
			}
		}
		found.Needed = append(found.Needed, needed)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
