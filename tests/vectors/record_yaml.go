//go:build ignore

// Records how Kubernetes reads each text of yaml.json, again: in tests/kubernetes/1.36,
// go run ../../vectors/record_yaml.go
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

const file = "../../vectors/yaml.json"

// documents are those that kubectl finds in a file (k8s.io/cli-runtime, resource.StreamVisitor).
func documents(text string) ([]any, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	found := []any{}
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if len(document) > 0 {
			found = append(found, document)
		}
	}
}

func main() {
	var recorded struct {
		About string  `json:"about"`
		Cases [][]any `json:"cases"`
	}
	before, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.Unmarshal(before, &recorded); err != nil {
		log.Fatal(err)
	}
	var after bytes.Buffer
	lines := json.NewEncoder(&after)
	lines.SetEscapeHTML(false)
	fmt.Fprintf(&after, "{\n\"about\": %q,\n\"cases\": [\n", recorded.About)
	for i, each := range recorded.Cases {
		if i > 0 {
			after.Truncate(after.Len() - 1)
			after.WriteString(",\n")
		}
		answer := each[:1]
		if found, err := documents(each[0].(string)); err == nil {
			answer = append(answer, found)
		}
		if err := lines.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
	after.WriteString("]\n}\n")
	if err := os.WriteFile(file, after.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
