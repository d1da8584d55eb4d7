//go:build ignore

// Records what kube-scheduler finds lacking for each pod of static_fit.json, again: in
// tests/kubernetes/1.36, go run ../../vectors/record_fit.go
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"sort"

	v1 "k8s.io/api/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

const file = "../../vectors/static_fit.json"

type node struct {
	Allocatable v1.ResourceList `json:"allocatable"`
	Lacking     []string        `json:"lacking"`
}

// lacking says of a pod what an empty node has too little of.
func lacking(spec v1.PodSpec, allocatable v1.ResourceList) []noderesources.InsufficientResource {
	pod := v1.Pod{Spec: spec}
	// As kube-apiserver stores it.
	defaults.SetObjectDefaults_Pod(&pod)
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: allocatable}})
	options := noderesources.ResourceRequestsOptions{EnablePodLevelResources: true}
	return noderesources.Fits(&pod, info, nil, options)
}

func main() {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var vectors map[string]any
	if err := json.Unmarshal(text, &vectors); err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	about, _ := json.Marshal(vectors["about"])
	out.WriteString("{\n \"about\": " + string(about) + ",\n \"cases\": [\n")
	cases := vectors["cases"].([]any)
	for at, each := range cases {
		raw, _ := json.Marshal(each)
		var read struct {
			Spec  v1.PodSpec
			Nodes []node
		}
		if err := json.Unmarshal(raw, &read); err != nil {
			log.Fatalf("case %d: %v", at, err)
		}
		again := each.(map[string]any)
		// A node with nothing lacks all that is asked for, except room for one pod.
		asked := map[string]int64{}
		for _, each := range lacking(read.Spec, nil) {
			if each.ResourceName != v1.ResourcePods {
				asked[string(each.ResourceName)] = each.Requested
			}
		}
		again["asked"] = asked
		for number, has := range read.Nodes {
			found := []string{}
			for _, each := range lacking(read.Spec, has.Allocatable) {
				found = append(found, string(each.ResourceName))
			}
			sort.Strings(found)
			again["nodes"].([]any)[number].(map[string]any)["lacking"] = found
		}
		line, _ := json.Marshal(again)
		out.WriteString("  " + string(line))
		if at < len(cases)-1 {
			out.WriteString(",")
		}
		out.WriteString("\n")
	}
	out.WriteString(" ]\n}\n")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
